"""The commands as functions: they do what the commands do, and name arguments in what they refuse."""

import inspect
import json
import logging
import math
import pickle
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nmtkit
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.text.settings import load_prep
from nmtkit.training.checkpoint import load_weights

WORDS = {"cat": "chat", "dog": "chien", "tree": "arbre", "old": "vieux"}
SETTINGS: dict[str, Any] = {
    "model.embedding": 8, "model.hidden": 8, "model.attention": 8, "model.maxout": 8, "training.optimizer.name": "adam",
    "training.optimizer.lr": 0.02, "training.batch_sentences": 10, "search.beam_size": 3, "search.max_len_b": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with raw text, and what ``prep``, ``vocab`` and ``train`` have made of it."""
    folder, choose = tmp_path_factory.mktemp("made"), random.Random(1)
    (folder / "raw").mkdir()
    for split, size in (("train", 40), ("dev", 4), ("test", 3)):
        english = [choose.choices(list(WORDS), k=choose.randint(2, 5)) for _ in range(size)]
        for language, sides in (("en", english), ("fr", [[WORDS[word] for word in words] for words in english])):
            (folder / f"raw/{split}.{language}").write_text("".join(f"{' '.join(words)}.\n" for words in sides))
    report = nmtkit.prep(folder / "raw", folder / "data", src_lang="en", words=True, drop="duplicate", jobs=1)
    assert "en to fr, words" in str(report)
    assert "4 symbols" in str(nmtkit.vocab(folder / "data", jobs=1))
    train(folder, "run")
    return folder


def train(folder: Path, output: str, **arguments: Any) -> Any:
    given: dict[str, Any] = {"settings": SETTINGS, "max_updates": 4, **arguments}
    return nmtkit.train("rnnsearch", data=folder / "data", output=folder / output, **given)


def test_files_in_the_other_direction_are_refused(made: Path, tmp_path: Path) -> None:
    names = {split: [made / f"raw/{split}.{language}" for language in ("en", "fr")] for split in ("train", "dev")}
    complaint = r"{}\.fr, .*{}\.en: the source language is en, the target language fr; swap them$"
    with pytest.raises(UserError, match=complaint.format("dev", "dev")):
        nmtkit.prep(output=tmp_path / "data", train=names["train"], dev=names["dev"][::-1])
    with pytest.raises(UserError, match=complaint.format("train", "train")):
        nmtkit.prep(output=tmp_path / "data", src_lang="en", tgt_lang="fr", train=names["train"][::-1])
    assert not (tmp_path / "data").exists()


def test_from_raw_text_to_scores(made: Path) -> None:
    translator = nmtkit.load(made / "run", checkpoint="last")
    lines = (made / "raw/test.en").read_text().splitlines()
    texts = list(translator.translate(iter(lines)))
    assert len(texts) == 3
    scores = nmtkit.score([texts, made / "raw/test.fr"], language="fr")
    reference = (made / "raw/test.fr").read_text().splitlines()
    assert nmtkit.score([reference, reference], language="fr")["sacreBLEU-13a"].value == pytest.approx(100)
    (made / "one.fr").write_text("".join(f"{text}\n" for text in texts))
    by_file = nmtkit.score(made / "one.fr", references=made / "raw/test.fr", language="fr")
    assert by_file["sacreBLEU-13a"] == scores["sacreBLEU-13a"]
    assert str(scores) == repr(scores)
    with pytest.raises(KeyError, match="BLEU"):  # not StopIteration, which would end a loop
        scores["BLEU"]
    assert str(scores).startswith("text 1  multi-bleu ")
    by_model = nmtkit.score(model=made / "run", data=made / "data")
    assert by_model["sacreBLEU-13a"].value == scores["sacreBLEU-13a"].value
    assert by_model.references == [str(made / "data/test.raw.tgt")]


def test_a_report_is_shown_as_it_is_printed(made: Path, tmp_path: Path) -> None:
    text = {"train": [made / f"raw/train.{language}" for language in ("en", "fr")]}
    reports = [nmtkit.prep(output=tmp_path, words=True, jobs=1, **text), nmtkit.vocab(tmp_path, jobs=1)]
    assert list(map(repr, reports)) == list(map(str, reports))


def test_every_command_that_finds_something_out_returns_it(made: Path) -> None:
    data, run = made / "data", made / "run"
    used = nmtkit.average(model=run, output=made / "averaged", last=1)
    assert [path.name for path in used] == ["step-4"]
    assert nmtkit.average(used, output=made / "same") == used  # of the run that the checkpoints belong to
    right, wrong = (made / "raw/test.fr").read_text(), made / "wrong.fr"
    wrong.write_text(right.replace("a", "o"))
    files = {"source": made / "raw/test.en", "correct": made / "raw/test.fr", "incorrect": wrong}
    accuracies = nmtkit.contrast(model=run, **files)
    assert [(each.name, each.total) for each in accuracies["type"]] == [("wrong.fr", 3), ("all", 3)]
    tuned = nmtkit.tune(run, data=data, alphas=[0.5, 1], betas="0", beam_size=2, device="cpu")
    assert len(tuned.settings) == len(tuned.values) == 1 + 2 + 2 * 2
    assert tuned.best.beam_size == 2
    assert max(tuned.values) == tuned.values[tuned.settings.index(tuned.best)]
    found = nmtkit.inspect(run, data=data, device="cpu")
    assert found.parameters["total"] == sum(math.prod(shape) for shape in found.shapes.values())
    flows = nmtkit.gradient_flows(
        "rnnsearch", settings=SETTINGS, data=data, compare=["model.attention=4"], device="cpu"
    )  # fmt: skip
    assert list(flows) == ["rnnsearch", "model.attention=4"]
    assert flows["rnnsearch"] != flows["model.attention=4"]  # the change has precedence over the settings
    page = nmtkit.report(run, data=data, output=made / "report.html", lines=[2, 1], count=1)
    assert page.read_text().startswith("<!doctype html>")
    assert "sacreBLEU 13a, 1 reference" in page.read_text()  # of the development set, from the run's log
    with pytest.raises(UserError, match=r"^`types` needs `contrast`$"):
        nmtkit.report(run, data=data, types=["a"])
    with pytest.raises(UserError, match=r"^`lines` 4: expected numbers from 1 to 3, separated by commas$"):
        nmtkit.report(run, data=data, lines=[4])


def test_contrastive_translations_are_scored_in_windows_of_any_size(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"source": made / "raw/test.en", "correct": made / "raw/test.fr", "incorrect": made / "raw/test.en"}
    whole = nmtkit.contrast(model=made / "run", **files)
    monkeypatch.setattr("nmtkit.workflow.contrast.SHOWN_TOGETHER", 1)
    assert nmtkit.contrast(model=made / "run", **files) == whole


def test_the_end_of_a_stopped_run_names_no_limit(made: Path) -> None:
    class Stop(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.msg)
            if len(records) == 1:
                signal.raise_signal(signal.SIGTERM)

    records: list[Any] = []
    train(made, "stopped", records=Stop(), settings=SETTINGS | {"training.valid_every": 1})
    assert records[-1] == {"kind": "end", "update": 1, "finished": None}


def test_every_command_with_a_model_uses_the_given_checkpoint(made: Path) -> None:
    data, run = made / "data", made / "run"
    files = {"source": made / "raw/test.en", "correct": made / "raw/test.fr", "incorrect": made / "raw/test.en"}
    calls: list[Callable[[str], Any]] = [
        lambda checkpoint: nmtkit.contrast(model=run, checkpoint=checkpoint, **files),
        lambda checkpoint: nmtkit.tune(run, checkpoint=checkpoint, data=data),
        lambda checkpoint: nmtkit.score(model=run, checkpoint=checkpoint, data=data),
        lambda checkpoint: nmtkit.inspect(str(run), checkpoint=checkpoint, data=data),
        lambda checkpoint: nmtkit.gradient_flows(str(run), checkpoint=checkpoint, data=data),
        lambda checkpoint: nmtkit.translate(["cat"], model=run, checkpoint=checkpoint, jobs=1),
    ]
    for call in calls:
        with pytest.raises(UserError, match="99"):
            call("99")


def test_the_newest_or_the_best_checkpoints_are_averaged(made: Path) -> None:
    train(made, "many", max_updates=3, settings=SETTINGS | {"training.valid_every": 1})
    best = f"step-{ModelFolder(made / 'many').best_update()}"
    for number, (given, names) in enumerate([({"last": 2}, ["step-2", "step-3"]), ({"best": 1}, [best])]):
        used = nmtkit.average(model=made / "many", output=made / f"mean-{number}", **given)
        assert sorted(path.name for path in used) == names


def test_an_average_replaces_older_ones_of_its_run_but_no_other_model(made: Path) -> None:
    train(made, "one-run", max_updates=1, settings=SETTINGS)
    train(made, "another-run", max_updates=1, settings=SETTINGS | {"training.seed": 2})
    mean = made / "mean-of-one-run"
    nmtkit.average(model=made / "one-run", output=mean)
    train(made, "one-run", max_updates=2, settings=SETTINGS)
    nmtkit.average(model=made / "one-run", output=mean)
    before = sorted((path, path.read_bytes()) for path in mean.rglob("*") if path.is_file())
    expected = (
        f"{mean}: has a model of another run, not {made / 'another-run'}, with other values of training.seed; "
        "remove it, or name another folder (`output`)"
    )
    with pytest.raises(UserError, match=re.escape(expected)):
        nmtkit.average(model=made / "another-run", output=mean)
    train(made, "faster-run", max_updates=1, settings=SETTINGS | {"training.optimizer.lr": 0.5})
    with pytest.raises(UserError, match=r"with other values of training\.optimizer\.lr; remove it"):
        nmtkit.average(model=made / "faster-run", output=mean)
    text = json.loads((made / "one-run" / "data.json").read_text())
    text["train.src"] = "0"
    (made / "one-run" / "data.json").write_text(json.dumps(text))  # the same settings on another text
    ModelFolder(made / "one-run").seal()
    with pytest.raises(UserError, match="with other values of text; remove it"):
        nmtkit.average(model=made / "one-run", output=mean)
    assert sorted((path, path.read_bytes()) for path in mean.rglob("*") if path.is_file()) == before
    (mean / "data.json").unlink()  # as in an imported model
    with pytest.raises(UserError, match="has a model of another run"):
        nmtkit.average(model=made / "another-run", output=mean)


def test_gradient_flows_are_those_of_the_initial_weights_of_a_run_with_the_same_seeds(made: Path) -> None:
    seeds: list[dict[str, Any]] = [{"training.seed": 5}, {"training.init_seed": 5}, {"training.init_seed": 6}]
    flows = [
        nmtkit.gradient_flows("rnnsearch", settings=SETTINGS | seed, data=made / "data", device="cpu")["rnnsearch"]
        for seed in seeds
    ]
    assert flows[0] == flows[1] != flows[2]


def test_a_text_is_translated_by_many_processes_as_by_one(made: Path) -> None:
    lines = [f"{a} {b} {c}." for a in WORDS for b in WORDS for c in WORDS] * 4  # enough for two processes
    alone = list(nmtkit.load(made / "run", "cpu").translate(lines))
    for jobs in (1, 2):
        found = nmtkit.translate(iter(lines), model=made / "run", device="cpu", jobs=jobs)
        assert [best.text for [best] in found] == alone
    prefixed = nmtkit.Request(prefixes=True)
    [[best]] = nmtkit.translate([("cat dog.", "vieux")], prefixed, model=made / "run", jobs=1)
    assert best.text.startswith("vieux")
    with pytest.raises(UserError, match=r"^`lines`: a single text, where several are expected; put it into a list$"):
        nmtkit.translate("cat")
    with pytest.raises(UserError, match=r"^`lines`: a single text"):
        nmtkit.translate("cat", keep=["c.t"])
    with pytest.raises(UserError, match=r"^`settings`: a single text, where several are expected"):
        nmtkit.train(settings="training.seed=2")
    with pytest.raises(UserError, match=r"^`max_len_a`: expected a number, found str '1'$"):
        nmtkit.Request(max_len_a="1")  # type: ignore[arg-type]


def test_train_says_how_far_it_came_and_keeps_the_log(made: Path) -> None:
    before = logging.getLogger("nmtkit").level
    progress = train(made, "logged", max_updates=2)
    assert (progress.update, progress.finished) == (2, "2 updates")
    assert "finished (2 updates) after update 2" in (made / "logged/train.log").read_text()
    assert logging.getLogger("nmtkit").level == before
    assert logging.raiseExceptions
    progress = nmtkit.train(data=made / "data", output=made / "logged", settings=["training.max_updates=3"])
    assert progress.update == 3
    tuned = nmtkit.train(start=made / "logged", data=made / "data", output=made / "tuned", max_updates=1)
    assert tuned.update == 1
    assert json.loads((made / "tuned/origin.json").read_text())["update"] == ModelFolder(made / "logged").best_update()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_a_run_does_not_fail_because_its_log_is_full(made: Path) -> None:
    (made / "full").mkdir()
    (made / "full/train.log").symlink_to("/dev/full")
    assert train(made, "full", max_updates=1).finished == "1 update"


def test_what_is_wrong_with_a_run_is_shown_without_handlers_for_log_records(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(made, "shown", max_updates=1)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a script or a notebook
    capsys.readouterr()
    with pytest.raises(UserError, match=r"the run there differs, see above: model\.hidden;"):
        train(made, "shown", max_updates=1, settings=SETTINGS | {"model.hidden": 16})
    assert re.search(r"model\.hidden +8 +16\n", capsys.readouterr().err)


def test_a_process_trains_one_model_at_a_time(made: Path) -> None:
    class Another(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with pytest.raises(UserError, match=r"^this process is already training"):
                train(made, "second", max_updates=1)

    assert train(made, "first", max_updates=1, records=Another()).update == 1
    assert train(made, "second", max_updates=1).update == 1


def test_a_function_has_the_name_by_which_it_is_called_and_can_be_sent_to_a_process() -> None:
    public = {name: vars(nmtkit)[name] for name in nmtkit.__all__ if not name.startswith("__")}
    assert {name: each.__name__ for name, each in public.items()} == {name: name for name in public}
    assert all(map(pickle.dumps, public.values()))  # refuses a function that is not found by its name


def test_a_function_says_what_it_returns() -> None:
    assert all(inspect.signature(each).return_annotation for each in (nmtkit.train, nmtkit.score, nmtkit.prep))


def test_settings_by_their_dotted_names_are_those_of_the_command_line(made: Path) -> None:
    train(made, "mapping", max_updates=1)
    train(made, "texts", max_updates=1, settings=[f"{key}={value}" for key, value in SETTINGS.items()])
    a, b = (load_weights(ModelFolder(made / name).weights(1)) for name in ("mapping", "texts"))
    assert all((a[name] == b[name]).all() for name in a)
    train(made, "tokens", max_updates=1, max_tokens=64)
    assert "batch_tokens: 64" in (made / "tokens/config.yaml").read_text()


def test_prep_takes_one_or_several_of_what_may_be_repeated(made: Path, tmp_path: Path) -> None:
    files = [(made / f"raw/{split}.en", str(made / f"raw/{split}.fr")) for split in ("train", "dev")]
    nmtkit.prep(output=tmp_path, train=files[0], dev=files[1], tokenizer=["moses", "fr=none"],
                drop=["script", "duplicate"], protect="a+", words=True, jobs=1)  # fmt: skip
    prep = load_prep(tmp_path)
    assert (prep.src.tokenizer, prep.tgt.tokenizer) == ("moses", "none")
    assert (prep.src.protected, prep.cleaning.drop) == (("a+",), ("script", "duplicate"))


def test_text_is_checked_aligned_and_its_unknown_words_replaced(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    for diagnosis in (
        nmtkit.doctor(src_lang="en"),
        nmtkit.doctor(),
    ):  # the languages of the text, or of the data folder
        assert (diagnosis.src, diagnosis.tgt) == ("en", "fr")
    assert not any(finding.fatal for finding in diagnosis.findings)
    links, pairs = tmp_path / "links", (made / "data/train.src").read_text().splitlines()
    links.write_text("".join(" ".join(f"{i}-{i}" for i in range(len(line.split()))) + "\n" for line in pairs))
    report = nmtkit.align(pharaoh=links, threshold=0)
    assert report.entries == len(WORDS) + 1  # with the full stop
    assert nmtkit.align(gold=links).aer == 0
    source, alignment = tmp_path / "in.tok", tmp_path / "alignment"
    source.write_text("old cat\n")
    alignment.write_text("0-0\n")
    assert list(nmtkit.posunk(lines=["<unk> x"], source=source, alignment=alignment)) == ["old x"]
    with pytest.raises(UserError, match=r"^`lines`: a single text, where several are expected"):
        list(nmtkit.posunk(lines="x", source=source))
    nothing: Any = [math.nan]
    with pytest.raises(UserError, match=r"^`lines`: number 1 is nan, not text$"):
        list(nmtkit.posunk(lines=nothing, source=source))
    [preset] = nmtkit.list_presets("dtmt2")
    assert preset["score"] == 44.66
    assert 150 < preset["parameters_ours"] < 250


def test_the_lines_of_an_open_file_may_have_their_line_ends(made: Path, tmp_path: Path) -> None:
    source, translation = tmp_path / "source", tmp_path / "translation"
    source.write_text("old cat\n\n")
    translation.write_text("<unkpos_0> x\n\n")
    with translation.open() as lines:
        assert list(nmtkit.posunk(lines=lines, source=source)) == ["old x", ""]
    [[copied]] = nmtkit.translate(["7\n"], model=made / "run", jobs=1, keep=["[0-9]"])
    assert copied.text == "7"


@pytest.mark.parametrize("keep", [(), ["[0-9]"]])
def test_a_line_that_is_not_text_is_named_by_its_number_among_all(made: Path, keep: list[str]) -> None:
    lines: Any = ["cat."] * 40 + [math.nan]
    complaint = r"`lines`: number 41 is nan, not text$"
    with pytest.raises(UserError, match="^" + complaint):
        list(nmtkit.translate(iter(lines), model=made / "run", jobs=1, keep=keep))
    with pytest.raises(UserError, match="^" + complaint):
        list(nmtkit.load(made / "run").translate(iter(lines)))
    with pytest.raises(UserError, match=r"^text 1: number 41 is nan, not text$"):
        nmtkit.score([lines, lines], language="fr")


def test_weights_of_an_ensemble_may_be_text_as_everywhere(made: Path) -> None:
    both = [made / "run", made / "run"]
    texts = [list(nmtkit.load(both, weights=weights).translate(["old cat"])) for weights in ("1,3", [1, 3])]
    assert texts[0] == texts[1]
    with pytest.raises(nmtkit.UserError, match=r"^`weights` x: expected one number for each model"):
        nmtkit.load(both, weights="x")


def test_an_ensemble_of_equal_models_translates_as_the_model(made: Path, tmp_path: Path) -> None:
    nmtkit.ensemble([made / "run", made / "run"], output=tmp_path / "ensemble", weights=[1, 3])
    texts = [
        list(nmtkit.load(folder).translate(["cat", "old dog"])) for folder in (made / "run", tmp_path / "ensemble")
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: nmtkit.prep(words=True, bpe=3, joint=True), "`words`: words are not split; leave out `bpe`"),
        (lambda: nmtkit.prep(bpe=3, sentencepiece=3), "`bpe` and `sentencepiece` cannot be combined"),
        (lambda: nmtkit.prep(dev=("a", "b")), "`dev` and `test` need `train`; without it, all three are read "),
        (lambda: nmtkit.prep(like="x", bpe=3, escape=True), "`like` x: has its own settings; leave out `"),
        (lambda: nmtkit.prep(shard="1/2", merge=True), "`shard`: `merge` and `keep_rejected` are for the com"),
        (lambda: nmtkit.prep(bpe="x"), "`bpe`: expected a number, found 'x'"),
        (lambda: nmtkit.prep(max_ratio=0.5), "`max_ratio` must be 0 or at least 1, not 0.5"),
        (lambda: nmtkit.prep(train=("a.en", "b.fr"), drop="x,script"), "`drop` x: not one of identical, "),
        (lambda: nmtkit.prep(train=("a.en", "b.fr"), tokenizer="x"), "`tokenizer` x: not one of reversible, "),
        (lambda: nmtkit.prep(train=("a.en", "b.fr"), tokenizer="de=none"), "`tokenizer` de=none: expected LAN"),
        (lambda: nmtkit.prep(train=("a.en", "b.fr"), shard="3/2"), "`shard` 3/2: expected PART/PARTS, as in 1/8"),
        (lambda: nmtkit.prep(train=("a.en", "b.fr"), shard="0/2"), "`shard` 0/2: expected PART/PARTS, as in 1/8"),
        (lambda: nmtkit.vocab(joint=True, src_size=9, tgt_size=8), "`joint` makes one vocabulary of one size, n"),
        (lambda: nmtkit.vocab(src_from="dict.txt", src_size=4), "`src_size` 4: 4 rows are symbols; use a larger one"),
        (lambda: nmtkit.vocab(joint=True, tgt_size=-1), "`tgt_size` -1: 4 rows are symbols; use a larger one"),
        (lambda: nmtkit.score(language="fr"), "`references`, `source`, `vocab`, `paired`, `seeds`, `language`"),
        (lambda: nmtkit.score([["a"]]), "text 1: translations and a reference are needed: nmtkit score HYP... REF"),
        (lambda: nmtkit.score([["a"], ["a", "b"]]), "text 1 has 1 line but text 2 has 2; align them line by line"),
        (lambda: nmtkit.score([[], []]), "text 1 is empty: there is nothing to score"),
        (lambda: nmtkit.score([["a"], ["b"]], seeds=True), "text 1: `paired` and `seeds` compare translations;"),
        (lambda: nmtkit.score([["a"], ["b"], ["c"]], seeds=True, paired="bs"), "`paired` compares systems, and "),
        (lambda: nmtkit.score([["a"], ["b"]], split="dev"), "`precision` and `device` are for a model; leave"),
        (lambda: nmtkit.contrast("a", types="agreement"), "`types`: a single text, where several are expected"),
        (lambda: nmtkit.gradient_flows("deep-att", compare="a=b"), "`compare`: a single text, where several are"),
        (lambda: nmtkit.translate(["a"], keep="at"), "`keep`: a single text, where several are expected"),
        (lambda: nmtkit.score(model=["a", "b"]), "`model`: one folder is expected, not several; to combine"),
        (lambda: nmtkit.tune(["a", "b"]), "`model`: one folder is expected, not several; to combine"),
        (lambda: nmtkit.tune([]), "no model in the list; name at least one"),
        (lambda: nmtkit.translate(["a"], model=[]), "no model in the list; name at least one"),
        (lambda: nmtkit.average(best=2.5), "`best`: expected a whole number, found float 2.5"),  # type: ignore[arg-type]
        (lambda: nmtkit.list_presets("deep"), "`preset` deep: no such preset; did you mean bideep, "),
        (lambda: nmtkit.report([]), "no model in the list; name at least one"),
        (lambda: nmtkit.ensemble([]), "an ensemble needs several models; name at least two"),
        (lambda: nmtkit.ensemble(["run"]), "an ensemble needs several models; name at least two"),
        (lambda: nmtkit.ensemble(["a", "b"], weights=2), "`weights` 2: expected one number for each"),
        (lambda: nmtkit.ensemble(["a", "b"], weights=[]), "`weights` []: expected one number for each"),
    ],
)  # fmt: skip
def test_what_excludes_each_other_is_said_in_the_names_of_arguments(
    call: Any, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        call()
    assert complaint in str(refused.value)
    assert [*tmp_path.iterdir()] == []
