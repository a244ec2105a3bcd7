"""Commands that read what other commands write: every pair once, on one small run that the real commands made.

prep       vocab, align, train (the development set), score and tune and report (held-out sets)
align      vocab --unkpos, translate --replace-unk and --shortlist, posunk, itself (--gold)
vocab      train, inspect, score --vocab
models     train --config
train      itself (a run that goes on), average, ensemble, translate, score, tune, contrast, report, inspect
average    translate, ensemble, report
ensemble   translate, score, tune, report
tune       translate (the options that it prints or saves), train (a run that goes on)
translate  score, posunk (tokens and alignment), itself (--score-reference)
"""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmtkit.cli.main import main
from nmtkit.evaluation.bleu import score
from nmtkit.text.pipeline import TextPipeline
from nmtkit.writing import locked

Nmtkit = Callable[..., Any]  # the command line of tests/conftest.py

SMALL = """
model: {embedding: 16, hidden: 24, attention: 16, maxout: 16}
training:
  optimizer: {name: adam, lr: 0.02}
  batch_sentences: 10
  max_epochs: 8
  valid_every: 40
  keep_best: 2
search: {beam_size: 3, max_len_a: 1, max_len_b: 2}
"""
WORDS = {"cat": "chat", "dog": "chien", "tree": "arbre", "house": "maison", "old": "vieux", "new": "neuf"}
SIZES = {"train": 200, "dev": 6, "test": 5}


def command(folder: Path, *arguments: str) -> None:
    """Runs one ``nmtkit`` command in ``folder``; it must succeed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["nmtkit", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which prep, vocab and train have run."""
    folder, choose = tmp_path_factory.mktemp("pairs"), random.Random(1)
    (folder / "raw").mkdir()
    for split, size in SIZES.items():
        english = [choose.choices(list(WORDS), k=choose.randint(2, 5)) for _ in range(size)]
        sides = {"en": english, "fr": [[WORDS[word] for word in words] for words in english]}
        for language, sentences in sides.items():
            (folder / f"raw/{split}.{language}").write_text("".join(f"{' '.join(s)}.\n" for s in sentences))
    (folder / "small.yaml").write_text(SMALL)
    command(folder, "prep", "-s", "en", "-t", "fr", "--words", "-j", "1")
    command(folder, "vocab", "-j", "1")
    command(folder, "train", "--model", "rnnsearch", "--config", "small.yaml")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_report_reads_what_train_writes(folder: Path, nmtkit: Nmtkit) -> None:
    outcome = nmtkit("report", "run")
    assert outcome.status == 0, outcome.err
    page = Path("report.html").read_text("utf-8")
    assert "<h2>Training" in page
    assert page.count("<figure>") >= 7


def test_align_writes_what_vocab_translate_and_posunk_read(folder: Path, nmtkit: Nmtkit) -> None:
    sources = Path("data/train.src").read_text().splitlines()
    diagonal = [" ".join(f"{i}-{i}" for i in range(len(line.split()))) for line in sources]  # word for word
    Path("links").write_text("".join(f"{line}\n" for line in diagonal))
    aligned = nmtkit("align", "--pharaoh", "links", "--threshold", "1")
    assert aligned.status == 0, aligned.err
    gold = nmtkit("align", "--pharaoh", "data/train.align", "--gold", "links")
    assert gold.status == 0, gold.err
    assert nmtkit("vocab", "--unkpos", "--tgt-size", "24", "-j", "1").status == 0
    trained = nmtkit("train", "--model", "rnnsearch", "--config", "small.yaml", "-o", "annotated",
                     "--set", "training.max_epochs=1")  # fmt: skip
    assert trained.status == 0, trained.err
    for option in ("--replace-unk", "--shortlist=2"):
        outcome = nmtkit("translate", "-m", "annotated", "-i", "raw/test.en", option)
        assert (outcome.status, outcome.out.count("\n")) == (0, SIZES["test"])
    scored = nmtkit("score", "-m", "annotated")
    assert (scored.status, "cross-entropy" in scored.out) == (0, False)  # the model was not trained on <unk>
    assert "no cross-entropy of the reference: it has " in scored.err
    tokens = nmtkit("translate", "-m", "annotated", "--tokenized", "--alignment", "-i", "data/test.src")
    both = [line.split("\t") for line in tokens.out.splitlines()]
    Path("out.tok").write_text("".join(f"{words}\n" for words, _ in both))
    Path("out.align").write_text("".join(f"{links}\n" for _, links in both))
    files = ("--source", "data/test.src", "--alignment", "out.align", "--lexicon", "data/lexicon.tsv")
    replaced = nmtkit("posunk", *files, "-i", "out.tok")
    assert (replaced.status, replaced.out.count("\n")) == (0, SIZES["test"])
    assert "<unk" not in replaced.out


def test_score_reads_what_translate_and_vocab_write(folder: Path, nmtkit: Nmtkit) -> None:
    assert nmtkit("translate", "-i", "raw/test.en", "-o", "out.fr").status == 0
    options = ["--source", "raw/test.en", "--vocab", "data/vocab.tgt", "--json"]
    by_file = json.loads(nmtkit("score", "out.fr", "raw/test.fr", *options).out)
    by_model = json.loads(nmtkit("score", "--json").out)
    assert Path("run/test.hyp").read_text() == Path("out.fr").read_text()
    for key in ("by_length", "unknown_free"):
        assert by_file[key] == by_model[key]
    ours, theirs = (report["systems"][0]["scores"] for report in (by_file, by_model))
    assert {name: ours[name]["score"] for name in ours} == {name: theirs[name]["score"] for name in theirs}
    scored = nmtkit("translate", "-i", "raw/test.en", "--score-reference", "out.fr", "--scores", "sentence")
    searched = nmtkit("translate", "-i", "raw/test.en", "--scores", "sentence")
    forced, found = (
        [float(line.split("\t")[0]) for line in outcome.out.splitlines()] for outcome in (scored, searched)
    )
    assert forced == pytest.approx(found, abs=1e-3)


def test_train_reads_what_models_prints_and_resumes_its_own_run(folder: Path, nmtkit: Nmtkit) -> None:
    Path("whole.yaml").write_text(nmtkit("models", "rnnsearch").out)
    planned = nmtkit("train", "--config", "whole.yaml", "--dry-run")
    assert planned.status == 0, planned.err
    more = nmtkit("train", "--model", "rnnsearch", "--config", "small.yaml", "--set", "training.max_epochs=9")
    assert more.status == 0, more.err
    assert "resuming from update 160" in more.err


def test_inspect_reads_what_vocab_and_train_write(folder: Path, nmtkit: Nmtkit) -> None:
    assert "millions of parameters" in nmtkit("inspect", "run").out
    flow = nmtkit("inspect", "run", "--gradients")
    assert flow.status == 0, flow.err
    assert "encoder.recurrent.1, backward" in flow.out
    assert "divided by" not in flow.out  # nothing stands on anything


def test_report_measures_the_checkpoints_and_the_pairs_that_contrast_reads(folder: Path, nmtkit: Nmtkit) -> None:
    errors = [{"type": kind, "contrastive": "vieux chat.", "distance": n} for n, kind in enumerate("ab")]
    pairs = [{"source": "old cat.", "reference": "vieux chien.", "errors": errors}]
    Path("set.json").write_text(json.dumps(pairs))
    accuracies = json.loads(nmtkit("contrast", "set.json", "--json").out)
    outcome = nmtkit("report", "--checkpoints", "--contrast", "set.json")
    assert outcome.status == 0, outcome.err
    page = Path("report.html").read_text("utf-8")
    assert "<figcaption>Token errors, test against train" in page
    assert "<figcaption>Test cross-entropy by updates" in page
    assert "<figcaption>Accuracy by distance" in page
    assert "<td>b</td>" in page
    share = f"{100 * accuracies['type'][-1]['accuracy']:.1f}"
    assert f'<td>all</td><td class="figure">2</td><td class="figure">{share}</td>' in page
    assert nmtkit("report", "--contrast", "set.json", "--type", "a").status == 0
    assert "<td>b</td>" not in Path("report.html").read_text("utf-8")
    Path("data/vocab.src").write_text(Path("data/vocab.src").read_text().replace("cat", "act"))
    complaint = "data: its vocabularies are not those of run; give the model's --data folder"
    assert nmtkit("report", "--checkpoints").err.splitlines()[-1] == f"nmtkit: error: {complaint}"


def test_every_command_that_takes_a_model_takes_an_ensemble_or_refuses_it(folder: Path, nmtkit: Nmtkit) -> None:
    assert nmtkit("average").status == 0
    Path("run").rename("other")
    assert nmtkit("average", *map(str, Path("other/checkpoints").iterdir()), "-o", "of_paths").status == 0
    Path("other").rename("run")
    assert nmtkit("ensemble", "run", "averaged").status == 0
    assert nmtkit("translate", "-m", "ensemble", "-i", "raw/test.en").out.count("\n") == SIZES["test"]
    assert "perplexity" in nmtkit("score", "-m", "ensemble").out
    assert nmtkit("ensemble", "run", "averaged", "--combine", "logprob", "-o", "unnormalised").status == 0
    assert "perplexity" not in nmtkit("score", "-m", "unnormalised").out  # the probabilities do not sum to 1
    assert nmtkit("tune", "-m", "ensemble", "--alphas", "1").status == 0
    complaint = "--save: ensemble is an ensemble, which has no settings of its own; leave --save out"
    assert nmtkit("tune", "-m", "ensemble", "--save") == (1, "", f"nmtkit: error: {complaint}\n")
    reported = nmtkit("report", "run", "ensemble")
    assert reported.status == 0, reported.err
    page = Path("report.html").read_text("utf-8")
    assert "ensemble of 2" in page
    assert "# ensemble/members/1-run" in page
    for command in (["average", "-m", "ensemble"], ["inspect", "ensemble"]):
        complaint = "ensemble: an ensemble, not a single model; its members are in ensemble/members"
        assert nmtkit(*command) == (1, "", f"nmtkit: error: {complaint}\n")


def test_every_command_that_takes_a_model_takes_a_checkpoint_of_it(folder: Path, nmtkit: Nmtkit) -> None:
    kept = sorted(int(path.name.removeprefix("step-")) for path in Path("run/checkpoints").iterdir())
    first = f"run/checkpoints/step-{kept[0]}"
    whole = nmtkit("translate", "-i", "raw/test.en", "--scores", "sentence").out
    one = nmtkit("translate", "-m", first, "-i", "raw/test.en", "--scores", "sentence")
    assert (one.status, one.err) == (0, "")
    assert nmtkit("translate", "--checkpoint", kept[0], "-i", "raw/test.en", "--scores", "sentence") == one
    other = nmtkit("translate", "--checkpoint", kept[-1], "-i", "raw/test.en", "--scores", "sentence").out
    assert one.out != other
    assert whole == nmtkit("translate", "--checkpoint", "best", "-i", "raw/test.en", "--scores", "sentence").out
    assert nmtkit("score", "-m", first).status == 0
    assert len(Path(first, "test.hyp").read_text().splitlines()) == SIZES["test"]
    assert not Path("run/test.hyp").exists()
    assert nmtkit("tune", "--checkpoint", "last", "--alphas", "1").status == 0
    assert nmtkit("inspect", first, "--gradients").status == 0
    reported = nmtkit("report", first, "run")
    assert reported.status == 0, reported.err
    assert nmtkit("ensemble", first, "run").status == 0
    assert nmtkit("translate", "-m", "ensemble", "-i", "raw/test.en").out.count("\n") == SIZES["test"]
    wrong = nmtkit("translate", "--checkpoint", "7")
    shown = ", ".join(map(str, kept))
    assert wrong.err.startswith(
        f"nmtkit: error: --checkpoint 7: does not exist; the checkpoints of run are {shown}, the best"
    )
    assert nmtkit("score", "a", "b", "--checkpoint", "last").status == 1


def test_a_model_is_fine_tuned_on_text_prepared_like_its_own(folder: Path, nmtkit: Nmtkit) -> None:
    Path("more").mkdir()
    for path in Path("raw").iterdir():
        Path("more", path.name).write_text(path.read_text().replace("old", "red").replace("vieux", "rouge"))
    prepared = nmtkit("prep", "--like", "run", "--raw", "more", "-o", "more/data", "-j", "1")
    assert prepared.status == 0, prepared.err
    assert nmtkit("vocab", "-d", "more/data", "-j", "1").status == 0
    tuned = nmtkit("train", "--from", "run", "-d", "more/data", "-o", "tuned", "--max-epochs", "1")
    assert tuned.status == 0, tuned.err
    assert "starting with the weights of run/checkpoints/step-" in tuned.err
    assert "words are in the model, 1 are new (red)" in tuned.err
    assert nmtkit("translate", "-m", "tuned", "-i", "raw/test.en").out.count("\n") == SIZES["test"]
    again = nmtkit("train", "--from", "run", "-d", "more/data", "-o", "tuned", "--max-epochs", "2", "--set",
                   "training.optimizer.lr=0.001")  # fmt: skip
    assert again.status == 0, again.err
    assert "changed since the last start: training.optimizer.lr 0.02 -> 0.001" in again.err
    # With the model's own vocabularies, all ids keep their meaning.
    own = ("--src-from", "run/vocab.src", "--tgt-from", "run/vocab.tgt")
    assert nmtkit("vocab", "-d", "more/data", "-j", "1", *own).status == 0
    for side in ("src", "tgt"):
        words = [
            [line.split("\t")[0] for line in Path(name, f"vocab.{side}").read_text().splitlines()]
            for name in ("run", "more/data")
        ]
        assert words[0] == words[1]
    other = nmtkit("train", "--from", "tuned", "-d", "more/data", "-o", "run")
    assert (other.status, other.err.count("\n")) == (1, 1)
    assert "error: run: the run there began with random weights; leave --from out to resume it, or use" in other.err


@pytest.mark.parametrize(
    "options", ["--tokenizer none --joint", pytest.param("--separate --truecase", marks=pytest.mark.slow)]
)
def test_sentencepiece_goes_from_prep_to_score(folder: Path, nmtkit: Nmtkit, options: str) -> None:
    strange = ["", "ALT\u2581cat ☃☃ dog.", "cat @@ dog", "old " * 300]
    with Path("raw/test.en").open("a") as file:
        file.writelines(f"{line}\n" for line in strange)
    with Path("raw/test.fr").open("a") as file:
        file.writelines("chat chien.\n" for _ in strange)
    prepared = nmtkit("prep", "-s", "en", "-t", "fr", "--sentencepiece", 60, *options.split(), "-o", "pieces", "-j", 1)
    assert prepared.status == 0, prepared.err
    assert "SentencePiece of at most 60 pieces" in prepared.err
    models = [Path(f"pieces/sentencepiece.{side}").read_bytes() for side in ("src", "tgt")]
    assert (models[0] == models[1]) == ("--joint" in options)
    assert nmtkit("prep", "--verify", "-o", "pieces").status == 0
    assert nmtkit("vocab", "-d", "pieces", "-j", 1).status == 0
    small = ["--model", "rnnsearch", "--config", "small.yaml", "--max-epochs", 1]
    trained = nmtkit("train", *small, "-d", "pieces", "-o", "split")
    assert trained.status == 0, trained.err
    assert {"sentencepiece.src", "sentencepiece.tgt"} < json.loads(Path("split/checksums.json").read_text()).keys()
    outcome = nmtkit("translate", "-m", "split", "-i", "raw/test.en", "--alignment", "--replace-unk", "-j", 1)
    assert outcome.status == 0, outcome.err
    sources = Path("raw/test.en").read_text().splitlines()
    lines = [line.split("\t") for line in outcome.out.splitlines()]
    assert len(lines) == len(sources) == SIZES["test"] + len(strange)
    assert "\u2581" not in outcome.out
    reader = TextPipeline.load(Path("split"), "src")
    for source, (text, links) in zip(sources, lines, strict=True):
        # Words are counted as a reader counts them, not their pieces.
        for link in links.split():
            i, j = map(int, link.split("-"))
            assert i < len(reader.tokenize(source))
            assert "none" not in options or j < len(text.split())
    assert nmtkit("score", "-m", "split", "-d", "pieces").status == 0
    bundled = nmtkit("ensemble", "split", "split/checkpoints/step-20", "-o", "both")
    assert bundled.status == 0, bundled.err
    assert nmtkit("translate", "-m", "both", "-i", "raw/test.en", "-j", 1).out.count("\n") == len(sources)
    pairs = len(Path("pieces/train.src").read_text().splitlines())
    Path("links").write_text("0-0 1-1\n" * pairs)
    aligned = nmtkit("align", "--pharaoh", "links", "-d", "pieces", "--threshold", 1)
    assert aligned.status == 0, aligned.err
    assert "cat\t" in Path("pieces/lexicon.tsv").read_text()
    assert nmtkit("vocab", "-d", "pieces", "--unkpos").err == (
        "nmtkit: error: --unkpos: pieces has subwords, so no word is unknown; prepare it again with whole words\n"
    )
    alike = nmtkit("prep", "--like", "split", "-o", "alike", "-j", 1)
    assert alike.status == 0, alike.err
    assert Path("alike/test.src").read_bytes() == Path("pieces/test.src").read_bytes()
    Path("split/sentencepiece.src").write_bytes(b"")
    assert "split/sentencepiece.src: does not match its checksum" in nmtkit("translate", "-m", "split").err


def test_translate_finds_what_tune_says_of_every_setting(folder: Path, nmtkit: Nmtkit) -> None:
    tuned = nmtkit("tune", "--alphas", "0.3,2", "--betas", "0,0.5", "--json")
    assert tuned.status == 0, tuned.err
    report = json.loads(tuned.out)
    assert report["best"]["value"] == max(setting["value"] for setting in report["settings"]) > 10
    assert len({setting["value"] for setting in report["settings"]}) > 1
    printed = nmtkit("tune", "--alphas", "0.3,2", "--betas", "0,0.5").out
    assert printed.split()[-1] == f"{report['best']['value']:.2f}"
    for setting in report["settings"]:
        penalties = ["--length-penalty", setting["length_penalty"], "--coverage-penalty", setting["coverage_penalty"]]
        if setting["length_penalty"] in ("gnmt", "power"):
            penalties += ["--alpha", setting["alpha"]]
        translated = nmtkit("translate", "-i", "data/dev.raw.src", *penalties)
        refs = Path("data/dev.raw.tgt").read_text().splitlines()
        value = score("sacreBLEU-13a", translated.out.splitlines(), [refs]).value
        assert setting["value"] == pytest.approx(value)


def test_tune_prints_the_options_that_translate_takes(folder: Path, nmtkit: Nmtkit) -> None:
    outcome = nmtkit("tune", "-b", "3", "--alphas", "0.5", "--betas", "0,0.1")
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("sacreBLEU-13a: 6 sentences, the best 3 translations of each")
    assert [line.split()[:2] for line in outcome.out.splitlines()[4:6]] == [["gnmt", "0.5"], ["power", "0.5"]]
    [*_, now, best] = outcome.out.splitlines()
    assert now.startswith("as it is  --length-penalty none --coverage-penalty 0 ")
    _, *options, _ = best.split()
    assert nmtkit("translate", "-i", "raw/test.en", *options).status == 0


def test_the_penalties_that_tune_saves_are_the_defaults_of_the_model(
    folder: Path, nmtkit: Nmtkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Which penalties are best depends on the processor's rounding; the last are others than the model's own.
    monkeypatch.setattr("nmtkit.evaluation.tuning.tune", lambda _0, _1, _2, settings: [*range(len(settings))])
    first = nmtkit("translate", "-i", "data/dev.raw.src", "--scores", "sentence")
    tuned = nmtkit("tune", "-b", "4", "--alphas", "2", "--betas", "0.5", "--save", "--json")
    saved = "nmtkit: saved the best penalties in run/config.yaml; restart a server that uses the model\n"
    assert (tuned.status, tuned.err) == (0, saved)
    best = json.loads(tuned.out)["best"]
    names = ["length_penalty", "alpha", "coverage_penalty"]
    options = [word for name in names for word in (f"--{name.replace('_', '-')}", best[name])
               if name != "alpha" or best["length_penalty"] in ("gnmt", "power")]  # fmt: skip
    assert nmtkit("average").status == 0
    for each in ("run", "averaged"):
        by_default = nmtkit("translate", "-m", each, "-i", "raw/test.en", "--scores", "sentence")
        assert by_default == nmtkit("translate", "-m", each, "-i", "raw/test.en", "--scores", "sentence", *options)
    assert first != nmtkit("translate", "-i", "data/dev.raw.src", "--scores", "sentence")
    resumed = nmtkit("train", "--max-epochs", "9")
    assert resumed.status == 0, resumed.err
    search = yaml.safe_load(Path("run/config.yaml").read_text())["search"]
    assert [search[name] for name in ("beam_size", *names)] == [3, *(best[name] for name in names)]


def test_tune_saves_the_penalties_of_a_checkpoint_as_those_of_its_run(folder: Path, nmtkit: Nmtkit) -> None:
    checkpoint = str(min(Path("run/checkpoints").iterdir()))
    tuned = nmtkit("tune", "-m", checkpoint, "--alphas", "2", "--save", "--json")
    assert "saved the best penalties in run/config.yaml" in tuned.err
    search = yaml.safe_load(Path("run/config.yaml").read_text())["search"]
    assert search["length_penalty"] == json.loads(tuned.out)["best"]["length_penalty"]
    assert nmtkit("tune", "-m", "missing", "--save").status == 1
    assert not Path("missing").exists()


def test_tune_saves_nothing_in_a_folder_where_training_writes(folder: Path, nmtkit: Nmtkit) -> None:
    before = Path("run/config.yaml").read_bytes()
    with locked(Path("run"), "training"):
        refused = nmtkit("tune", "--save")
    assert (refused.status, refused.out) == (1, "")
    assert "run: another training or tuning (process" in refused.err
    assert Path("run/config.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-b", "10001"], "--beam-size: 10001 is not between 1 and 10000"),
        (["--alphas", "a,1"], "--alphas a,1: expected numbers separated by commas, such as 0.2,0.4"),
        (["--betas", "-1"], "--alphas 0.2,0.4,0.6,0.8,1,1.2,1.4,1.7, --betas -1: "
                            "coverage_penalty: -1.0 is not between 0 and 1000"),
    ],
)  # fmt: skip
def test_settings_that_tune_cannot_try_are_named(
    folder: Path, nmtkit: Nmtkit, options: list[str], complaint: str
) -> None:
    assert nmtkit("tune", *options) == (1, "", f"nmtkit: error: {complaint}\n")


def test_score_and_tune_read_the_development_set_that_prep_writes(folder: Path, nmtkit: Nmtkit) -> None:
    scored = json.loads(nmtkit("score", "--split", "dev", "--max-length", "4", "--json").out)
    [system] = scored["systems"]
    assert 0 < system["cross_entropy"]["sentences"] < 6
    [setting, *_] = json.loads(nmtkit("tune", "--alphas", "1", "--betas", "0", "--json").out)["settings"]
    assert setting["value"] == pytest.approx(system["scores"]["sacreBLEU-13a"]["score"])
    second = Path("data/dev.raw.tgt1")  # as prep --dev-reference writes it
    second.write_text(Path("run/dev.hyp").read_text())
    scored = json.loads(nmtkit("score", "--split", "dev", "--json").out)
    assert scored["references"] == ["data/dev.raw.tgt", "data/dev.raw.tgt1"]
    [setting, *_] = json.loads(nmtkit("tune", "--alphas", "1", "--betas", "0", "--json").out)["settings"]
    value = scored["systems"][0]["scores"]["sacreBLEU-13a"]["score"]
    assert setting["value"] == pytest.approx(value) == pytest.approx(100)


def test_doctor_warns_of_text_whose_round_trip_failed_in_prep(tmp_path: Path, nmtkit: Nmtkit) -> None:
    raw, data = tmp_path / "raw", tmp_path / "data"
    raw.mkdir()
    for split in ("train", "dev"):
        (raw / f"{split}.gn").write_text("mba'éichapa nde ka'aru\n" * 9 + "porã\n")
        (raw / f"{split}.es").write_text("buenas tardes\n" * 9 + "bien\n")
    prep = ["prep", "-s", "es", "--raw", str(raw), "-o", str(data), "-j1"]
    doctor = ["doctor", "-s", "es", "--raw", str(raw), "-d", str(data)]
    made = nmtkit(*prep, "--tokenizer", "moses")
    assert "  gn: 1 of 10 sampled lines detokenise exactly; \"mba'éichapa nde ka'aru\" becomes \"mba 'é" in made.err
    assert "only 10.0% of gn's lines detokenise exactly" in nmtkit(*doctor).out
    assert nmtkit(*prep, "--truecase").status == 0
    found = nmtkit(*doctor).out
    assert "only 0.0% of gn's lines detokenise exactly: " in found
    assert "nmtkit prep is lossless without its options for tokenisation\n" in found  # the tokenizer is reversible
    assert "  gn: 10 of 10 sampled lines detokenise exactly\n" in nmtkit(*prep).err
    assert "detokenise" not in nmtkit(*doctor).out
