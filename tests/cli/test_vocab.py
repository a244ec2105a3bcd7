import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.data.corpus import Corpus
from nmtkit.data.vocab import Vocabulary
from nmtkit.text.prep import prepare
from nmtkit.text.raw import Files
from nmtkit.text.settings import Prep, Side

Run = Callable[..., Any]  # the command line of tests/conftest.py


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of a working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.en").write_text("the cat and the dog and a bird\n")
    (tmp_path / "train.fr").write_text("le chat et le chien et un chat et un merle\n")
    words = Prep(Side("en", segmentation="words"), Side("fr", segmentation="words"))
    prepare({"train": Files(Path("train.en"), Path("train.fr"))}, Path("data"), words, workers=1)
    return tmp_path / "data"


def rows(data: Path) -> tuple[int, int]:
    return len(Vocabulary.load(data / "vocab.src")), len(Vocabulary.load(data / "vocab.tgt"))


def test_without_options_every_word_of_data_gets_an_id(nmtkit: Run, data: Path) -> None:
    outcome = nmtkit("vocab", "-j1")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err.splitlines() == [
        "data/vocab.src: 10 rows, 4 symbols and 6 of 6 word types",
        "data/vocab.tgt: 10 rows, 4 symbols and 6 of 6 word types",
        "  train 8 + 11 tokens, of which 100.00% + 100.00% covered, 0 + 0 unknown",
        "next: nmtkit train",
    ]
    assert len(Corpus.open(data, "train")) == 1


def test_sizes_are_rows_and_each_side_has_its_own(nmtkit: Run, data: Path) -> None:
    assert nmtkit("vocab", "--src-size", "6", "--tgt-size", "7", "-j1").status == 0
    assert rows(data) == (6, 7)
    assert nmtkit("vocab", "--min-count", "2", "-j1").status == 0
    assert rows(data) == (6, 8)


@pytest.mark.parametrize("sizes", ["--src-size 9", "--tgt-size 9", "--src-size 9 --tgt-size 9"])
def test_a_joint_vocabulary_has_one_size(nmtkit: Run, data: Path, sizes: str) -> None:
    assert nmtkit("vocab", "--joint", *sizes.split(), "-j1").status == 0
    assert rows(data) == (9, 9)
    assert (data / "vocab.src").read_bytes() == (data / "vocab.tgt").read_bytes()


def test_two_sizes_for_one_list_are_refused(nmtkit: Run) -> None:
    status, _, err = nmtkit("vocab", "--joint", "--src-size", "9", "--tgt-size", "8")
    assert (status, err) == (
        1,
        "nmtkit: error: --joint makes one vocabulary of one size, not of --src-size 9 and --tgt-size 8\n",
    )


@pytest.mark.parametrize("option", ["--src-size", "--tgt-size"])
def test_a_size_without_room_for_a_word_is_refused(nmtkit: Run, data: Path, option: str) -> None:
    assert nmtkit("vocab", option, "5", "-j1").status == 0
    assert min(rows(data)) == 5
    status, _, err = nmtkit("vocab", option, "4")
    assert (status, err) == (1, f"nmtkit: error: {option} 4: 4 rows are symbols; use a larger one\n")


def test_a_folder_without_text_is_named_with_the_remedy(nmtkit: Run) -> None:
    status, _, err = nmtkit("vocab", "--data", "none")
    assert (status, err) == (1, "nmtkit: error: none/manifest.json: not found; make the folder with nmtkit prep\n")


def test_unknown_target_words_are_annotated_if_asked(nmtkit: Run, data: Path) -> None:
    assert "train.align: not found" in nmtkit("vocab", "--unkpos", "-j1").err
    (data / "train.align").write_text("7-10\n")
    assert nmtkit("vocab", "--unkpos", "--tgt-size", "24", "-j1").status == 0
    vocabulary = Vocabulary.load(data / "vocab.tgt")
    assert vocabulary.tokens(Corpus.open(data, "train").tgt(0))[-1] == "<unkpos_3>"
    assert not Vocabulary.load(data / "vocab.src").annotated


def test_a_development_set_without_links_is_reported(nmtkit: Run, data: Path) -> None:
    files = Files(Path("train.en"), Path("train.fr"))
    words = Prep(Side("en", segmentation="words"), Side("fr", segmentation="words"))
    prepare({"train": files, "dev": files}, Path("data"), words, workers=1)
    (data / "train.align").write_text("7-10\n")
    assert nmtkit("vocab", "--unkpos", "--tgt-size", "24", "-j1").err.splitlines()[0] == (
        "data/dev.align: not found, so the unknown words of the development set are all <unkpos_null>, and its "
        "cross-entropy is too high; put its links there, as in data/train.align"
    )
    (data / "dev.align").write_text("7-10\n")
    assert "not found" not in nmtkit("vocab", "--unkpos", "--tgt-size", "24", "-j1").err


def test_a_joint_list_has_the_symbols_of_annotation_too(nmtkit: Run, data: Path) -> None:
    (data / "train.align").write_text("\n")
    assert nmtkit("vocab", "--unkpos", "--joint", "-j1").status == 0
    assert (data / "vocab.src").read_bytes() == (data / "vocab.tgt").read_bytes()
    assert Vocabulary.load(data / "vocab.src").annotated


def test_the_words_can_be_those_of_another_toolkit(nmtkit: Run, data: Path) -> None:
    (data.parent / "dict.txt").write_text("bird 9\nunicorn 5\nthe 3\n<s> 1\n")
    outcome = nmtkit("vocab", "--src-from", "dict.txt", "-j1")
    said = "data/vocab.src: 7 rows, 4 symbols and 2 of 6 word types, 1 not in the training text\n"
    assert (outcome.status, outcome.err.startswith(said)) == (0, True)
    vocabulary = Vocabulary.load(data / "vocab.src")
    assert vocabulary.words[4:] == ["bird", "unicorn", "the"]
    assert vocabulary.counts[4:] == [1, 0, 2]  # in this text
    assert [vocabulary.words[id] for id in Corpus.open(data, "train").src(0)][:2] == ["the", "<unk>"]
    assert rows(data)[1] == 10
    assert nmtkit("vocab", "--tgt-from", "dict.txt", "--tgt-size", "6", "-j1").status == 0
    assert Vocabulary.load(data / "vocab.tgt").words[4:] == ["bird", "unicorn"]


@pytest.mark.parametrize("other", ["--joint", "--min-count 2"])
def test_words_are_chosen_in_one_way_only(nmtkit: Run, data: Path, other: str) -> None:
    (data.parent / "dict.txt").write_text("bird 9\n")
    status, _, err = nmtkit("vocab", "--src-from", "dict.txt", *other.split(), "-j1")
    assert (status, err.count("\n")) == (1, 1)
    assert "the words come from dict.txt; use only one of the two" in err


def test_standard_input_has_the_words_of_one_side(nmtkit: Run) -> None:
    expected = "nmtkit: error: -: standard input can be read only once; name a file instead of the other -\n"
    assert nmtkit("vocab", "--src-from", "-", "--tgt-from", "-") == (1, "", expected)


def test_the_report_for_scripts_has_the_same_figures(nmtkit: Run, data: Path) -> None:
    outcome = nmtkit("vocab", "-j1", "--tgt-size", "8", "--json")
    report = json.loads(outcome.out)
    assert report["folder"] == "data"
    assert report["vocabularies"]["tgt"] == {"rows": 8, "symbols": 4, "different_words": 6}
    assert report["coverage"]["train.src"] == {"tokens": 8, "unknown": 0}
    assert report["coverage"]["train.tgt"]["unknown"] > 0
    assert "next" not in outcome.err
