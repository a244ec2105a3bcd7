"""``nmtkit train`` and ``average`` on the command line, and the complete way from raw text to a score."""

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.config import load_yaml
from nmtkit.experiment.presets import DEFAULT, default_preset, load_preset
from tests.cli.test_pairs import command

Nmtkit = Callable[..., Any]

SMALL = """
model: {embedding: 8, hidden: 8, attention: 8, maxout: 8}
training:
  optimizer: {name: adam, lr: 0.01}
  batch_sentences: 10
  max_epochs: 2
  keep_best: 2
search: {beam_size: 2, max_len_a: 1, max_len_b: 2}
"""


def write_raw(folder: Path) -> None:
    """Write raw text and the file small.yaml."""
    choose = random.Random(1)
    words = "cat dog tree house sees likes the a old new".split()
    (folder / "raw").mkdir()
    for split, size in (("train", 50), ("dev", 6), ("test", 4)):
        for language in ("en", "fr"):
            lines = [" ".join(choose.choices(words, k=choose.randint(2, 6))) + ".\n" for _ in range(size)]
            (folder / "raw" / f"{split}.{language}").write_text("".join(lines))
    (folder / "small.yaml").write_text(SMALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with raw text."""
    write_raw(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder that prep and vocab make of it."""
    folder = tmp_path_factory.mktemp("prepared")
    write_raw(folder)
    command(folder, "prep", "-s", "en", "-t", "fr", "--words", "-j", "1")
    command(folder, "vocab", "-j", "1")
    return folder / "data"


@pytest.fixture
def prepared(folder: Path, data: Path) -> Path:
    shutil.copytree(data, folder / "data")
    return folder


TRAIN = ("train", "--model", "rnnsearch", "--config", "small.yaml")


def test_every_command_works_without_options_in_a_working_folder(prepared: Path, nmtkit: Nmtkit) -> None:
    trained = nmtkit(*TRAIN)
    assert trained.status == 0
    assert "finished (2 epochs) after update 10; best " in trained.err
    averaged = nmtkit("average")
    assert (averaged.status, averaged.out) == (0, "")
    assert averaged.err.startswith("averaged: mean of step-")
    scored = nmtkit("score")
    assert scored.status == 0
    assert "sacreBLEU" in scored.out
    assert len((prepared / "run" / "test.hyp").read_text().splitlines()) == 4


def test_a_model_folder_translates_anywhere(prepared: Path, nmtkit: Nmtkit, tmp_path: Path) -> None:
    nmtkit(*TRAIN)
    nmtkit("average", "-o", "mean")
    (prepared / "in.txt").write_text("The cat sees a tree.\n\nA dog.\n")
    before = {name: nmtkit("translate", "-m", name, "-i", "in.txt").out for name in ("run", "mean")}
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    for name in ("run", "mean"):
        shutil.move(prepared / name, elsewhere / name)
    shutil.rmtree(prepared / "data")
    for name, text in before.items():
        moved = nmtkit("translate", "-m", elsewhere / name, "-i", "in.txt")
        assert (moved.status, moved.out) == (0, text)
        assert moved.out.count("\n") == 3
        assert moved.out.split("\n")[1] == ""


def test_the_same_command_resumes_a_run_and_leaves_a_finished_one_alone(prepared: Path, nmtkit: Nmtkit) -> None:
    nmtkit(*TRAIN, "--max-updates", 3)
    more = nmtkit(*TRAIN)
    assert "changed since the last start: training.max_updates 3 -> 288000" in more.err
    assert "resuming from update 3 in run" in more.err
    assert "finished (2 epochs) after update 10" in more.err
    again = nmtkit(*TRAIN)
    assert (again.status, "finished (2 epochs) after update 10" in again.err) == (0, True)
    short = nmtkit("train", "--max-epochs", 3)  # the run knows its own configuration
    assert "finished (3 epochs) after update 15" in short.err


def test_a_run_cannot_be_resumed_as_another_model(prepared: Path, nmtkit: Nmtkit) -> None:
    nmtkit(*TRAIN)
    before = (prepared / "run" / "config.yaml").read_bytes()
    wider = nmtkit(*TRAIN, "--set", "model.hidden=9", "--seed", 4)
    assert wider.status == 1
    table = "               in the run  now\nmodel.hidden   8           9\ntraining.seed  1           4\n"
    assert table in wider.err
    assert "the run there differs, see above: model.hidden, training.seed; restore" in wider.err
    nmtkit("vocab", "--tgt-size", 8, "-j", "1")
    vocabulary = nmtkit(*TRAIN)
    assert vocabulary.status == 1
    assert re.search(r"\nvocab.tgt +15 words, [0-9a-f]{12} +8 words, [0-9a-f]{12}\n", vocabulary.err)
    other = nmtkit("train", "--model", "dtmt1-small")
    assert "\narchitecture  rnnsearch   dtmt\n" in other.err, "and none of its other settings"
    assert "the run there differs, see above: architecture; restore" in other.err
    assert (prepared / "run" / "config.yaml").read_bytes() == before


def test_a_folder_that_cannot_be_resumed_is_not_changed(prepared: Path, nmtkit: Nmtkit) -> None:
    nmtkit(*TRAIN)
    nmtkit("average", "-o", "mean")
    before = {path: path.read_bytes() for path in Path("mean").rglob("*") if path.is_file()}
    refused = nmtkit("train", "-o", "mean", "--set", "search.beam_size=1")
    assert "has no trainer.pt, like an averaged model, so training cannot resume from it" in refused.err
    assert {path: path.read_bytes() for path in before} == before
    refused = nmtkit(*TRAIN, "-o", "data")
    assert refused.err.endswith("nmtkit: error: --output data: is a data folder; name another one\n")
    assert not Path("data/config.yaml").exists()
    refused = nmtkit(*TRAIN, "-o", "raw")
    told = "is the folder of the raw text; name another one\n"
    assert refused.err.endswith(f"nmtkit: error: --output raw: {told}")
    assert not Path("raw/config.yaml").exists()
    Path("texts/train").mkdir(parents=True)
    for language in ("en", "fr"):
        Path(f"texts/train/bible.{language}").write_text("one\n")
    assert nmtkit(*TRAIN, "-o", "texts").err.endswith(f"nmtkit: error: --output texts: {told}")
    Path("memory").mkdir()
    Path("memory/train.jsonl.gz").touch()
    assert nmtkit(*TRAIN, "-o", "memory").err.endswith(f"nmtkit: error: --output memory: {told}")


def test_only_a_new_run_is_refused_in_a_folder_of_raw_text(prepared: Path, nmtkit: Nmtkit) -> None:
    for name in ("train.sh", "train.log"):  # no text of two languages
        Path("own").mkdir(exist_ok=True)
        Path("own", name).touch()
    assert nmtkit(*TRAIN, "-o", "own").status == 0
    for language in ("en", "fr"):
        Path(f"own/train.{language}").touch()
    assert nmtkit(*TRAIN, "-o", "own").status == 0  # a run that exists may be resumed


def test_a_file_without_an_architecture_changes_the_default_or_the_run(prepared: Path, nmtkit: Nmtkit) -> None:
    Path("common.yaml").write_text("training: {max_updates: 4}")
    new = nmtkit("train", "-c", "common.yaml", "--dry-run").out
    assert "max_updates: 4" in new
    assert "architecture: bideep" in new
    nmtkit(*TRAIN, "--max-updates", "2")
    assert "finished (4 updates) after update 4" in nmtkit("train", "-c", "common.yaml").err


@pytest.mark.slow
def test_a_configuration_may_come_from_a_pipe(prepared: Path, nmtkit: Nmtkit) -> None:
    command = f"{sys.executable} -m nmtkit"
    piped = f"{command} models rnnsearch-small | {command} train -c /dev/stdin --dry-run"
    assert (
        "architecture: rnnsearch"
        in subprocess.run(piped, shell=True, capture_output=True, text=True, check=True).stdout
    )


def test_a_failed_start_leaves_nothing_that_affects_the_next_one(prepared: Path, nmtkit: Nmtkit) -> None:
    assert nmtkit(*TRAIN, "--max-updates", "1").status == 0
    start = ("train", "--from", "run", "-o", "tuned", "--max-updates", "2")
    failed = nmtkit(*start, "--set", "training.optimizer.lr=1e20", "--set", "training.clip_norm=null")
    assert failed.status == 1
    assert nmtkit(*start).status == 0
    assert load_yaml(prepared / "tuned" / "config.yaml")["training"]["optimizer"]["lr"] == 0.01


def test_a_new_run_does_not_have_the_origin_of_a_failed_one(prepared: Path, nmtkit: Nmtkit) -> None:
    assert nmtkit(*TRAIN, "--max-updates", "1").status == 0
    diverges = ("--set", "training.optimizer.lr=1e20", "--set", "training.clip_norm=null")
    assert nmtkit("train", "--from", "run", "-o", "tuned", "--max-updates", "2", *diverges).status == 1
    assert (prepared / "tuned" / "origin.json").exists()
    refused = nmtkit("train", "-o", "tuned", "--max-updates", "1")  # not with random weights
    complaint = "tuned: the run there began with another model and has no checkpoint; give --from again"
    assert refused == (1, "", f"nmtkit: error: {complaint}\n")
    assert (prepared / "tuned" / "origin.json").exists()
    assert nmtkit(*TRAIN, "-o", "tuned", "--max-updates", "1").status == 0
    assert not (prepared / "tuned" / "origin.json").exists()


def test_a_run_from_a_model_keeps_its_own_settings_when_it_is_resumed(prepared: Path, nmtkit: Nmtkit) -> None:
    assert nmtkit(*TRAIN, "--max-updates", "1").status == 0
    start = ("train", "--from", "run", "-o", "tuned", "--max-updates")
    assert nmtkit(*start, "1", "--set", "training.optimizer.lr=0.002").status == 0
    assert nmtkit(*start, "2").status == 0
    assert load_yaml(prepared / "tuned" / "config.yaml")["training"]["optimizer"]["lr"] == 0.002


def test_a_model_folder_cannot_be_the_output_of_prep(prepared: Path, nmtkit: Nmtkit) -> None:
    assert nmtkit(*TRAIN, "--max-updates", "1").status == 0
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    refused = nmtkit("prep", "-s", "en", "-t", "fr", "--words", "-o", "run")
    assert refused.status == 1
    assert "--output run: is a model folder, whose files would be replaced; name another one" in refused.err
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before


def test_neither_raw_text_nor_text_in_other_languages_is_replaced_by_prep(prepared: Path, nmtkit: Nmtkit) -> None:
    refused = nmtkit("prep", "-s", "en", "-t", "fr", "--words", "-o", "raw/")
    assert "--output raw: is the folder of the raw text; name another one" in refused.err
    for languages in (("-s", "fr", "-t", "en"), ("-s", "en", "-t", "de"), ("-s", "de", "-t", "fr")):
        refused = nmtkit("prep", *languages, "--train", "raw/train.en", "raw/train.en", "--words")
        complaint = "--output data: has text from en to fr, which would be replaced; name another folder, or re"
        assert complaint in refused.err
    assert nmtkit("prep", "-s", "en", "-t", "fr", "--words", "-j", "1").status == 0


def test_the_lexicon_is_copied_to_the_model(prepared: Path, nmtkit: Nmtkit) -> None:
    (prepared / "links").write_text("0-0\n" * 50)
    assert nmtkit("align", "--pharaoh", "links", "--threshold", "0").status == 0
    nmtkit(*TRAIN, "--max-updates", 1)
    assert nmtkit("average", "--last", "1", "-m", "run/checkpoints/step-1").status == 0  # a checkpoint names its run
    lexicon = (prepared / "data" / "lexicon.tsv").read_bytes()
    assert lexicon
    for folder in ("run", "averaged"):
        assert (prepared / folder / "lexicon.tsv").read_bytes() == lexicon


def test_a_run_cannot_be_resumed_with_another_annotation(prepared: Path, nmtkit: Nmtkit) -> None:
    def annotate(links: str) -> None:
        (prepared / "links").write_text(f"{links}\n" * 50)
        nmtkit("align", "--pharaoh", "links")
        assert nmtkit("vocab", "--unkpos", "--tgt-size", "23", "-j", "1").status == 0

    annotate("0-0")
    assert nmtkit(*TRAIN, "--max-updates", 1).status == 0
    annotate("0-0")
    assert nmtkit(*TRAIN, "--max-updates", 2).status == 0
    annotate("1-0")
    outcome = nmtkit(*TRAIN)
    assert outcome.status == 1
    assert "differs, see above: text train.tgt, annotated; restore these" in outcome.err


PLAN = "this run is unlikely to work: training.max_epochs allows only 10 updates; fewer than 1,000 are rarely enough; "


def test_an_unsuitable_plan_gets_one_warning_with_the_remedy(prepared: Path, nmtkit: Nmtkit) -> None:
    begun = nmtkit(*TRAIN, "--max-updates", 1)
    assert "this run is unlikely to work: training.max_updates allows only 1 update;" in begun.err
    assert "; `nmtkit train --model rnnsearch-small` is for small corpora\n" in begun.err
    tuning = ("train", "--from", "run", "-o", "tuned", "--max-updates", 1)
    for short in (TRAIN, tuning):  # resumed, and fine-tuned
        assert "unlikely" not in nmtkit(*short).err
    alone = [*TRAIN[:2], "rnnsearch-small", *TRAIN[3:], "-o", "other"]
    remedy = "with a small corpus, use more epochs, smaller batches and a smaller model"
    assert PLAN + remedy in nmtkit(*alone).err
    plan = nmtkit("doctor", "-s", "en", "--model", "deep-att").out
    assert re.search(
        r"^data: deep-att: training.max_epochs allows only 7 updates; fewer than 1,000 are rarely enough$", plan, re.M
    )
    assert re.search(r"^data: deep-att: [\d.]+ M parameters for \d+ target words, [\d,]+ per word", plan, re.M)


def test_each_command_of_a_training_names_the_next_one(prepared: Path, nmtkit: Nmtkit) -> None:
    def last(*command: object) -> str:
        return str(nmtkit(*command).err.splitlines()[-1])

    assert last("vocab", "-j", "1") == "next: nmtkit train"
    assert last(*TRAIN, "-o", "mine") == "next: nmtkit average -m mine"
    assert last("average", "-m", "mine") == "next: nmtkit score -m averaged"
    (prepared / "data" / "test.src").unlink()
    assert last("average", "-m", "mine") == "next: nmtkit translate -m averaged < in.txt > out.txt"
    assert "next" not in nmtkit(*TRAIN, "--quiet").err


def test_the_history_comes_as_json_lines_the_same_that_are_kept(prepared: Path, nmtkit: Nmtkit) -> None:
    trained = nmtkit(*TRAIN, "--json")
    *records, end = map(json.loads, trained.out.splitlines())
    assert records == [json.loads(line) for line in (prepared / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["kind"] for record in records] == ["epoch", "train", "valid"] * 2
    assert end == {"kind": "end", "update": 10, "finished": "2 epochs"}
    assert "next" not in trained.err
    assert nmtkit(*TRAIN).out == ""  # whoever does not ask for it is not shown the next run's


@pytest.mark.slow
def test_a_run_whose_output_pipe_is_closed_saves_a_checkpoint(prepared: Path) -> None:
    command = [sys.executable, "-m", "nmtkit", *TRAIN, "--json", "--set", "training.valid_every=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.readline()
        run.stdout.close()
        assert "stopping after this update" in run.stderr.read()
    assert run.returncode == 143  # like a run that SIGTERM stopped
    assert (prepared / "run" / "checkpoints").is_dir()


def test_a_new_run_has_only_the_lexicon_of_its_data(prepared: Path, nmtkit: Nmtkit) -> None:
    lexicon = prepared / "data" / "lexicon.tsv"
    lexicon.write_text("cat\tchat\t1\t5\n")
    diverges = ("--set", "training.optimizer.name=sgd", "--set", "training.optimizer.lr=1e29")
    assert nmtkit(*TRAIN, *diverges, "--set", "training.clip_norm=null").status == 1
    assert (prepared / "run" / "lexicon.tsv").exists()
    lexicon.unlink()
    assert nmtkit(*TRAIN, "--max-updates", 1).status == 0
    assert not (prepared / "run" / "lexicon.tsv").exists()


def test_a_resumed_run_keeps_its_lexicon_if_the_data_folder_has_lost_it(prepared: Path, nmtkit: Nmtkit) -> None:
    lexicon = prepared / "data" / "lexicon.tsv"
    lexicon.write_text("cat\tchat\t1\t5\n")
    assert nmtkit(*TRAIN, "--max-updates", 1).status == 0
    lexicon.unlink()
    assert nmtkit(*TRAIN, "--max-updates", 2).status == 0
    assert (prepared / "run" / "lexicon.tsv").exists()


@pytest.mark.parametrize("before", [(), ("--tensorboard",)])
def test_tensorboard_has_the_complete_history_once_even_if_requested_later(
    prepared: Path, nmtkit: Nmtkit, before: tuple[str, ...]
) -> None:
    from tensorboard.backend.event_processing import event_accumulator

    assert nmtkit(*TRAIN, "--max-epochs", 1, *before).status == 0
    assert nmtkit(*TRAIN, "--tensorboard").status == 0
    written = event_accumulator.EventAccumulator(str(prepared / "run" / "tensorboard")).Reload()
    records = [json.loads(line) for line in (prepared / "run" / "metrics.jsonl").read_text().splitlines()]
    for kind, name in (("valid", "cross_entropy"), ("valid", "bleu"), ("train", "loss"), ("epoch", "padding")):
        kept = [(r["update"], pytest.approx(r[name])) for r in records if r["kind"] == kind]
        assert [(point.step, point.value) for point in written.Scalars(f"{kind}/{name}")] == kept


def test_tensorboard_has_the_history_of_a_run_that_was_finished_without_it(prepared: Path, nmtkit: Nmtkit) -> None:
    assert nmtkit(*TRAIN).status == 0
    assert nmtkit(*TRAIN, "--tensorboard").status == 0
    assert list((prepared / "run" / "tensorboard").glob("events.*"))


def test_without_tensorboard_nothing_is_trained(
    prepared: Path, nmtkit: Nmtkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    trained = nmtkit(*TRAIN, "--tensorboard")
    assert trained.status == 1
    assert trained.err.endswith("nmtkit: error: TensorBoard is not installed: pip install 'nmtkit[tensorboard]'\n")
    assert not (prepared / "run" / "config.yaml").exists()


def test_the_command_line_overrides_the_file_and_the_file_the_preset(folder: Path, nmtkit: Nmtkit) -> None:
    shown = nmtkit(*TRAIN, "--set", "training.optimizer.lr=5e-3", "--seed", 7, "--max-epochs", 3, "--dry-run")
    assert shown.status == 0
    counts = shown.out.partition("\n\n")[2]
    (folder / "shown.yaml").write_text(shown.out)  # a complete configuration; the counts are comments
    values = load_yaml(folder / "shown.yaml")
    assert values["training"]["optimizer"]["lr"] == 5e-3  # command line
    assert values["training"]["seed"] == 7
    assert values["training"]["max_epochs"] == 3
    assert values["model"]["hidden"] == 8  # file
    assert values["training"]["clip_norm"] == 1.0  # preset
    assert "words                         30,000 source, 30,000 target; the preset's are 30,000 and 30,000" in counts
    assert re.search(r"total +0.7\d M", counts)
    assert "the paper says                nothing" in counts
    assert nmtkit("train", "--config", "shown.yaml", "--dry-run").out == shown.out  # train reads what it printed
    assert not (folder / "run").exists()


def test_more_text_has_a_default_with_less_dropout() -> None:
    dropout = {tokens: load_preset(default_preset(tokens))["model"]["dropout"] for tokens in (0, 249_999, 250_000)}
    assert dropout == {0: 0.5, 249_999: 0.5, 250_000: 0.35}


def test_without_a_model_the_default_is_trained_and_named(prepared: Path, nmtkit: Nmtkit) -> None:
    sizes = ["--set", "model.embedding=8", "--set", "model.hidden=8", "--max-updates", 1]
    for name, given in (("plain", []), ("small", ["--model", "small"])):
        done = nmtkit("train", *given, *sizes, "--output", name)
        assert done.status == 0
        assert f"model: {DEFAULT}, the default for " in done.err
    plain, small = (load_yaml(prepared / name / "config.yaml") for name in ("plain", "small"))
    assert plain == small
    assert plain["training"]["word_dropout"] == 0.2
    mistaken = nmtkit("train", "--output", "new", "--set", "model.hiden=8").err
    assert f"{DEFAULT} + --set: model.hiden: unknown key" in mistaken
    assert DEFAULT in nmtkit("train", "--help").out
    assert nmtkit("train", "--output", "plain", "--max-updates", 2).status == 0  # continues its own run
    assert load_yaml(prepared / "plain" / "config.yaml")["model"]["hidden"] == 8


def test_the_default_names_no_size_of_text_that_is_not_encoded(nmtkit: Nmtkit) -> None:
    said = nmtkit("train", "--data", "none").err
    assert said.startswith(f"model: {DEFAULT}, the default for text that is not encoded yet; ")


def test_batch_size_is_in_tokens_or_measured(prepared: Path, nmtkit: Nmtkit) -> None:
    for given, kept in (("500", 500), ("auto", 256)):  # the smallest budget that is tried has all of this text
        for last in (1, 2):  # a resumed run keeps what was measured
            assert nmtkit(*TRAIN, "--max-tokens", given, "--max-updates", last, "--output", given).status == 0
        training = load_yaml(prepared / given / "config.yaml")["training"]
        assert (training["batch_tokens"], training["batch_sentences"]) == (kept, None)
    assert "training.batch_tokens: auto is 256 here" in (prepared / "auto" / "train.log").read_text()


def test_an_exponent_that_the_length_penalty_does_not_use_is_refused(prepared: Path, nmtkit: Nmtkit) -> None:
    alpha = ("train", "--dry-run", "--model", "bideep", "--set", "search.alpha=1.4")
    refused = nmtkit(*alpha)
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.endswith("search.alpha: `search.length_penalty` avg does not use it; only gnmt and power do\n")
    assert nmtkit(*alpha, "--set", "search.length_penalty=power").status == 0


def test_a_dry_run_uses_the_vocabulary_sizes_of_the_data_or_of_the_paper(prepared: Path, nmtkit: Nmtkit) -> None:
    wrong = nmtkit("train", "--model", "dtmt4", "--set", "training.groups.recurent.lr=0.1", "--dry-run")
    assert (
        "training.groups.recurent: this model has no parameter of that name; known names: attention, bias, "
        in wrong.err
    )
    assert not wrong.out
    shown = nmtkit("train", "--model", "dtmt4", "--dry-run").out
    assert re.search(r"words +\d\d source, \d\d target; the preset's are [\d,]{6} and [\d,]{6}\n", shown)
    assert re.search(r"total with the preset's words +\d+\.\d\d M\n# the paper says +208.4 M\n", shown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--model", "deep-at"], "no such preset; did you mean deep-att"),
        ([*TRAIN, "--set", "training.batch_tokns=5"], "batch_tokns: unknown key; did you mean training.batch_tokens?"),
        ([*TRAIN, "--set", "model.hidden=big", "--set", "search.beam=2"], "model.hidden: expected a whole number"),
        ([*TRAIN, "--set", "model.hidden=2e18"], "model.hidden: 2000000000000000000 is more than 10^12"),
        ([*TRAIN, "--set", "model.hidden=1e12"], "model: too large for this machine; use smaller sizes ("),
        ([*TRAIN, "--set", "data.src_vocab=-1"], "data.src_vocab: -1 is not at least 5"),
        ([*TRAIN, "--set", "data.src_vocab=9"], "data: describes the published system and has no effect on a run"),
        ([*TRAIN, "--set", "paper.title=x"], "paper: describes the published system and has no effect on a run"),
        ([*TRAIN, "--set", "training.optimiser.lr=1"], "unknown key; did you mean training.optimizer?"),
        ([*TRAIN, "--set", "training.lr"], "--set training.lr: expected KEY=VALUE"),
        ([*TRAIN, "--max-tokens", "many"], "training.batch_tokens: expected a whole number or auto; found str 'many'"),
        ([*TRAIN, "--max-tokens", "null"], "--max-tokens 'null': neither a number of tokens nor auto"),
        ([*TRAIN, "--max-tokens", "0"], "training.batch_tokens: 0 is not at least 1"),
        ([*TRAIN, "--config", "none.yaml"], "none.yaml: cannot be read"),
        ([*TRAIN, "--device", "tpu9"], "--device tpu9: not a device; use auto, cpu, cuda or cuda:1"),
        ([*TRAIN, "--data", "nowhere"], "nowhere: no such folder; make it with nmtkit prep"),
        ([*TRAIN, "--set", "training.groups.recurent.lr=1"], "training.groups.recurent: this model has no parameter"),
        (["train", "--from", "nowhere"], "nowhere: not a model folder"),
        (["average", "-m", "nowhere"], "nowhere: not a model folder"),
        (["translate", "-m", "nowhere"], "nowhere: not a model folder"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    prepared: Path, nmtkit: Nmtkit, arguments: list[str], message: str
) -> None:
    outcome = nmtkit(*arguments)
    assert outcome.status == 1
    assert message in outcome.err
    assert outcome.out == ""
    assert len([line for line in outcome.err.splitlines() if "error:" in line]) == 1
    assert not (prepared / "run").exists()


def test_all_errors_of_a_configuration_are_reported_together(prepared: Path, nmtkit: Nmtkit) -> None:
    outcome = nmtkit(*TRAIN, "--set", "model.hidden=big", "--set", "search.beam_sise=2", "--set", "training.loss=0")
    for part in ("model.hidden: expected a whole number", "mean search.beam_size?", "training.loss: expected one of"):
        assert part in outcome.err
