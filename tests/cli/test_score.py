import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

import numpy as np
import pytest

from nmtkit.align.posunk import Unknown
from nmtkit.evaluation import significance
from nmtkit.evaluation.bleu import TEXT_METRICS, WORD_METRICS, score
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.settings import Side, Tokenizer
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.testset import describe
from tests.echo import load_echo, write_folder

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
        {metric: score(metric, hyp_words, [ref_words]).value for metric in WORD_METRICS}
        | {metric: score(metric, HYP, [REF]).value for metric in TEXT_METRICS}
    ]


@pytest.mark.parametrize(("name", "side"), [("hyp.tsv", "a table; name a column"), ("hyp.tmx", "a translation memory")])
def test_a_file_with_both_sides_is_no_translation(nmtkit: Run, name: str, side: str) -> None:
    write("ref", HYP)
    write(name, HYP)
    for files in ([name, "ref"], ["ref", name]):
        status, out, err = nmtkit("score", *files)
        assert (status, out) == (1, "")
        assert err.startswith(f"nmtkit: error: {name}: {side}")


def test_the_table_has_a_line_per_system_and_a_signature_per_metric(nmtkit: Run) -> None:
    write("one.txt", HYP)
    write("runs/two.txt", REF)
    write("ref", REF)
    outcome = nmtkit("score", "one.txt", "runs/two.txt", "ref", "-l", "en")
    assert outcome.status == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0] == "4 sentences, reference ref"
    metrics = [*WORD_METRICS, *TEXT_METRICS]
    assert lines[1].split() == ["system", *metrics]
    assert lines[2].startswith("one.txt      ")
    assert lines[3].split() == ["runs/two.txt", *("100.00" for _ in metrics[:-1]), "0.00"]  # TER counts errors
    assert len({len(line) for line in lines[1:4]}) == 1
    assert lines[5] == "metrics"
    assert [line.split()[0] for line in lines[7:]] == metrics
    assert lines[7].startswith("multi-bleu     Moses words (en)  nrefs:1|case:mixed|eff:no|tok:none")
    assert lines[9].startswith("sacreBLEU-13a  plain text        nrefs:1|case:mixed|eff:no|tok:13a")


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        ("moses", "Moses words (en)"),
        ("characters", "Moses words, Chinese characters (en)"),
        ("reversible", "reversible tokens (en)"),
        ("none", "space-separated words (en)"),
    ],
)
def test_the_words_of_every_tokenizer_are_named(tokenizer: Tokenizer, words: str) -> None:
    assert describe(Side("en", normalize=False, tokenizer=tokenizer, segmentation="words")) == words


def test_json_has_everything_that_the_table_has(nmtkit: Run) -> None:
    write("été.txt", HYP)
    write("ref", REF)
    outcome = nmtkit("score", "été.txt", "ref", "-l", "en", "--json")
    report = json.loads(outcome.out)
    assert (report["references"], report["sentences"]) == (["ref"], 4)
    [system] = report["systems"]
    assert system["hypothesis"] == "été.txt"
    assert system["scores"]["multi-bleu-lc"]["computed_on"] == "Moses words (en)"
    assert system["scores"]["sacreBLEU-13a"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")


def test_translations_can_come_from_a_pipe(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("ref", REF)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(REF).encode())))
    [result] = scores(nmtkit("score", "-", "ref", "-l", "en", "--json"))
    assert result["sacreBLEU-13a"] == pytest.approx(100)


def test_tokenized_files_are_scored_unchanged_and_only_by_metrics_of_words(nmtkit: Run) -> None:
    hyps, refs = ["l' eau , c' est bon ."], ["l' eau , c' est bien ."]
    write("hyp", hyps)
    write("ref", refs)
    outcome = nmtkit("score", "hyp", "ref", "--tokenized", "--json")
    [result] = scores(outcome)
    assert list(result) == ["multi-bleu", "multi-bleu-lc"]
    assert result["multi-bleu"] == score("multi-bleu", hyps, [refs]).value > 0
    assert "words as given" in outcome.out
    assert outcome.err == ""


def test_the_language_changes_the_words(nmtkit: Run) -> None:
    write("hyp", ["Am 3. Mai kam er endlich an"])
    write("ref", ["Am 4. Mai kam er endlich an"])
    [german] = scores(nmtkit("score", "hyp", "ref", "-l", "de", "--json"))
    [english] = scores(nmtkit("score", "hyp", "ref", "-l", "en", "--json"))
    assert german["multi-bleu"] < english["multi-bleu"]  # which has a full stop there, a word that matches
    assert german["sacreBLEU-13a"] == english["sacreBLEU-13a"]


@pytest.mark.slow
def test_chinese_is_scored_by_characters_first_of_all(nmtkit: Run) -> None:
    write("hyp", ["猫吃了鱼。"])
    write("ref", ["猫吃了鸟。"])
    [result] = scores(nmtkit("score", "hyp", "ref", "-l", "zh", "--json"))
    assert list(result) == [*WORD_METRICS, "sacreBLEU-zh", *TEXT_METRICS]
    assert result["sacreBLEU-zh"] == score("sacreBLEU-zh", ["猫吃了鱼。"], [["猫吃了鸟。"]]).value > 10


def test_the_language_is_that_of_the_data_folder(nmtkit: Run) -> None:
    write("data/prep.yaml", ["src: {language: en}", "tgt: {language: fr, truecase: true}"])
    write("hyp", REF)
    write("ref", REF)
    outcome = nmtkit("score", "hyp", "ref")
    assert "  Moses words (fr) " in outcome.out
    assert outcome.err == ""
    assert "  Moses words (de) " in nmtkit("score", "hyp", "ref", "--language", "de").out


def test_words_are_characters_if_those_of_the_data_folder_are(nmtkit: Run) -> None:
    write("data/prep.yaml", [f"{side}: {{language: zh, tokenizer: characters}}" for side in ("src", "tgt")])
    write("hyp", ["我们今天去北京看一个老朋友。"])
    write("ref", ["我们今天去北京看一个朋友。"])
    outcome = nmtkit("score", "hyp", "ref", "--source", "ref", "--json")
    [result] = scores(outcome)
    spaced = [" ".join(Path(name).read_text("utf-8").strip()) for name in ("hyp", "ref")]
    assert result["multi-bleu"] == score("multi-bleu", spaced[:1], [spaced[1:]]).value > 10
    assert [part["name"] for part in json.loads(outcome.out)["by_length"]] == ["11-20"]
    assert "  Moses words, Chinese characters (zh) " in nmtkit("score", "hyp", "ref").out


@pytest.mark.parametrize("twice", [["-", "-"], ["-", "ref", "-r", "-"], ["hyp", "-", "--source", "-"]])
def test_standard_input_can_be_given_only_once(nmtkit: Run, twice: list[str]) -> None:
    write("hyp", REF)
    write("ref", REF)
    complaint = "nmtkit: error: -: standard input can be read only once; name a file instead of the other -\n"
    assert nmtkit("score", *twice) == (1, "", complaint)


def test_assuming_that_text_is_english_is_logged(nmtkit: Run) -> None:
    write("hyp", REF)
    write("ref", REF)
    outcome = nmtkit("score", "hyp", "ref")
    assert "  Moses words (en) " in outcome.out
    assert outcome.err == "nmtkit: tokenised BLEU assumes English; set --language for another language\n"


def test_a_language_that_moses_does_not_know_is_logged(nmtkit: Run) -> None:
    write("hyp", REF)
    write("ref", REF)
    said = "Moses has no rules for it; tokenised BLEU uses English abbreviations and splits at every apostrophe\n"
    assert nmtkit("score", "hyp", "ref", "-l", "qu").err == f"nmtkit: language qu: {said}"
    assert nmtkit("score", "hyp", "ref", "-l", "de").err == ""


def test_text_that_looks_tokenised_gets_a_warning(nmtkit: Run) -> None:
    write("hyp", ["It rains .", "It does not rain .", "Why ?"])
    write("ref", ["It rains.", "It does not rain.", "Why?"])
    outcome = nmtkit("score", "hyp", "ref", "-l", "en")
    assert outcome.status == 0
    assert (
        outcome.err == "nmtkit: hyp looks tokenised, but plain text is expected; if it is tokenised, set --tokenized\n"
    )


@pytest.mark.parametrize("options", [("-l", "en"), ("--tokenized",)])
def test_text_in_subwords_gets_a_warning_with_the_command_that_joins_them(
    nmtkit: Run, options: tuple[str, ...]
) -> None:
    write("hyp", ["It ra@@ ins .", "It does not ra@@ in .", "Why ?"])
    write("ref", ["It rains .", "It does not rain .", "Why ?"])
    told = "looks segmented into subwords, with @@ in many lines; join them first, for example with sed 's/@@ //g'\n"
    assert nmtkit("score", "hyp", "ref", *options).err == f"nmtkit: hyp {told}"


@pytest.mark.parametrize(("hyp", "ref", "warned"), [("NFC", "NFD", True), ("NFD", "NFC", True), ("NFC", "NFC", False)])
def test_text_in_another_normal_form_than_the_reference_gets_a_warning(
    nmtkit: Run, hyp: Literal["NFC", "NFD"], ref: Literal["NFC", "NFD"], warned: bool
) -> None:
    write("hyp", [normalize(hyp, "sũ' ẽna"), "plain"])
    write("ref", [normalize(ref, "sũ' ẽna"), "plain"])
    told = f"nmtkit: hyp is in Unicode's normal form {hyp}, and ref in {ref}: identical letters count as different; "
    assert nmtkit("score", "hyp", "ref", "-l", "en").err == (told + "convert one of the two\n") * warned


def test_lines_in_another_normal_form_than_the_others_of_their_file_get_a_warning(nmtkit: Run) -> None:
    lines = ["sũ' ẽna", "plain", "ẽ"]
    write("hyp", [normalize("NFC", line) for line in lines])
    write("ref", [normalize(form, line) for form, line in zip(("NFC", "NFC", "NFD"), lines, strict=True)])
    told = "nmtkit: ref has 1 line not in Unicode's normal form NFC, unlike the rest: identical letters count as "
    assert nmtkit("score", "hyp", "ref", "-l", "en").err == told + "different; convert the file\n"
    assert nmtkit("score", "hyp", "hyp", "-l", "en").err == ""


def test_blank_lines_count_as_wrong(nmtkit: Run) -> None:
    write("hyp", ["", "", "", ""])
    write("ref", REF)
    [result] = scores(nmtkit("score", "hyp", "ref", "--json"))
    assert result == {metric: 100.0 if metric == "TER" else 0.0 for metric in result}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["hyp", "short"], "hyp has 4 lines but short has 3; align them line by line"),
        (["short", "ref"], "short has 3 lines but ref has 4; align them line by line"),
        (["hyp", "short", "ref"], "short has 3 lines but ref has 4; align them line by line"),
        (["empty", "ref"], "empty is empty: there is nothing to score"),
        (["hyp", "empty"], "empty is empty: there is nothing to score"),
        (["missing", "ref"], "missing: cannot be read: No such file or directory"),
        (["hyp"], "hyp: translations and a reference are needed: nmtkit score HYP... REF"),
        (["hyp", "ref", "--source", "short"], "short has 3 lines but ref has 4; align them line by line"),
        (["hyp", "-r", "ref", "-r", "short"], "short has 3 lines but ref has 4; align them line by line"),
        (["hyp", "ref", "--paired", "bs"], "hyp: --paired and --seeds compare translations; give at least two"),
        (["hyp", "ref", "--seeds"], "hyp: --paired and --seeds compare translations; give at least two"),
        (
            ["hyp", "hyp", "ref", "--seeds", "--paired", "ar"],
            "--paired compares systems, and --seeds is for one; leave one of them out",
        ),
        (
            ["hyp", "ref", "--tokenized", "--subset-metric", "chrF2"],
            "--subset-metric chrF2: not one of multi-bleu, multi-bleu-lc",
        ),
        (
            ["--tokenized"],
            "--reference, --source, --vocab, --paired, --seeds, --language and --tokenized are for translations in "
            "files; give some: nmtkit score HYP... REF",
        ),
        *(
            (
                ["hyp", "ref", *option],
                "--model, --checkpoint, --split, --max-length, --replace-unk, --precision and --device are for a "
                "model; leave files out",
            )
            for option in (
                ["--max-length", "50"],
                ["--replace-unk"],
                ["--precision", "int8"],
                ["--model", "a"],
                ["--device", "cpu"],
            )
        ),
        ([], "data: no such folder; make it with nmtkit prep"),
    ],
)
def test_errors_are_one_line(nmtkit: Run, arguments: list[str], complaint: str) -> None:
    write("hyp", HYP)
    write("ref", REF)
    write("short", REF[:3])
    write("empty", [])
    assert nmtkit("score", *arguments) == (1, "", f"nmtkit: error: {complaint}\n")


def test_several_references(nmtkit: Run) -> None:
    write("hyp", ["a b c d e", "x y z w"])
    write("one", ["a b c d f", "x y"])
    write("two", ["b c d e", "x y z w"])
    outcome = nmtkit("score", "hyp", "-r", "one", "-r", "two", "--tokenized", "--json")
    hyp, one, two = (Path(name).read_text().splitlines() for name in ("hyp", "one", "two"))
    assert scores(outcome) == [{m: score(m, hyp, [one, two]).value for m in WORD_METRICS}]
    assert json.loads(outcome.out)["references"] == ["one", "two"]


def test_bleu_by_length_and_without_unknown_words(nmtkit: Run) -> None:
    sources = ["w " * 5, "w " * 10, "w " * 11, "", "w " * 71]
    refs = ["a b c d", "a b c e", "a b c d", "a b c d", "a b c d f"]
    hyps = ["a b c d", "a b c e", "a b c f", "a b c d", "a b c d e"]
    write("src", sources)
    write("hyp", hyps)
    write("ref", refs)
    write("vocab", ["<pad>\t0", "<s>\t0", "</s>\t0", "<unk>\t0", *(f"{word}\t1" for word in "abcd")])
    outcome = nmtkit("score", "hyp", "ref", "--tokenized", "--source", "src", "--vocab", "vocab", "--json")
    report = json.loads(outcome.out)

    def part(name: str, rows: list[int]) -> dict[str, Any]:
        on = score("multi-bleu", [hyps[row] for row in rows], [[refs[row] for row in rows]])
        return {"name": name, "sentences": len(rows), "scores": [on.value]}

    assert report["by_length"] == [part("≤10", [0, 1, 3]), part("11-20", [2]), part(">70", [4])]
    assert report["longer_than"] == [
        part(">0", [0, 1, 2, 4]),
        part(">10", [2, 4]),
        *(part(f">{limit}", [4]) for limit in range(20, 70, 10)),
    ]
    assert report["unknown_free"] == [part("without unknown words", [0, 2, 3])]
    table = nmtkit("score", "hyp", "ref", "--tokenized", "--source", "src", "--vocab", "vocab").out
    assert "\nmulti-bleu by length of the source in words\nwords  sentences     hyp\n≤10            3  100.0" in table
    assert "\nwithout unknown words          3" in table


def test_the_metric_of_the_parts_can_be_chosen(nmtkit: Run) -> None:
    hyps, first, second = [[line.title() for line in REF], REF, [f"{line} indeed" for line in REF]]
    for name, lines in {"hyp": hyps, "one": first, "two": second, "src": REF}.items():
        write(name, lines)
    command = ["score", "hyp", "-r", "one", "-r", "two", "--source", "src", "-l", "en", "--json"]
    report = json.loads(nmtkit(*command, "--subset-metric", "mteval-lc").out)
    [part] = report["by_length"]
    assert part["scores"] == [score("mteval-lc", hyps, [first, second]).value]
    assert part["scores"][0] > json.loads(nmtkit(*command).out)["by_length"][0]["scores"][0]  # which sees the capitals
    assert (report["subset_metric"], json.loads(nmtkit(*command).out)["subset_metric"]) == ("mteval-lc", "multi-bleu")
    assert "mteval-lc by length" in nmtkit(*command[:-1], "--subset-metric", "mteval-lc").out


def test_a_vocabulary_of_subwords_is_refused(nmtkit: Run) -> None:
    write("hyp", ["a b"])
    write("ref", ["a b"])
    write("vocab", ["<pad>\t0", "<s>\t0", "</s>\t0", "<unk>\t0", "a@@\t1", "b\t1"])
    outcome = nmtkit("score", "hyp", "ref", "--vocab", "vocab")
    assert outcome.err.splitlines()[-1] == "nmtkit: error: vocab: a vocabulary of subwords; --vocab needs one of words"


def test_a_set_in_which_every_reference_has_an_unknown_word(nmtkit: Run) -> None:
    write("hyp", ["a"])
    write("ref", ["b"])
    write("vocab", ["<pad>\t0", "<s>\t0", "</s>\t0", "<unk>\t0"])
    outcome = nmtkit("score", "hyp", "ref", "--tokenized", "--vocab", "vocab")
    assert outcome.out.splitlines()[-1].split() == ["without", "unknown", "words", "0", "-"]


@pytest.mark.parametrize("test", ["bs", "ar"])
def test_differences_to_the_first_are_tested(
    nmtkit: Run, monkeypatch: pytest.MonkeyPatch, test: Literal["bs", "ar"]
) -> None:
    monkeypatch.setitem(significance.DRAWS, test, 500)
    refs = [f"the {a} sat on the {b} of {a} today" for a in "cat dog cow pig".split() for b in "mat box rug".split()]
    write("bad", [ref.replace("the", "a") for ref in refs])
    write("good", refs)
    write("ref", refs)
    outcome = nmtkit("score", "bad", "good", "ref", "-l", "en", "--paired", test, "--json")
    paired = json.loads(outcome.out)["paired"]
    assert list(paired) == [*WORD_METRICS, *TEXT_METRICS]
    signature, [baseline, better] = paired["multi-bleu"].values()
    assert f"|{test}:" in signature
    assert baseline["p"] is None
    assert better["p"] < 0.01
    table = nmtkit("score", "bad", "good", "ref", "-l", "en", "--paired", test).out
    assert f"|{test}:" in table
    assert re.search(r"^multi-bleu +good +100\.00 .* 0\.00", table, re.MULTILINE)
    assert "against bad; p: probability of a difference at least as large by chance\n" in table
    write("other", refs)
    table = nmtkit("score", "bad", "good", "other", "ref", "-l", "en", "--paired", test).out
    assert "at least as large by chance, not corrected for several comparisons\n" in table


def test_mean_and_deviation_over_seeds(nmtkit: Run) -> None:
    write("one", HYP)
    write("two", REF)
    write("ref", REF)
    outcome = nmtkit("score", "one", "two", "ref", "-l", "en", "--seeds", "--json")
    one, two = scores(outcome)
    spread = json.loads(outcome.out)["seeds"]
    assert list(spread) == list(one)
    assert spread["chrF2"]["mean"] == pytest.approx((one["chrF2"] + two["chrF2"]) / 2)
    assert spread["chrF2"]["deviation"] == pytest.approx(abs(one["chrF2"] - two["chrF2"]) / 2**0.5)
    lines = nmtkit("score", "one", "two", "ref", "-l", "en", "--seeds").out.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["one", "two", "mean", "deviation"]


def test_files_of_one_sentence(nmtkit: Run) -> None:
    write("hyp", ["The cat sat on the mat."])
    write("ref", ["The cat sat on the mat."])
    [result] = scores(nmtkit("score", "hyp", "ref", "-l", "en", "--json"))
    assert result == {m: pytest.approx(0.0 if m == "TER" else 100.0) for m in result}


def test_names_and_what_is_left_unknown_are_counted_in_files(nmtkit: Run) -> None:
    write("src", ["Tom met Zoë and Zoë in Rome.", 'He said: "Ann saw I."', "One. Two."])
    write("ref", ["Tom traf Zoë in Rom.", "Er sagte, Ann habe ihn gesehen.", "Eins. Two."])
    write("hyp", ["Tom traf Zoë und <unk> in Rom.", "Er sah <unk>.", "<unkpos_-1>. Two."])
    write("vocab", ["<pad>\t0", "<s>\t0", "</s>\t0", "<unk>\t0", "Ann\t1"])
    command = ["score", "hyp", "-r", "ref", "--language", "de", "--json"]
    [system] = json.loads(nmtkit(*command).out)["systems"]
    assert system["unknown_words"] == {"translated": None, "copied": None, "left": 3}
    assert (system["names"], system["unknown_names"]) == (None, None)
    [system] = json.loads(nmtkit(*command, "--source", "src").out)["systems"]
    assert (system["names"], system["unknown_names"]) == ({"total": 4, "kept": 3}, None)
    [system] = json.loads(nmtkit(*command, "--source", "src", "--vocab", "vocab").out)["systems"]
    assert system["unknown_names"] == {"total": 3, "kept": 3}
    table = nmtkit(*command[:-1], "--source", "src").out.split("\n\n")[-1]
    assert table.splitlines()[2].split() == ["hyp", "-", "-", "3", "3", "of", "4"]


class Translation(NamedTuple):
    text: str
    tokens: list[str]
    written: list[str]
    unknown: Unknown | None
    pieces: int = 1


class ShoutingTranslator:
    """Simulates a model that copies words of up to six letters; longer ones are out of vocabulary."""

    def __init__(self) -> None:
        self.tgt_pipeline = TextPipeline(Side("en", segmentation="words", lowercase=True))
        self.sources = [SimpleNamespace(pipeline=self.tgt_pipeline)]
        self.given = None  # no ensemble
        self.tgt_vocab = SimpleNamespace(known={"the", "cat", "sat", "on", "a", "mat", ".", "blank"}, annotated=False)

    def score_candidates(self, lines: list[str], candidates: list[list[str]]) -> list[list[np.ndarray]]:
        """Every token has the probability 1/2."""
        found = [[self.tgt_pipeline.tokens(candidate) for candidate in group] for group in candidates]
        return [[np.full(len(tokens) + 1, -math.log(2)) for tokens in group] for group in found]

    def answer(self, lines: list[str], request: Request) -> list[list[Translation]]:
        """Every unknown word is one that the lexicon translates as itself, if requested."""
        pipeline, answers = self.tgt_pipeline, []
        for words in map(pipeline.tokens, lines):
            tokens = ["<unk>" if len(word) > 6 else word for word in words]
            written, unknown = (words, Unknown(tokens.count("<unk>"), 0, 0)) if request.replace_unk else (tokens, None)
            answers.append([Translation(pipeline.text(written), tokens, written, unknown)])
        return answers


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A working folder with a test set and a model; returns the paths from which the model was loaded."""
    asked = SimpleNamespace()

    def load(folder: Path, device: str, precision: str) -> ShoutingTranslator:
        asked.folder, asked.device, asked.precision = folder, device, precision
        return ShoutingTranslator()

    monkeypatch.setattr("nmtkit.translation.loading.load", load)
    write("data/test.raw.src", REF)
    write("data/test.raw.tgt", REF)
    Path("run").mkdir()
    return asked


def test_without_files_the_test_set_is_translated_and_scored(nmtkit: Run, model: SimpleNamespace) -> None:
    outcome = nmtkit("score", "--json")
    assert outcome.err.rstrip() == "translating the 4 lines of data/test.raw.src with run into run/test.hyp"
    assert (model.folder, model.device, model.precision) == (Path("run"), "auto", "auto")
    assert json.loads(outcome.out)["systems"][0]["hypothesis"] == "run/test.hyp"

    hyps = Path("run/test.hyp").read_text().splitlines()
    assert hyps == [line.lower() for line in REF]
    [result] = scores(outcome)
    assert result["sacreBLEU-13a"] == score("sacreBLEU-13a", hyps, [REF]).value < 99
    assert result["multi-bleu"] == result["multi-bleu-lc"] == pytest.approx(100)  # the model's words have no capitals
    assert "Moses words (en, normalised, lower-cased)" in outcome.out


def test_references_have_the_normal_form_of_the_model_s_text(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    translator, lines = ShoutingTranslator(), ["el caf\u00e9 est\u00e1 aqu\u00ed"] * 4
    side = Side("es", normalize=False, tokenizer="reversible", segmentation="words", form="NFD")
    translator.tgt_pipeline = TextPipeline(side)
    translator.sources = [SimpleNamespace(pipeline=translator.tgt_pipeline)]
    monkeypatch.setattr("nmtkit.translation.loading.load", lambda folder, device, precision: translator)
    monkeypatch.setattr(
        translator,
        "answer",
        lambda lines, request: [
            [Translation(side_text, tokens, tokens, None)]
            for tokens in map(translator.tgt_pipeline.tokens, lines)
            if (side_text := translator.tgt_pipeline.text(tokens))
        ],
    )
    write("data/test.raw.src", lines)
    write("data/test.raw.tgt", lines)  # composed, unlike the model's text
    Path("run").mkdir()
    [result] = scores(nmtkit("score", "--json"))
    assert [result[name] for name in ("multi-bleu", "sacreBLEU-13a", "chrF2")] == pytest.approx([100, 100, 100])


def test_tokenised_bleu_of_a_model_is_counted_on_its_own_words(nmtkit: Run, model: SimpleNamespace) -> None:
    source = ["A mother-in-law is grandmotherly here."]
    write("data/test.raw.src", source)
    write("data/test.raw.tgt", source)
    [result] = scores(nmtkit("score", "--json"))
    words = ["a <unk> is <unk> here ."], ["a mother-in-law is grandmotherly here ."]
    assert result["multi-bleu"] == score("multi-bleu", words[0], [words[1]]).value


def test_unknown_words_are_counted_and_can_be_replaced(nmtkit: Run, model: SimpleNamespace) -> None:
    write("data/test.raw.src", ["A mother-in-law is grandmotherly here."])
    write("data/test.raw.tgt", ["A mother-in-law is grandmotherly here."])
    plain, replaced = (nmtkit("score", "--json", *option) for option in ([], ["--replace-unk"]))
    counts = [json.loads(outcome.out)["systems"][0]["unknown_words"] for outcome in (plain, replaced)]
    assert counts == [{"translated": 0, "copied": 0, "left": 2}, {"translated": 2, "copied": 0, "left": 0}]
    assert scores(plain)[0]["multi-bleu"] < scores(replaced)[0]["multi-bleu"] == pytest.approx(100)


def test_a_model_is_also_measured_by_length_unknown_words_and_cross_entropy(
    nmtkit: Run, model: SimpleNamespace
) -> None:
    report = json.loads(nmtkit("score", "--json").out)
    assert [(part["name"], part["sentences"]) for part in report["by_length"]] == [("≤10", 4)]
    assert [(part["name"], part["sentences"]) for part in report["unknown_free"]] == [("without unknown words", 2)]
    [system] = report["systems"]
    assert system["cross_entropy"]["sentences"] == 4
    assert system["cross_entropy"]["bits per token"] == pytest.approx(1)
    known = {"the", "cat", "sat", "on", "a", "mat", ".", "blank"}
    tokens = [
        token for line in REF for token in TextPipeline(Side("en", segmentation="words", lowercase=True)).tokens(line)
    ]
    assert system["cross_entropy"]["unknown"] == sum(token not in known for token in tokens) > 5
    table = nmtkit("score").out
    assert "\nbits per token        1.0000\n" in table
    assert f" tokens, {system['cross_entropy']['unknown']} of them unknown\n" in table


def test_no_name_is_unknown_to_a_model_of_subwords(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    write_folder(Path("run"))
    write("data/test.raw.src", ["a Cab b", "a lower"])
    write("data/test.raw.tgt", ["a Cab b", "a lower"])
    [system] = json.loads(nmtkit("score", "--json").out)["systems"]
    assert system["names"]["total"] == 1
    assert system["unknown_names"] is None


def test_the_development_set_can_be_scored_instead(nmtkit: Run, model: SimpleNamespace) -> None:
    write("data/dev.raw.src", REF[:2])
    write("data/dev.raw.tgt", REF[:2])
    report = json.loads(nmtkit("score", "--split", "dev", "--json").out)
    assert (report["references"], report["sentences"]) == (["data/dev.raw.tgt"], 2)
    assert Path("run/dev.hyp").exists()
    assert not Path("run/test.hyp").exists()
    Path("data/dev.raw.tgt").unlink()
    complaint = "data/dev.raw.tgt: not found; prepare a dev set"
    assert nmtkit("score", "--split", "dev") == (1, "", f"nmtkit: error: {complaint}\n")
    Path("data/test.raw.tgt").unlink()
    complaint = (
        "data/test.raw.tgt: not found; prepare a test set, score the dev set: nmtkit score --split dev, or give files: "
        "nmtkit score HYP... REF"
    )
    assert nmtkit("score") == (1, "", f"nmtkit: error: {complaint}\n")


def test_long_and_blank_pairs_can_be_left_out_of_the_cross_entropy(nmtkit: Run, model: SimpleNamespace) -> None:
    pairs = [("a b c", "x y"), ("a b c d", "x"), ("a", "v w x y"), ("", "x"), ("a", "")]
    write("data/test.raw.src", [source for source, _ in pairs])
    write("data/test.raw.tgt", [ref for _, ref in pairs])
    for options, sentences, tokens in ([], 3, 3 + 2 + 5), (["--max-length", "3"], 1, 3):
        [system] = json.loads(nmtkit("score", "--json", *options).out)["systems"]
        assert (system["cross_entropy"]["sentences"], system["cross_entropy"]["tokens"]) == (sentences, tokens)
        assert system["cross_entropy"]["nats per sentence"] == pytest.approx(tokens * math.log(2) / sentences)
    table = nmtkit("score", "--max-length", "3").out
    assert "cross-entropy of the reference, EOS included: 1 sentence of at most 3 tokens per side, 3 tokens" in table


def test_scores_are_printed_even_if_the_model_folder_is_read_only(nmtkit: Run, model: SimpleNamespace) -> None:
    kept = scores(nmtkit("score", "--json"))
    outcome = nmtkit("score", "--json", "-m", "not-there")
    assert (outcome.status, scores(outcome)) == (0, kept)
    assert outcome.err.splitlines()[-1].endswith("No such file or directory; the translations are not kept")


def test_folders_and_device_can_be_named(nmtkit: Run, model: SimpleNamespace) -> None:
    Path("data").rename("elsewhere")
    Path("run").rename("mine")
    assert nmtkit("score", "--data", "elsewhere", "-m", "mine", "--device", "cpu", "--precision", "int8").status == 0
    assert (model.folder, model.device, model.precision) == (Path("mine"), "cpu", "int8")
    assert Path("mine/test.hyp").exists()


def test_a_test_set_of_unequal_sides_is_not_scored(nmtkit: Run, model: SimpleNamespace) -> None:
    write("data/test.raw.src", REF[:3])
    outcome = nmtkit("score")
    assert outcome == (
        1,
        "",
        "nmtkit: error: data/test.raw.src has 3 lines but data/test.raw.tgt has 4; align them line by line\n",
    )
    assert not Path("run/test.hyp").exists()
