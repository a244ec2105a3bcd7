"""Unknown words among subwords, in edge cases: marks without letters."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmtkit.align.lexicon import Lexicon
from nmtkit.align.posunk import Replacement
from nmtkit.data.vocab import Vocabulary
from nmtkit.symbols import SPELLINGS
from nmtkit.text.sentencepieces import MARK, SentencePieces
from nmtkit.text.settings import Side
from nmtkit.translation.unknown_words import UnknownWords


def unknown_words(*entries: str) -> UnknownWords:
    """Unknown words with SentencePiece on both sides, and a lexicon that translates these words as themselves."""
    side: Any = SimpleNamespace(
        side=Side("en", segmentation="sentencepiece"), segmenter=True, words=SentencePieces.join,
        word_numbers=SentencePieces.numbers,
    )  # fmt: skip
    lexicon = Lexicon("words", lambda: {word: {word: 1.0} for word in entries})
    return UnknownWords(side, side, Vocabulary(SPELLINGS, [0] * len(SPELLINGS)), lexicon)


def test_a_mark_without_letters_at_the_end_of_a_translation_changes_nothing() -> None:
    source, written = [f"{MARK}a", f"{MARK}X", "yz"], ["a", "Xyz"]
    said = [f"{MARK}a", f"{MARK}low", "er", MARK]
    looks = np.eye(5, 4, dtype=np.float32)
    for tokens, marks in ((said[:3], 0), (said, 1), ([MARK], 1)):
        looked = looks[[*range(len(tokens)), -1]]
        words, replaced = unknown_words("a").replace(tokens, set(), looked, source, written, None)
        if len(tokens) < 3:
            assert (words, replaced) == (tokens, [])
        else:
            assert words == [f"{MARK}a", f"{MARK}Xyz", "", *[MARK] * marks]
            assert replaced == [Replacement(1, 1, False)]


@pytest.mark.parametrize(
    ("entries", "pieces"),
    [(("a", "@@", MARK), False), (("a", "low@@"), True), (("a", f"{MARK}low"), True), ((), False)],
)
def test_a_mark_alone_is_a_word_and_not_part_of_one(entries: tuple[str, ...], pieces: bool) -> None:
    assert unknown_words(*entries).lexicon_has_pieces is pieces
