import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from nmtkit.data.settings import Side
from nmtkit.data.text import TextPipeline
from nmtkit.evaluation.bleu import chrf2, multi_bleu, sacrebleu_13a

HYP = ["The cat sat on the mat.", "Hello, big world, it's me!", "", "It rains cats and dogs today."]
REF = ["The cat sat on a mat.", "Hello, big world, it's me!", "Blank.", "It rains cats and dogs Today."]

Run = Callable[..., Any]  # the command line of tests/conftest.py


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, lines: list[str]) -> Path:
    file = Path(path)
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def scores(outcome: Any) -> list[dict[str, float]]:
    """The scores in the JSON that was printed, by metric, for every system."""
    assert outcome.status == 0, outcome.err
    systems = json.loads(outcome.out)["systems"]
    return [{name: entry["score"] for name, entry in system["scores"].items()} for system in systems]


def test_scores_are_those_of_the_metrics_on_moses_words_and_on_plain_text(nmtkit: Run) -> None:
    write("hyp", HYP)
    write("ref", REF)
    pipeline = TextPipeline(Side("en", normalize=False, segmentation="words"))
    hyp_words, ref_words = ([" ".join(pipeline.tokenize(line)) for line in lines] for lines in (HYP, REF))
    assert "it 's me !" in hyp_words[1]
    assert scores(nmtkit("score", "hyp", "ref", "--language", "en", "--json")) == [
        {
            "multi-bleu": multi_bleu(hyp_words, ref_words, lowercase=False).value,
            "multi-bleu-lc": multi_bleu(hyp_words, ref_words, lowercase=True).value,
            "sacreBLEU-13a": sacrebleu_13a(HYP, REF).value,
            "chrF2": chrf2(HYP, REF).value,
        }
    ]


def test_the_table_has_a_line_per_system_and_says_what_each_number_is(nmtkit: Run) -> None:
    write("one.txt", HYP)
    write("runs/two.txt", REF)
    write("ref", REF)
    outcome = nmtkit("score", "one.txt", "runs/two.txt", "ref", "-l", "en")
    assert outcome.status == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0] == "4 sentences, reference ref"
    assert lines[2].split() == ["multi-bleu", "multi-bleu-lc", "sacreBLEU-13a", "chrF2"]
    assert lines[3].startswith("one.txt      ")
    assert lines[4].split() == ["runs/two.txt", "100.00", "100.00", "100.00", "100.00"]
    assert len({len(line) for line in lines[2:5]}) == 1
    assert lines[6].startswith("multi-bleu     of Moses words (en)               nrefs:1|case:mixed|eff:no|tok:none")
    assert lines[7].startswith("multi-bleu-lc  of Moses words (en), lower-cased  nrefs:1|case:lc|eff:no|tok:none")
    assert lines[8].startswith("sacreBLEU-13a  of plain text                     nrefs:1|case:mixed|eff:no|tok:13a")
    assert lines[9].startswith("chrF2          of plain text                     nrefs:1|case:mixed|eff:yes|nc:6")
    assert len(lines) == 10


def test_json_has_everything_that_the_table_has(nmtkit: Run) -> None:
    write("été.txt", HYP)
    write("ref", REF)
    outcome = nmtkit("score", "été.txt", "ref", "-l", "en", "--json")
    report = json.loads(outcome.out)
    assert (report["reference"], report["sentences"]) == ("ref", 4)
    [system] = report["systems"]
    assert system["hypothesis"] == "été.txt"
    assert system["scores"]["multi-bleu-lc"]["computed_on"] == "Moses words (en), lower-cased"
    assert system["scores"]["sacreBLEU-13a"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")


def test_translations_can_come_from_a_pipe(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("ref", REF)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(REF).encode())))
    [result] = scores(nmtkit("score", "-", "ref", "-l", "en", "--json"))
    assert result["sacreBLEU-13a"] == pytest.approx(100)


def test_tokenized_files_are_scored_as_they_stand_and_only_by_words(nmtkit: Run) -> None:
    hyps, refs = ["l' eau , c' est bon ."], ["l' eau , c' est bien ."]
    write("hyp", hyps)
    write("ref", refs)
    outcome = nmtkit("score", "hyp", "ref", "--tokenized", "--json")
    [result] = scores(outcome)
    assert list(result) == ["multi-bleu", "multi-bleu-lc"]
    assert result["multi-bleu"] == multi_bleu(hyps, refs, lowercase=False).value > 0
    assert "words as given" in outcome.out
    assert outcome.err == ""


def test_the_language_changes_the_words(nmtkit: Run) -> None:
    write("hyp", ["Am 3. Mai kam er endlich an"])
    write("ref", ["Am 4. Mai kam er endlich an"])
    [german] = scores(nmtkit("score", "hyp", "ref", "-l", "de", "--json"))
    [english] = scores(nmtkit("score", "hyp", "ref", "-l", "en", "--json"))
    assert german["multi-bleu"] < english["multi-bleu"]  # which has a full stop there, a word that matches
    assert german["sacreBLEU-13a"] == english["sacreBLEU-13a"]


def test_the_language_is_that_of_the_data_folder(nmtkit: Run) -> None:
    write("data/prep.yaml", ["src: {language: en}", "tgt: {language: fr, truecase: true}"])
    write("hyp", REF)
    write("ref", REF)
    outcome = nmtkit("score", "hyp", "ref")
    assert "of Moses words (fr) " in outcome.out
    assert outcome.err == ""
    assert "of Moses words (de) " in nmtkit("score", "hyp", "ref", "--language", "de").out


def test_taking_the_text_for_english_is_said(nmtkit: Run) -> None:
    write("hyp", REF)
    write("ref", REF)
    outcome = nmtkit("score", "hyp", "ref")
    assert "of Moses words (en) " in outcome.out
    assert outcome.err == "nmtkit: tokenised BLEU takes the text for English; --language names another\n"


def test_text_that_looks_tokenised_is_pointed_out(nmtkit: Run) -> None:
    write("hyp", ["It rains .", "It does not rain .", "Why ?"])
    write("ref", ["It rains.", "It does not rain.", "Why?"])
    outcome = nmtkit("score", "hyp", "ref", "-l", "en")
    assert outcome.status == 0
    assert outcome.err == (
        "nmtkit: hyp looks tokenised; if it is, say --tokenized, because plain text is expected here\n"
    )


def test_blank_lines_count_as_wrong(nmtkit: Run) -> None:
    write("hyp", ["", "", "", ""])
    write("ref", REF)
    [result] = scores(nmtkit("score", "hyp", "ref", "--json"))
    assert set(result.values()) == {0.0}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["hyp", "short"], "hyp has 4 lines but short has 3; make them correspond"),
        (["short", "ref"], "short has 3 lines but ref has 4; make them correspond"),
        (["hyp", "short", "ref"], "short has 3 lines but ref has 4; make them correspond"),
        (["empty", "ref"], "empty is empty: there is nothing to score"),
        (["hyp", "empty"], "empty is empty: there is nothing to score"),
        (["missing", "ref"], "missing: cannot be read: No such file or directory"),
        (["hyp"], "hyp: translations and a reference are needed: nmtkit score HYP... REF"),
        (["--tokenized"], "--language and --tokenized say what files are; give some: nmtkit score HYP... REF"),
        ([], "data/test.raw.tgt: not there; prepare a test set, or give files: nmtkit score HYP... REF"),
    ],
)
def test_mistakes_are_one_line(nmtkit: Run, arguments: list[str], complaint: str) -> None:
    write("hyp", HYP)
    write("ref", REF)
    write("short", REF[:3])
    write("empty", [])
    assert nmtkit("score", *arguments) == (1, "", f"nmtkit: error: {complaint}\n")


class Translation(NamedTuple):
    text: str
    tokens: list[str]


class ShoutingTranslator:
    """Stands for a model that translates into the same words, of which it knows none longer than six letters."""

    def __init__(self) -> None:
        self.tgt_pipeline = TextPipeline(Side("en", segmentation="words", lowercase=True))

    def n_best(self, lines: list[str], n: int) -> list[list[Translation]]:
        pipeline = self.tgt_pipeline
        found = [["<unk>" if len(word) > 6 else word for word in pipeline.tokens(line)] for line in lines]
        return [[Translation(pipeline.text(tokens), tokens)] for tokens in found]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A working folder with a test set and a model; where the model was looked for."""
    asked = SimpleNamespace()

    def load(folder: Path, device: str) -> ShoutingTranslator:
        asked.folder, asked.device = folder, device
        return ShoutingTranslator()

    monkeypatch.setattr("nmtkit.api.load", load)
    write("data/test.raw.src", REF)
    write("data/test.raw.tgt", REF)
    Path("run").mkdir()
    return asked


def test_without_files_the_test_set_is_translated_and_scored(nmtkit: Run, model: SimpleNamespace) -> None:
    outcome = nmtkit("score", "--json")
    assert outcome.err.rstrip() == "nmtkit: translating the 4 lines of data/test.raw.src with run into run/test.hyp"
    assert (model.folder, model.device) == (Path("run"), "auto")
    assert json.loads(outcome.out)["systems"][0]["hypothesis"] == "run/test.hyp"

    hyps = Path("run/test.hyp").read_text().splitlines()
    assert hyps == [line.lower() for line in REF]
    [result] = scores(outcome)
    assert result["sacreBLEU-13a"] == sacrebleu_13a(hyps, REF).value < 99
    assert result["multi-bleu"] == result["multi-bleu-lc"] == pytest.approx(100)  # the model's words have no capitals
    assert "Moses words (en, normalised, lower-cased)" in outcome.out


def test_tokenised_bleu_of_a_model_is_counted_on_its_own_words(nmtkit: Run, model: SimpleNamespace) -> None:
    source = ["A mother-in-law is grandmotherly here."]
    write("data/test.raw.src", source)
    write("data/test.raw.tgt", source)
    [result] = scores(nmtkit("score", "--json"))
    words = ["a <unk> is <unk> here ."], ["a mother-in-law is grandmotherly here ."]
    assert result["multi-bleu"] == multi_bleu(*words, lowercase=False).value


def test_folders_and_device_can_be_named(nmtkit: Run, model: SimpleNamespace) -> None:
    Path("data").rename("elsewhere")
    Path("run").rename("mine")
    assert nmtkit("score", "--data", "elsewhere", "-m", "mine", "--device", "cpu").status == 0
    assert (model.folder, model.device) == (Path("mine"), "cpu")
    assert Path("mine/test.hyp").exists()


def test_a_test_set_of_unequal_sides_is_not_scored(nmtkit: Run, model: SimpleNamespace) -> None:
    write("data/test.raw.src", REF[:3])
    outcome = nmtkit("score")
    assert outcome == (
        1, "", "nmtkit: error: data/test.raw.src has 3 lines but its reference has 4; run nmtkit prep again\n"
    )
    assert not Path("run/test.hyp").exists()
