"""A damaged model folder is reported when it is loaded, in one line that names the file and the remedy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32 as whole_crc32

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmtkit import folders
from nmtkit.errors import UserError
from nmtkit.experiment.model import load_model
from nmtkit.experiment.run import run_experiment
from nmtkit.folders import ModelFolder
from nmtkit.training import averaging, checkpoint
from nmtkit.translation.loading import load, write_ensemble
from tests.training.conftest import small_experiment

CPU = torch.device("cpu")
Damage = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_experiment(small_experiment(max_updates=4, valid_every=2), data, folder, CPU)
    (folder / "notes.txt").write_text("mine\n")
    return folder


@pytest.fixture
def models(run: Path, tmp_path: Path) -> dict[str, Path]:
    """A run, an average of it and an ensemble of both, each as a folder, and a member of the ensemble."""
    folders = {kind: tmp_path / kind for kind in ("run", "average", "ensemble")}
    shutil.copytree(run, folders["run"])
    averaging.average(ModelFolder(folders["run"]), ModelFolder(folders["average"]), [])
    write_ensemble([folders["run"], folders["average"]], folders["ensemble"], "prob", None)
    return {**folders, "member": folders["ensemble"] / "members" / "1-run"}


def files(folder: Path) -> set[str]:
    """All files of a model folder with checksums, weights included."""
    weights = ModelFolder(folder).chosen_weights()
    sums = json.loads((folder / folders.CHECKSUMS).read_text()).keys()
    return {*sums, str(weights.relative_to(folder))}


@pytest.mark.parametrize("kind", ["run", "average", "member"])
def test_every_file_that_translation_needs_has_a_checksum(kind: str, models: dict[str, Path]) -> None:
    folder = models[kind]
    updates = [name for name in files(folder) if name.startswith("checkpoints/step-")]
    assert len(updates) == 1
    assert files(folder) == {
        "config.yaml",
        "data.json",
        "prep.yaml",
        "vocab.src",
        "vocab.tgt",
        *updates,
    }
    assert load_model(folder, CPU)[0].training is False


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: bytes([b[0] ^ 1]) + b[1:], lambda b: b + b"\n"])
@pytest.mark.parametrize("kind", ["run", "average", "member"])
def test_a_damaged_file_is_reported_by_every_command_that_loads_the_model(
    kind: str, damage: Damage, models: dict[str, Path]
) -> None:
    for name in files(models[kind]):
        path = models[kind] / name
        whole = path.read_bytes()
        path.write_bytes(damage(whole))
        with pytest.raises(UserError, match=rf"{path}: (not |does not match)"):
            load(models["ensemble"] if kind == "member" else models[kind], "cpu")
        path.write_bytes(whole)
    load(models[kind], "cpu")


def test_the_message_says_what_to_do(models: dict[str, Path], data: Path) -> None:
    (models["run"] / "vocab.tgt").write_text((models["run"] / "vocab.tgt").read_text() + "new\t0\n")
    remedy = rf"vocab\.tgt: does not match its checksum: .* copy it again.*, delete {models['run']}/checksums\.json"
    with pytest.raises(UserError, match=remedy):
        load_model(models["run"], CPU)
    with pytest.raises(UserError, match=remedy):  # nor is the damage averaged
        averaging.average(ModelFolder(models["run"]), ModelFolder(models["average"]), [])
    with pytest.raises(UserError, match=remedy):  # nor is the run resumed
        run_experiment(small_experiment(max_updates=6, valid_every=2), data, models["run"], CPU)
    (models["run"] / "checksums.json").unlink()
    averaging.average(ModelFolder(models["run"]), ModelFolder(models["average"]), [])

    (models["ensemble"] / "ensemble.yaml").write_text("members: [1-run]\ncombine: prob\nweights: [1]\n")
    with pytest.raises(UserError, match=r"ensemble\.yaml: does not match its checksum"):
        load(models["ensemble"], "cpu")


def test_a_missing_file_is_also_noticed(run: Path, tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "run")
    shutil.copytree(run, folder.path)
    folder.text.lexicon.write_text("ba\tbe\t1\t1\n")
    folder.seal()
    folder.text.lexicon.unlink()
    with pytest.raises(UserError, match=r"lexicon\.tsv: does not match its checksum: damaged, changed or missing"):
        load_model(folder.path, CPU)


def test_training_resumes_without_checksums_and_writes_them(data: Path, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    for path in (tmp_path / "run").rglob(folders.CHECKSUMS):
        path.unlink()  # as in a folder of nmtkit 0.1, or of a process that was killed while it wrote them
    run_experiment(small_experiment(max_updates=6, valid_every=2), data, tmp_path / "run", CPU)
    assert "config.yaml" in files(tmp_path / "run")
    assert folders.changed_file(ModelFolder(tmp_path / "run").checkpoint(6)) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"config.yaml": 3}', b'{"config.yaml": "no"}', b"\xff"])
def test_damaged_checksums_are_reported(content: bytes, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / folders.CHECKSUMS).write_bytes(content)
    with pytest.raises(UserError, match=r"checksums\.json: damaged; copy it again, or delete it"):
        load_model(tmp_path / "run", CPU)


@given(st.binary(max_size=200), st.integers(1, 64))
def test_a_checksum_does_not_depend_on_the_blocks(tmp_path_factory: Any, content: bytes, block: int) -> None:
    path = tmp_path_factory.getbasetemp() / "content"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "_BLOCK", block)
        assert folders.crc32(path) == whole_crc32(content)


def test_weights_are_verified_whenever_they_are_loaded(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    path = ModelFolder(tmp_path / "run").weights(4)
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)
    remedy = r"not a usable weights file \(changed since it was written\); copy it again, or delete .*step-4 to use an"
    with pytest.raises(UserError, match=rf"step-4/model\.safetensors: {remedy}"):
        checkpoint.load_weights(path)
