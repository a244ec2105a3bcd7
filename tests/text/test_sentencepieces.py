"""SentencePiece: pieces join to the original words for any text; without the package, the error is one line."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.text.sentencepieces import (
    MARK,
    SentencePieces,
    learn_sentencepieces,
)

COUNTS = Counter(
    {"hello": 30, "held": 20, "help": 7, "world": 9, "word": 20, "sword": 3, "über": 3, "漢字": 2, ".": 40}
)
WORD = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1).filter(lambda word: word.split() == [word])


@pytest.fixture(scope="module")
def model() -> bytes:
    return learn_sentencepieces(COUNTS, 40, ["en"])


def test_a_mark_in_the_text_is_an_underscore(model: bytes) -> None:
    pieces = SentencePieces(model)
    for word in (f"he{MARK}ld", MARK, f"{MARK}held"):
        assert SentencePieces.join(pieces.apply(["hello", word])) == ["hello", word.replace(MARK, "_")]


@pytest.mark.parametrize(("language", "kept"), [("en", True), ("zh", False)])
def test_only_scripts_of_thousands_of_letters_lose_the_rarest(language: str, kept: bool) -> None:
    pieces = SentencePieces(learn_sentencepieces(COUNTS + Counter({"held": 9000, "ž": 1}), 40, [language])).pieces
    assert any("ž" in piece for piece in pieces) is kept


def test_the_same_words_give_the_same_model(model: bytes) -> None:
    reversed_counts = Counter(dict(reversed(COUNTS.items())))
    assert learn_sentencepieces(reversed_counts, 40, ["en"]) == model


@given(words=st.lists(WORD))
def test_words_are_joined_exactly(words: list[str], model: bytes) -> None:
    pieces = SentencePieces(model).apply(words)
    assert all(piece.split() == [piece] for piece in pieces)
    assert SentencePieces.join(pieces) == [word.replace(MARK, "_") for word in words]
    numbers = SentencePieces.numbers(pieces)
    assert sorted(set(numbers)) == [*range(len(words))]
    assert numbers == sorted(numbers)


@given(pieces=st.lists(st.sampled_from([MARK, f"{MARK}a", "b", "c", f"{MARK}{MARK}"])))
def test_any_output_of_a_model_joins_to_words_with_indices(pieces: list[str]) -> None:
    words, numbers = SentencePieces.join(pieces), SentencePieces.numbers(pieces)
    assert all(words)
    assert "".join(words) == "".join(pieces).replace(MARK, "")
    for number, word in enumerate(words):
        mine = (piece for piece, own in zip(pieces, numbers, strict=True) if own == number)
        assert "".join(mine).replace(MARK, "") == word
    assert all(number <= len(words) for number in numbers)


def test_some_strings_are_always_whole_pieces() -> None:
    split = SentencePieces(learn_sentencepieces(COUNTS, 40, ["en"], ["ǁ1ǁ"]))
    pieces = split.apply(["hello", "(ǁ1ǁ).", "ǁ1ǁ"])
    assert pieces.count("ǁ1ǁ") == 2
    assert split.join(pieces) == ["hello", "(ǁ1ǁ).", "ǁ1ǁ"]


def test_unknown_characters_are_kept(model: bytes) -> None:
    split = SentencePieces(model)
    assert split.apply(["☃☃"]) == [MARK, "☃☃"]
    assert 10 < len(split.pieces) <= 40


@pytest.mark.parametrize(
    ("counts", "size", "complaint"),
    [
        (
            COUNTS,
            5,
            r"^`sentencepiece` 5: learning failed \(Vocabulary size is smaller .* 5 vs \d+\); try another",
        ),
        (Counter[str](), 40, r"^`sentencepiece` 40: learning failed \(the text has no words\); try another number$"),
    ],
)
def test_a_failure_to_learn_gives_the_reason(counts: Counter[str], size: int, complaint: str, model: bytes) -> None:
    with pytest.raises(UserError, match=complaint):
        learn_sentencepieces(counts, size, ["en"])


def test_a_damaged_model_is_reported(model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sentencepiece.src"
    with pytest.raises(UserError, match=r"sentencepiece\.src: cannot be read: No such file or directory; make it with"):
        SentencePieces.load(path)
    path.write_bytes(b"junk")
    with pytest.raises(UserError, match=r"sentencepiece\.src: not a SentencePiece model; make it with nmtkit prep"):
        SentencePieces.load(path)


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=r"^SentencePiece is not installed; pip install 'nmtkit\[sentencepiece\]'$"):
        learn_sentencepieces(COUNTS, 40, ["en"])
