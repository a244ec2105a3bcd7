"""Unknown words and names, among words and among subwords."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmtkit.align.lexicon import Lexicon
from nmtkit.align.posunk import Replacement, respelled
from nmtkit.data.vocab import Vocabulary
from nmtkit.symbols import FARTHEST, SPELLINGS, UNKPOS
from nmtkit.text.sentencepieces import MARK, SentencePieces
from nmtkit.text.settings import Side
from nmtkit.translation.unknown_words import UnknownWords


def unknown_words(*entries: str, language: str = "en") -> UnknownWords:
    """Unknown words with SentencePiece on both sides, and a lexicon that translates these words as themselves."""
    side: Any = SimpleNamespace(
        side=Side(language, segmentation="sentencepiece"), segmenter=True, words=SentencePieces.join,
        word_numbers=SentencePieces.numbers,
    )  # fmt: skip
    lexicon = Lexicon("words", lambda: {word: {word: 1.0} for word in entries})
    return UnknownWords(side, side, Vocabulary(SPELLINGS, [0] * len(SPELLINGS)), lexicon)


def plain_words(
    entries: dict[str, dict[str, float]], *, capitals: bool = False, truecase: bool = False
) -> UnknownWords:
    """Unknown words without subwords. capitals: whether the target's words have one at the beginning of a sentence."""
    side: Any = SimpleNamespace(side=Side("en", truecase=truecase), segmenter=None)
    words = Vocabulary([*SPELLINGS, "the", "The"], [0] * len(SPELLINGS) + [90, 10 * capitals])
    return UnknownWords(side, side, words, Lexicon("words", lambda: entries))


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


@pytest.mark.parametrize("seed", range(20))
def test_names_are_copied_by_the_attention_of_whole_words(seed: int) -> None:
    """A word attends to a word with the sum over the pieces of that one, and the mean over its own pieces."""
    source, written = [f"{MARK}a", f"{MARK}X", "yz", f"{MARK}U", "v", "w"], ["a", "Xyz", "Uvw"]
    tokens = [f"{MARK}l", "ow", "er", f"{MARK}a", f"{MARK}q", "i", f"{MARK}w"]
    random = np.random.default_rng(seed)
    attention = (random.random((8, 7)) * 0.03 * (random.random((8, 7)) < 0.5)).astype(np.float32)
    of_source, of_target = [[0], [1, 2], [3, 4, 5]], [[0, 1, 2], [3], [4, 5], [6]]
    looks = [[attention[np.ix_(rows, columns)].sum(1).mean() for columns in of_source] for rows in of_target]
    own = unknown_words("a")
    assert own.lexicon is not None
    words, copies = ["lower", "a", "qi", "w"], np.array(looks, np.float32)
    for s, (first, end) in respelled(words, copies, written, written, [False, True, True], own.lexicon).items():
        words[first:end] = [written[s], *[""] * (end - first - 1)]
    copied, _ = own.replace(tokens, set(), attention, source, written, None)
    assert "".join(copied).replace(MARK, " ").split() == [word for word in words if word]


@pytest.mark.parametrize("name", ["Чубайс", "Παπανδρέου", "Սարգսյան", "𞤁𞤭𞤴𞤮"])
def test_a_name_in_another_script_is_left_to_the_model(name: str) -> None:
    source, tokens = [f"{MARK}a", f"{MARK}{name[:2]}", name[2:]], [f"{MARK}a", f"{MARK}Chu", "bais"]
    looks = np.eye(4, dtype=np.float32)
    assert unknown_words("a").replace(tokens, set(), looks, source, ["a", name], None) == (tokens, [])


@pytest.mark.parametrize(("language", "copied"), [("de", False), ("de-AT", False), ("deu_Latn", False), ("nl", True)])
def test_no_name_is_copied_from_a_language_whose_nouns_have_capitals(language: str, copied: bool) -> None:
    source, tokens = [f"{MARK}a", f"{MARK}X", "yz"], [f"{MARK}a", f"{MARK}low"]
    looks = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], np.float32)
    words, _ = unknown_words("a", language=language).replace(tokens, set(), looks, source, ["a", "Xyz"], None)
    assert words == [f"{MARK}a", f"{MARK}Xyz" if copied else f"{MARK}low"]


def test_a_copied_name_replaces_the_unknown_word_in_it_and_replacements_are_in_order() -> None:
    source, written = [f"{MARK}a", f"{MARK}X", "yz", f"{MARK}q"], ["a", "Xyz", "q"]
    tokens = [f"{MARK}a", "<unk>", f"{MARK}low", "<unk>", f"{MARK}a", "<unk>"]
    looks = np.zeros((7, 5), np.float32)
    for t, s in enumerate((0, 3, 1, 2, 0, 3)):
        looks[t, s] = 1
    words, replaced = unknown_words("a").replace(tokens, set(), looks, source, written, None)
    assert words[2:4] == [f"{MARK}Xyz", ""]
    assert [(each.target, each.source) for each in replaced] == [(1, 3), (2, 1), (5, 3)]


def test_a_position_that_the_model_predicted_counts_more_than_attention() -> None:
    words, looks = ["x", "y", "z"], np.array([[0, 0, 1, 0], [0, 0, 0, 1]], np.float32)
    found, _ = plain_words({}).replace([UNKPOS[FARTHEST]], set(), looks, words, words, None)
    assert found == ["x"]


def test_a_translation_by_the_lexicon_is_a_whole_word() -> None:
    source, looks = [f"{MARK}a", f"{MARK}q"], np.eye(3, dtype=np.float32)
    own = unknown_words("a")
    own = replace(own, lexicon=Lexicon("words", lambda: {"a": {"a": 1.0}, "q": {"quay": 1.0}}))
    assert own.replace([f"{MARK}a", "<unk>"], set(), looks, source, ["a", "q"], None)[0] == [f"{MARK}a", f"{MARK}quay"]


@pytest.mark.parametrize(("capitals", "truecase"), [(True, False), (False, False), (True, True)])
def test_a_translation_by_the_lexicon_has_a_capital_where_the_models_sentences_begin_with_one(
    capitals: bool, truecase: bool
) -> None:
    own = plain_words({"x": {"quay": 1.0}}, capitals=capitals, truecase=truecase)
    found, _ = own.replace(["<unk>", "the"], set(), np.eye(3, dtype=np.float32), ["x", "y"], ["x", "y"], None)
    assert found == ["Quay" if capitals and not truecase else "quay", "the"]


@pytest.mark.parametrize(
    ("entries", "pieces"),
    [(("a", "@@", MARK), False), (("a", "low@@"), True), (("a", f"{MARK}low"), True), ((), False)],
)
def test_a_mark_alone_is_a_word_and_not_part_of_one(entries: tuple[str, ...], pieces: bool) -> None:
    assert unknown_words(*entries).lexicon_has_pieces is pieces
