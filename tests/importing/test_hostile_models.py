"""Models of other toolkits whose files are pipes or devices, reading which might never end."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.importing.reading import read, write
from nmtkit.text.sentencepieces import learn_sentencepieces
from tests.importing import marian, nematus_files, test_fairseq, transformers_files

pytestmark = pytest.mark.usefixtures("alarm")


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


every_kind = pytest.mark.parametrize("endless", [os.mkfifo, zero])


def replaced(folder: Path, name: str, endless: Callable[[Path], None]) -> None:
    (folder / name).unlink(missing_ok=True)
    endless(folder / name)


def write_nematus(folder: Path) -> str:
    nematus_files.write(folder, "bideep")
    return "model.npz"


def write_marian(folder: Path) -> str:
    marian.write(marian.model("s2s"), folder)
    return "model.npz"


def write_transformers(folder: Path) -> str:
    transformers_files.write(folder)
    return "model.safetensors"


def write_fairseq(folder: Path) -> str:
    test_fairseq.write(folder)
    return "model.pt"


@every_kind
@pytest.mark.parametrize(
    ("write", "name"),
    [
        *((write_nematus, name) for name in ("model.npz", "model.npz.json", "vocab.en.json")),
        *((write_marian, name) for name in ("model.npz", "decoder.yml", "vocab.yml")),
        *((write_fairseq, name) for name in ("model.pt", "dict.en.txt")),
        *((write_transformers, name) for name in ("model.safetensors", "config.json", "vocab.json")),
    ],
)
def test_a_model_with_a_pipe_or_a_device_is_refused(
    write: Callable[[Path], str], name: str, endless: Callable[[Path], None], tmp_path: Path
) -> None:
    weights = write(tmp_path)
    replaced(tmp_path, name, endless)
    for path in (tmp_path, tmp_path / weights):
        with pytest.raises(UserError, match=f"{name}: not found|not a model that nmtkit can import") as refused:
            read(path)
        assert "\n" not in str(refused.value)


def test_parameters_that_are_not_those_of_the_model_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    nematus_files.write(tmp_path / "theirs", "bideep")
    found, ours = read(tmp_path / "theirs"), ModelFolder(tmp_path / "ours")
    (first, value), *_ = found.parameters.items()
    for parameters in ({first: value[1:]}, {first: None}, {"another": value}):
        changed = {name: x for name, x in {**found.parameters, **parameters}.items() if x is not None}
        complaint = "another: expected shape None" if "another" in parameters else f"{first}: expected shape"
        with pytest.raises(UserError, match=complaint):
            write(replace(found, parameters=changed), tmp_path / "theirs", ours)
    assert not ours.path.exists()


@every_kind
@pytest.mark.parametrize("name", ["codes.bpe", "truecase-model.en"])
def test_codes_of_a_nematus_model_are_files(name: str, endless: Callable[[Path], None], tmp_path: Path) -> None:
    nematus_files.write(tmp_path, "bideep")
    replaced(tmp_path, name, endless)
    assert not read(tmp_path).files


@every_kind
@pytest.mark.parametrize("name", ["source.spm", "source.bpe", "preprocess.sh"])
def test_subwords_of_a_marian_model_are_files(name: str, endless: Callable[[Path], None], tmp_path: Path) -> None:
    marian.write(marian.model("s2s"), tmp_path)
    replaced(tmp_path, name, endless)
    assert not read(tmp_path).files
    if name == "source.spm":
        (tmp_path / "target.spm").write_bytes(learn_sentencepieces(Counter({"the": 5, "cat": 4}), 9, ["en"]))
        with pytest.raises(UserError, match=r"source\.spm: not found, but target\.spm is there"):
            read(tmp_path)


def test_an_empty_sentencepiece_model_of_marian_is_refused(tmp_path: Path) -> None:
    marian.write(marian.model("s2s"), tmp_path)
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"source\.spm: not a SentencePiece model"):
        read(tmp_path)
