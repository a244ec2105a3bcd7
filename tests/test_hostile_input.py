"""With any content of a file that nmtkit reads, the outcome is a result or a UserError: no traceback, no changed file.

Each test takes a good file and damages it: cut short, bytes changed, inserted, repeated or taken out, another file
altogether. ``FUZZ=5000 pytest tests/test_hostile_input.py`` tries that many inputs of each, new ones every time.
"""

import gzip
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import nmtkit
from nmtkit.align.lexicon import Lexicon
from nmtkit.align.pharaoh import read_alignment, read_gold
from nmtkit.config import dump_yaml, load_yaml, parse_settings, parse_yaml, to_dict
from nmtkit.data.corpus import Corpus
from nmtkit.data.encoding import encode
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.evaluation import contrast
from nmtkit.evaluation.report import History, read_metrics, training_charts
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.run import check_unchanged, prepare_folder
from nmtkit.experiment.schema import build_experiment
from nmtkit.folders import ModelFolder
from nmtkit.lines import read_lines
from nmtkit.symbols import SPELLINGS
from nmtkit.text.manifest import verify
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.sentencepieces import SentencePieces
from nmtkit.text.settings import Prep, Side, load_prep
from nmtkit.training import checkpoint
from nmtkit.training.metrics import rewind_metrics
from nmtkit.training.progress import Progress
from tests.conftest import piped
from tests.echo import write_model
from tests.training.conftest import make_data, small_experiment

FUZZ = int(os.environ.get("FUZZ", "0"))
fuzz = settings(
    max_examples=FUZZ or 50,
    derandomize=not FUZZ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """One to three changes of a good file, or another file altogether."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.binary(max_size=200))
    content = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40)))
        change = draw(st.sampled_from(["cut", "remove", "repeat", "insert", "replace", "flip"]))
        if change == "cut":
            del content[start:]
        elif change == "remove":
            del content[start:end]
        elif change == "repeat":
            content[start:start] = content[start:end]
        elif change == "insert":
            content[start:start] = draw(st.binary(max_size=20) | PIECES)
        elif change == "replace":
            content[start:end] = draw(st.binary(max_size=20) | PIECES)
        elif start < len(content):
            content[start] ^= 1 << draw(st.integers(0, 7))
    return bytes(content)


# What means something to one of the readers.
PIECES = st.sampled_from(
    [
        *b'\n|\r\n|\t| |\0|\xff|\xe2\x80\xa8|\xef\xbb\xbf|-1|1e999|nan|null|[|{|]|}|"'.split(b"|"),
        *(b"&a [*a]", b"*a", b"<<: ", b": ", b"- ", b"!!python/object:os.system", b"9" * 30, b"9" * 5000),
    ]
)


def survives(path: Path, content: bytes, read: Callable[[], object]) -> None:
    """``read`` gives a result or a UserError in one line or a few, and leaves the file alone."""
    path.write_bytes(content)
    try:
        read()
    except UserError as error:
        assert 0 < len(str(error)) < 2000 + 2 * len(content)  # noqa: PT017
    assert path.read_bytes() == content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with ids, and the other files of a model folder in run/."""
    data = make_data(tmp_path_factory.mktemp("hostile"))
    prepare_folder(ModelFolder(data / "run"), small_experiment(), data, None)
    return data


@given(st.data())
@fuzz
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_text(pack: Callable[[bytes], bytes], folder: Path, data: st.DataObject) -> None:
    content = data.draw(damaged(pack("the cat\r\nsees\u2028 a tree\n\n".encode() * 20)))
    path = folder / {bytes: "text", gzip.compress: "text.gz"}.get(pack, "text.zst")
    survives(path, content, lambda: sum(map(len, read_lines(path))))


SUBWORDS = Side("en", segmentation="bpe", truecase=True)
BPE = b"#version: 0.2\nl o\nlo w\ne r</w>\nn e\nne w\n"
TRUECASE = b"the (90/100) The (10)\ncat (5/5)\nNATO (3/3)\n"


@given(damaged(BPE), damaged(TRUECASE), st.text())
@fuzz
def test_merges_and_truecasing(folder: Path, bpe: bytes, truecase: bytes, line: str) -> None:
    words = folder / "words"
    words.mkdir(exist_ok=True)
    (words / "prep.yaml").write_text(dump_yaml(to_dict(Prep(SUBWORDS, SUBWORDS))))
    for name, content in (("bpe.src", bpe), ("truecase.src", truecase)):
        for other, good in (("bpe.src", BPE), ("truecase.src", TRUECASE)):
            (words / other).write_bytes(good)
        survives(words / name, content, lambda: TextPipeline.load(words, "src").tokens(f"The lower {line}"))


@given(damaged(b"0-0 1-2\n\n3-1 2-2 10-0\n" * 3), damaged(b"cat\tchat\t0.9\t9\ndog\tchien\t1\t2\n" * 2))
@fuzz
def test_alignments_and_a_lexicon(folder: Path, links: bytes, lexicon: bytes) -> None:
    survives(folder / "words.align", links, lambda: list(read_alignment(folder / "words.align")))
    survives(folder / "words.gold", links, lambda: list(read_gold(folder / "words.gold")))
    survives(folder / "lexicon.tsv", lexicon, lambda: Lexicon.load(folder / "lexicon.tsv").best)
    (folder / "lexicon.tsv").unlink()


@given(damaged("".join(f"{word}\t{9 * (i > 3)}\n" for i, word in enumerate([*SPELLINGS, "the", "cat"])).encode()))
@fuzz
def test_a_vocabulary(folder: Path, content: bytes) -> None:
    survives(folder / "words.src", content, lambda: Vocabulary.load(folder / "words.src").ids(["the", "x"]))


@given(damaged(dump_yaml(load_preset("deep-att")).encode()))
@fuzz
def test_a_configuration(folder: Path, content: bytes) -> None:
    path = folder / "config.yaml"

    def read() -> object:
        planned = build_experiment(load_yaml(path), str(path))
        with torch.device("meta"):
            return planned.build(10, 10) if planned.model.width < 10**5 else None

    survives(path, content, read)


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
FLAT = SCALAR | st.lists(SCALAR, max_size=3)
YAML = FLAT | st.lists(FLAT, max_size=3) | st.dictionaries(st.text(max_size=8), FLAT, max_size=3)


@given(st.data())
@fuzz
def test_any_value_in_any_place_of_a_configuration(data: st.DataObject) -> None:
    values: Any = load_preset("dtmt4")
    place = values
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(YAML)
    try:
        build_experiment(values, "any.yaml")
    except UserError as error:
        assert str(error)  # noqa: PT017


@given(st.text() | st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,3}=.{0,20}", fullmatch=True))
@fuzz
def test_settings_of_the_command_line(text: str) -> None:
    try:
        parse_settings("settings", [text, "a.b=1"])
    except UserError as error:
        assert str(error)  # noqa: PT017


@pytest.mark.parametrize("place", ["model: *x11", "paper: {title: *x11}", "model: &y [*y]"])
def test_yaml_that_expands_to_billions_of_items_is_refused_in_a_line(place: str, tmp_path: Path) -> None:
    lines = ["x0: &x0 {lol: lol}"]
    lines += [f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]" for i in range(1, 12)]
    text = "\n".join([*(lines if "x11" in place else []), "architecture: rnnsearch", place])
    for name in ("config.yaml", "prep.yaml"):
        (tmp_path / name).write_text(text)
        complaint = rf"{name}:\d+: not valid YAML: its aliases expand to more than 10,000 values$"
        with pytest.raises(UserError, match=complaint):
            load_prep(tmp_path) if name == "prep.yaml" else load_yaml(tmp_path / name)
    assert parse_yaml("a: &a {x: 1}\nb: [*a, *a]", "") == {"a": {"x": 1}, "b": [{"x": 1}] * 2}


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("endless", [os.mkfifo, zero])
@pytest.mark.parametrize(
    "name",
    ["config.yaml", "prep.yaml", "vocab.src", "bpe.src", "data.json", "checksums.json", "best", "lexicon.tsv",
     "checkpoints/step-1/model.safetensors", "checkpoints/step-1/checksums.json"],
)  # fmt: skip
def test_a_model_folder_with_a_pipe_or_a_device_is_refused(
    name: str, endless: Callable[[Path], None], tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", "rnnsearch", 1)
    (model / name).unlink(missing_ok=True)
    endless(model / name)
    assert ModelFolder(model).best_update() == 1  # reads the ranking before the folder is checked
    for selected in (None, "best"):
        with pytest.raises(UserError, match=f"model/{name}: a pipe or a device, not a file") as refused:
            nmtkit.load(model, "cpu", checkpoint=selected)
        assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("name", ["prep.yaml", "manifest.json", "vocab.src", "train.src", "train.tgt.ids"])
def test_a_data_folder_with_a_pipe_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(folder, tmp_path / "data"))
    (data / name).unlink()
    os.mkfifo(data / name)
    readers: list[Callable[[], object]] = [
        lambda: encode(data, None, None, 1, False, 1),
        lambda: Corpus.open(data, "train"),
        lambda: TextPipeline.load(data, "src"),
        lambda: verify(data),
    ]
    for read in readers:
        with pytest.raises(UserError, match=f"data/{name}: a pipe or a device, not a file"):
            read()


def test_text_may_come_from_a_pipe_and_a_folder_have_a_socket(folder: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(folder, tmp_path / "data"))
    (data / "gone").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(data / "socket"))
    verify(data)
    with piped(data / "train.src") as name:
        assert list(read_lines(name)) == list(read_lines(data / "train.src"))


def test_an_empty_sentencepiece_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sentencepiece.src").touch()
    with pytest.raises(UserError, match=r"sentencepiece\.src: not a SentencePiece model; make it with nmtkit prep$"):
        SentencePieces.load(tmp_path / "sentencepiece.src")


def test_numbers_of_thousands_of_digits_are_refused_in_a_line(tmp_path: Path) -> None:
    """Python refuses to read more than 4300 digits as a number."""
    (tmp_path / "file").write_text("".join(f"{word}\t0\n" for word in SPELLINGS) + f"cat\t{'9' * 5000}\n")
    with pytest.raises(UserError, match="file:5: expected a word, a tab and a count"):
        Vocabulary.load(tmp_path / "file")
    (tmp_path / "file").write_text(f"0-{'9' * 5000}\n")
    with pytest.raises(UserError, match="file:1: expected links such as"):
        list(read_alignment(tmp_path / "file"))


def test_yaml_cannot_make_objects_or_endless_structures() -> None:
    for text in ("!!python/object/apply:os.system [ls]", "&a [*a]: 1", "? &b {x: *b}\n: 1", "[" * 5000):
        with pytest.raises(UserError, match="not valid YAML"):
            parse_yaml(text, "odd.yaml")


@given(st.data())
@fuzz
@pytest.mark.parametrize("name", ["ids.json", "manifest.json", "prep.yaml", "train.src.ids", "train.tgt.offsets"])
def test_a_data_folder(name: str, folder: Path, data: st.DataObject) -> None:
    good = (folder / name).read_bytes()

    def read() -> None:
        corpus = Corpus.open(folder, "train")
        for number in range(len(corpus)):
            corpus.src(number), corpus.tgt(number)
        TextPipeline.load(folder, "tgt")
        verify(folder)

    try:
        survives(folder / name, data.draw(damaged(good)), read)
    finally:
        (folder / name).write_bytes(good)


@given(st.data())
@fuzz
@pytest.mark.parametrize(
    "name", ["manifest.json", *(pytest.param(text, marks=pytest.mark.slow) for text in ("train.src", "dev.tgt"))]
)
def test_a_data_folder_that_is_encoded(name: str, folder: Path, data: st.DataObject) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    content = data.draw(damaged(before[folder / name]))
    try:
        survives(folder / name, content, lambda: encode(folder, None, None, 1, False, 1))
    finally:
        for path, content in before.items():
            path.write_bytes(content)


@given(st.data())
@fuzz
@pytest.mark.parametrize("name", ["config.yaml", "format_version", "data.json", "vocab.src"])
def test_a_model_folder_that_is_resumed(name: str, folder: Path, data: st.DataObject) -> None:
    run = folder / "run"
    good = (run / name).read_bytes()
    try:
        survives(
            run / name, data.draw(damaged(good)), lambda: check_unchanged(ModelFolder(run), small_experiment(), folder)
        )
    finally:
        (run / name).write_bytes(good)


def small_run(folder: Path) -> tuple[nn.Linear, torch.optim.Adam]:
    """A model and its optimizer after one update, saved as checkpoint 3 of ``folder``."""
    model = nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    folder.mkdir(exist_ok=True)
    ModelFolder(folder).write_config({"architecture": "none"})
    progress = Progress(update=3, best=[[3, 1.0, 2.0]], peak=[1.0, -2.0], recent=[3])
    if not ModelFolder(folder).updates():
        checkpoint.save(ModelFolder(folder), model, optimizer, progress)
        checkpoint.save_validated(ModelFolder(folder), progress)
    return model, optimizer


@given(st.data())
@fuzz
@pytest.mark.parametrize("name", ["trainer.pt", "validated.pt", "model.safetensors"])
def test_a_checkpoint(name: str, folder: Path, data: st.DataObject) -> None:
    model, optimizer = small_run(folder / "checked")
    path = ModelFolder(folder / "checked").checkpoint(3) / name
    good = path.read_bytes()

    def read() -> None:
        progress = checkpoint.restore(ModelFolder(folder / "checked"), 3, model, optimizer)
        assert progress == Progress(update=3, best=[[3, 1.0, 2.0]], peak=[1.0, -2.0], recent=[3])
        optimizer.step()

    try:
        survives(path, data.draw(damaged(good)), read)
    finally:
        path.write_bytes(good)


KEYS = st.sampled_from(["update", "best", "window", "state", "param_groups"])
STATE = YAML | st.dictionaries(KEYS, YAML | st.builds(torch.zeros, st.integers(0, 4)), max_size=5)


@given(st.dictionaries(st.sampled_from(["optimizer", "progress", "crc32"]), STATE), st.booleans())
@fuzz
def test_a_checkpoint_of_another_toolkit(folder: Path, values: dict[str, object], whole: bool) -> None:
    model, optimizer = small_run(folder / "foreign")
    foreign = ModelFolder(folder / "foreign")
    path = foreign.trainer(3)
    good = path.read_bytes()
    saved = torch.load(path, weights_only=True)
    torch.save(values if whole else {**saved, **values}, path)
    try:
        survives(path, path.read_bytes(), lambda: checkpoint.restore(foreign, 3, model, optimizer))
    finally:
        path.write_bytes(good)


@given(st.data())
@fuzz
def test_the_lists_of_a_run(folder: Path, data: st.DataObject) -> None:
    small_run(folder / "lists")
    record = json.dumps({"kind": "train", "update": 3}).encode() + b"\n"
    survives(folder / "lists" / "best", data.draw(damaged(b"step-3\t1.5\nstep-2\t1\n")),
             lambda: ModelFolder(folder / "lists").chosen_weights())  # fmt: skip
    (folder / "lists" / "metrics.jsonl").write_bytes(data.draw(damaged(record * 4)))
    rewind_metrics(ModelFolder(folder / "lists"), Progress(update=2))


RECORDS = [
    {"kind": "train", "update": 3, "epoch": 1, "tokens": 90, "loss": 2.5, "lr_factor": 1.0},
    {"kind": "valid", "update": 3, "epoch": 1, "cross_entropy": 2.1, "token_error_rate": 0.5, "bleu": 7.0,
     "train_token_error_rate": 0.4, "chrf2": 21.5},
]  # fmt: skip


@given(st.data())
@fuzz
def test_the_history_of_a_run_in_a_report(folder: Path, data: st.DataObject) -> None:
    run = folder / "reported"
    run.mkdir(exist_ok=True)
    records: list[dict[str, object]] = [dict(record) for record in RECORDS * 2]
    for record in records if data.draw(st.booleans()) else ():
        record[data.draw(st.sampled_from(sorted(record)))] = data.draw(SCALAR)
    content = "".join(json.dumps(record) + "\n" for record in records).encode()

    def read() -> None:
        training_charts([History("run", "rnnsearch", 1.0, "", 1, *read_metrics(run / "metrics.jsonl"), [], {})])

    survives(run / "metrics.jsonl", data.draw(damaged(content)), read)


ENTRY = {
    "source": "the cat",
    "reference": "die Katze",
    "errors": [{"type": "gender", "contrastive": "der Katze", "distance": 1, "frequency": "0"}],
}
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner), max_leaves=9
)


@given(st.data())
@fuzz
def test_a_set_of_contrastive_pairs(folder: Path, data: st.DataObject) -> None:
    entries = json.loads(json.dumps([ENTRY] * 2))
    place = data.draw(st.sampled_from([entries, entries[0], entries[0]["errors"], entries[0]["errors"][0]]))
    if data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        place[key] = data.draw(JSON)

    def read() -> None:
        entries = contrast.read_json(folder / "set.json")
        contrast.by_kind(entries, [range(len(entry.errors) + 1) for entry in entries])

    survives(folder / "set.json", data.draw(damaged(json.dumps(entries).encode())), read)


HEADER = {"__metadata__": {"a": "b"}, "weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]},
          "bias": {"dtype": "F32", "shape": [3], "data_offsets": [24, 36]}}  # fmt: skip


@given(st.data())
@fuzz
def test_weights_with_a_wrong_header(folder: Path, data: st.DataObject) -> None:
    header: dict[str, Any] = json.loads(json.dumps(HEADER))
    tensor = header[data.draw(st.sampled_from(["weight", "bias"]))]
    key = data.draw(st.sampled_from(sorted(tensor)))
    numbers = st.lists(st.integers(-1, 2**64), max_size=3)
    tensor[key] = data.draw(JSON | numbers | st.sampled_from(["F64", "BF16", "U8"]))
    text = json.dumps(header).encode()
    size = data.draw(st.just(len(text)) | st.integers(0, 2**64 - 1))
    path = folder / "lying.safetensors"
    content = size.to_bytes(8, "little") + text + bytes(data.draw(st.integers(0, 40)))
    survives(path, content, lambda: checkpoint.load_into(nn.Linear(2, 3), path))
