from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtkit.symbols import SPELLINGS
from tests.conftest import piped
from tests.echo import load_echo, write_folder

Run = Callable[..., Any]  # the command line of tests/conftest.py


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def filtered(folder: Path, nmtkit: Run) -> Run:
    """``filtered("a <unk>", "b c", "1-1")``: the output of posunk for translations, sources and alignment, if any."""

    def run(translations: str, source: str, alignment: str | None = None, *arguments: object) -> Any:
        for name, text in (("translations", translations), ("source", source), ("links", alignment)):
            if text is not None:
                (folder / name).write_text(text + "\n", encoding="utf-8")
        aligned = [] if alignment is None else ["--alignment", "links"]
        return nmtkit("posunk", "-i", "translations", "--source", "source", *aligned, *arguments)

    return run


def test_positions_and_links_lead_to_the_lexicons_translation_or_to_a_copy(filtered: Run, folder: Path) -> None:
    (folder / "lexicon").write_text("house\tmaison\t0.9\t200\n")
    source = "the house of Pontypridd"
    for translation, links in (
        ("la <unkpos_0> de <unkpos_0>", None),
        ("la <unk> de <unk>", "0-0 1-1 3-3"),
        ("la <unkpos_0> de <unk>", "0-1 3-3"),
    ):
        assert filtered(translation, source, links, "--lexicon", "lexicon") == (0, "la maison de Pontypridd\n", "")
    assert filtered("la <unkpos_0> de <unkpos_0>", source).out == "la house de Pontypridd\n"


def test_a_source_may_be_longer_than_its_translation(filtered: Run) -> None:
    assert filtered("<unk>", "the house of Pontypridd", "3-0").out == "Pontypridd\n"


@pytest.mark.parametrize(("words", "said"), [("la\t9\nLa\t9\n", "Maison\n"), ("la\t9\n", "maison\n")])
def test_a_translation_begins_with_a_capital_if_the_vocabulary_says_so(
    filtered: Run, folder: Path, words: str, said: str
) -> None:
    (folder / "lexicon").write_text("house\tmaison\t0.9\t200\n")
    symbols = "".join(f"{symbol}\t0\n" for symbol in SPELLINGS)
    (folder / "vocab.tgt").write_text(symbols + words)
    assert filtered("<unkpos_0>", "house", None, "--lexicon", "lexicon", "--vocab", "vocab.tgt").out == said


def test_with_the_vocabulary_unknown_words_do_not_come_from_words_with_known_translations(
    filtered: Run, folder: Path
) -> None:
    (folder / "lexicon").write_text("house\tmaison\t0.9\t200\nof\tde\t0.9\t200\n")
    symbols = "".join(f"{symbol}\t0\n" for symbol in SPELLINGS)
    (folder / "vocab.tgt").write_text(f"{symbols}la\t9\nmaison\t9\nde\t9\n")
    source = "the house of Pontypridd"
    for translation, links in (("la maison de <unkpos_1>", None), ("la maison de <unk>", "2-3")):
        assert filtered(translation, source, links, "--lexicon", "lexicon").out == "la maison de de\n"
        matched = filtered(translation, source, links, "--lexicon", "lexicon", "--vocab", "vocab.tgt")
        assert matched == (0, "la maison de Pontypridd\n", "")


def test_words_without_a_source_position_stay_unknown(filtered: Run) -> None:
    assert filtered("<unkpos_null> <unkpos_-7> <unkpos_3> a", "one").out == "<unk> <unk> <unk> a\n"
    assert filtered("<unk> a", "one", "").out == "<unk> a\n"


def test_the_output_file_appears_only_when_complete(filtered: Run, folder: Path) -> None:
    assert filtered("<unkpos_0>", "one", None, "-o", "out") == (0, "", "")
    assert (folder / "out").read_text() == "one\n"
    assert filtered("<unkpos_0>\n<unk>", "one\ntwo", None, "-o", "other").status == 1
    assert not (folder / "other").exists()


@pytest.mark.parametrize(
    ("translations", "source", "links", "message"),
    [
        ("a\n<unk>", "a\nb", None, "translations:2: the source word of <unk> is unknown; give an --alignment"),
        ("a\nb", "a", None, "source: has only 1 line, fewer than translations; align them line by line"),
        ("a", "a\nb", None, "source: has more lines than the 1 of translations; align them line by line"),
        ("a\nb", "a\nb", "0-0", "links: has only 1 line, fewer than translations; align them line by line"),
        ("<unk>", "a", "0_0", "links:1: expected links such as 0-0 1-2, counted from 0"),
        ("<unk>", "a", "1-0", "links:1: the link 1-0 is outside its pair of 1 and 1 words"),
    ],
)
def test_files_that_do_not_correspond_are_an_error(
    filtered: Run, translations: str, source: str, links: str | None, message: str
) -> None:
    status, _, err = filtered(translations, source, links)
    assert status == 1
    assert message in err


awkward = st.sampled_from(["\r", "\u2028", "\x85", "\x00", "\x0c", " ", "\t", "a", "<unkpos_0>", "<unkpos_null>"])


@given(lines=st.lists(st.lists(awkward | st.characters(codec="utf-8", exclude_characters="\n")).map("".join)))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_is_lost_split_or_moved(filtered: Run, lines: list[str]) -> None:
    numbered = [f"{i} {line}".rstrip("\r\ufeff") for i, line in enumerate(lines)]
    status, out, _ = filtered("\n".join(numbered), "\n".join(numbered))
    found = out.split("\n")[:-1]
    assert status == 0
    assert [line.split(" ")[0] for line in found] == ([str(i) for i in range(len(lines))] or [""])
    for line, before in zip(found, numbered, strict=False):
        assert line == before or "<unkpos_" in before


def test_translating_in_one_go_equals_translating_then_replacing(
    filtered: Run, nmtkit: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmtkit.translation.loading.load_model", load_echo)
    write_folder(folder / "run")
    (folder / "in").write_text("a Pontypridd b\n\nZürich\nlow@@ er x\n")
    (folder / "run" / "lexicon.tsv").write_text("x\te\t1\t101\n")
    at_once = nmtkit("translate", "-m", folder / "run", "--tokenized", "--replace-unk", "-i", "in")
    said = "nmtkit: unknown words (matched): 1 translated, 2 copied, 0 left\n"
    assert at_once == (0, "a Pontypridd b\n\nZürich\nlow@@ er e\n", said)
    aligned = nmtkit("translate", "--tokenized", "--alignment", "-i", "in").out
    columns = [line.split("\t") for line in aligned.split("\n")]
    assert columns[0] == ["a <unk> b", "0-0 1-1 2-2"]
    texts, links = ("\n".join(column) for column in zip(*columns[:-1], strict=True))
    assert filtered(texts, (folder / "in").read_text()[:-1], links, "--lexicon", "run/lexicon.tsv").out == at_once.out


def test_closed_standard_input_is_an_error(folder: Path, nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "source").write_text("a\n")
    monkeypatch.setattr("sys.stdin", None)
    assert nmtkit("posunk", "--source", "source") == (1, "", "nmtkit: error: standard input is closed; name a file\n")


@pytest.mark.parametrize("twice", [["--source", "-"], ["-i", "x", "--source", "-", "--alignment", "-"]])
def test_standard_input_can_be_given_only_once(nmtkit: Run, twice: list[str]) -> None:
    complaint = "nmtkit: error: -: standard input can be read only once; name a file instead of the other -\n"
    assert nmtkit("posunk", *twice) == (1, "", complaint)


@pytest.mark.parametrize("name", ["translations", "source", "links"])
def test_input_files_are_never_overwritten(filtered: Run, folder: Path, name: str) -> None:
    status, out, err = filtered("<unk>", "house", "0-0", "-o", name)
    assert (status, out) == (1, "")
    assert f"--output {name}: is also an input and would be overwritten; choose another file" in err
    assert (folder / "source").read_text() == "house\n"


def test_a_byte_order_mark_before_the_first_translation_changes_nothing(filtered: Run) -> None:
    assert filtered("\ufeff<unkpos_0> a\n\ufeffa", "x y\nz").out == "x a\n\ufeffa\n"


def test_the_vocabulary_may_come_from_a_pipe(filtered: Run, folder: Path) -> None:
    (folder / "vocab.tgt").write_text("".join(f"{symbol}\t0\n" for symbol in SPELLINGS) + "y\t9\n")
    with piped(folder / "vocab.tgt") as vocab:
        assert filtered("<unkpos_0> y", "y x", None, "--vocab", vocab) == (0, "x y\n", "")
