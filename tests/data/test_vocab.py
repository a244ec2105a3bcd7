from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.symbols import BOS, EOS, PAD, SPELLINGS, UNK, UNKPOS
from tests.conftest import piped

SYMBOLS = "<pad>\t0\n<s>\t0\n</s>\t0\n<unk>\t0\n"
COUNTS = Counter({"the": 9, "cat": 5, "a": 5, "mat": 2, "once": 1, "<s>": 7})

words = st.text(min_size=1).filter(lambda word: word.split() == [word] and word not in (*SPELLINGS, *UNKPOS))


def test_words_are_ordered_by_count_then_by_the_alphabet_after_the_symbols() -> None:
    vocabulary = Vocabulary.choose(COUNTS.items(), None, 1)
    assert vocabulary.words == [*SPELLINGS, "the", "a", "cat", "mat", "once"]
    assert vocabulary.counts == [0, 0, 0, 0, 9, 5, 5, 2, 1]


@pytest.mark.parametrize(("size", "rows"), [(None, 9), (100, 9), (9, 9), (8, 8), (5, 5), (4, 4)])
def test_the_size_counts_every_row(size: int | None, rows: int) -> None:
    assert len(Vocabulary.choose(COUNTS.items(), size, 1)) == rows


def test_rare_words_can_be_left_out() -> None:
    assert Vocabulary.choose(COUNTS.items(), None, 5).words[4:] == ["the", "a", "cat"]


def test_unknown_words_have_the_id_of_unk_and_so_have_words_spelled_like_symbols() -> None:
    vocabulary = Vocabulary.choose(COUNTS.items(), None, 1)
    assert vocabulary.ids(["the", "dog", "once", *SPELLINGS]) == [4, UNK, 8, UNK, UNK, UNK, UNK]
    assert vocabulary.tokens([PAD, BOS, EOS, UNK, 4, 8]) == [*SPELLINGS, "the", "once"]


@given(st.dictionaries(words, st.integers(1, 10**12)))
def test_a_saved_vocabulary_loads_unchanged(tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int]) -> None:
    path = tmp_path_factory.mktemp("vocab") / "vocab.src"
    saved = Vocabulary.choose(counts.items(), None, 1)
    saved.save(path)
    loaded = Vocabulary.load(path)
    assert (loaded.words, loaded.counts, loaded.fingerprint) == (saved.words, saved.counts, saved.fingerprint)
    assert loaded.tokens(loaded.ids(counts)) == list(counts)


def test_an_annotated_vocabulary_has_sixteen_more_symbols_that_text_cannot_say(tmp_path: Path) -> None:
    counts = COUNTS + Counter({"<unkpos_1>": 8})
    Vocabulary.choose(counts.items(), 22, 1, annotated=True).save(tmp_path / "vocab.tgt")
    annotated, plain = Vocabulary.load(tmp_path / "vocab.tgt"), Vocabulary.choose(counts.items(), None, 1)
    assert annotated.words == [*SPELLINGS, *UNKPOS, "the", "a"]
    assert (annotated.annotated, annotated.symbols) == (True, 20)
    assert (plain.annotated, plain.symbols) == (False, 4)
    assert annotated.ids(["<unkpos_1>", "the"]) == [UNK, 20]
    assert plain.ids(["<unkpos_1>", "the"]) == [UNK, 4]


def test_symbols_of_annotation_in_other_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.tgt").write_text(SYMBOLS + "the\t9\n<unkpos_-7>\t0\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"vocab\.tgt: the symbols <unkpos_-7> to <unkpos_null> must be on lines 5"):
        Vocabulary.load(tmp_path / "vocab.tgt")


def test_a_row_is_a_word_a_tab_and_a_count_and_the_line_number_gives_the_id(tmp_path: Path) -> None:
    Vocabulary.choose(COUNTS.items(), 6, 1).save(tmp_path / "vocab.src")
    assert (tmp_path / "vocab.src").read_text(encoding="utf-8") == SYMBOLS + "the\t9\na\t5\n"


def test_the_fingerprint_does_not_depend_on_counts() -> None:
    one, two, other = ({"a": 3, "b": 2}, {"a": 30, "b": 20}, {"a": 2, "b": 3})
    prints = [Vocabulary.choose(counts.items(), None, 1).fingerprint for counts in (one, two, other)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        (SYMBOLS + "the\t9\nthe\t8\n", 6, "the word 'the' is already on line 5"),
        (SYMBOLS + "the\t9\n<s>\t8\n", 6, "the word '<s>' is already on line 2"),
        (SYMBOLS + "the\n", 5, "expected a word, a tab and a count, found 'the'"),
        (SYMBOLS + "the 9\n", 5, "expected a word, a tab and a count, found 'the 9'"),
        (SYMBOLS + "the\tmany\n", 5, "expected a word, a tab and a count"),
        (SYMBOLS + "the\t-1\n", 5, "expected a word, a tab and a count"),
        (SYMBOLS + "the\t²\n", 5, "expected a word, a tab and a count"),
        (SYMBOLS + "the\t9\t9\n", 5, "expected a word, a tab and a count"),
        (SYMBOLS + "\t9\n", 5, "expected a word, a tab and a count"),
        (SYMBOLS + "two words\t9\n", 5, "expected a word, a tab and a count"),
        (SYMBOLS + "two\u2028lines\t9\n", 5, "expected a word, a tab and a count"),
        (SYMBOLS + "\nthe\t9\n", 5, "expected a word, a tab and a count, found ''"),
        ("the\t9\n" + SYMBOLS, 1, "expected the symbol <pad>, found 'the'"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_reported_with_its_line(
    tmp_path: Path, rows: str, line: int, message: str
) -> None:
    (tmp_path / "vocab.src").write_text(rows, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        Vocabulary.load(tmp_path / "vocab.src")
    assert f"vocab.src:{line}: {message}" in str(caught.value)


def test_a_vocabulary_that_ends_among_the_symbols_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.src").write_text(SYMBOLS[:13], encoding="utf-8")
    with pytest.raises(UserError, match=r"vocab\.src: ends before the last of the symbols <pad> <s> </s> <unk>"):
        Vocabulary.load(tmp_path / "vocab.src")


def test_a_missing_vocabulary_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vocab\.tgt: not found; make it with nmtkit vocab"):
        Vocabulary.load(tmp_path / "vocab.tgt")


@pytest.mark.parametrize(
    ("text", "capitals"),
    [
        ("The cat sat on the mat . A cat sat on a mat .", True),
        ("the cat sat on the mat . a cat sat on a mat .", False),
        ("the cat sat on the mat . " * 30 + "The Times", False),  # truecased
        ("猫 在 席 上 。", False),
        ("", False),
    ],
)
def test_sentences_begin_with_a_capital_if_common_words_often_have_one(text: str, capitals: bool) -> None:
    assert Vocabulary.choose(Counter(text.split()).items(), None, 1).capitals == capitals


def test_a_vocabulary_may_come_from_a_pipe(tmp_path: Path) -> None:
    Vocabulary.choose([("a", 2), ("b", 1)], None, 1).save(tmp_path / "vocab")
    with piped(tmp_path / "vocab") as path:
        assert Vocabulary.load(Path(path)).words == [*SPELLINGS, "a", "b"]
