"""Word alignment of a sentence and its translation, by attention and a lexicon."""

from collections.abc import Iterable, Sequence
from html import unescape
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from nmtkit.align.lexicon import NO_LEXICON, Lexicon
from nmtkit.documents.sentences import Span
from nmtkit.search.beam import Floats
from nmtkit.text.pipeline import INVISIBLE, TextPipeline, letters
from nmtkit.translation.translation import DOUBTFUL, Translation
from nmtkit.translation.translator import Translator

_DIAGONAL = 4.0  # the strength of fast_align's preference for the diagonal
_LEAST = 1e-6  # added to all weights, so that no link is impossible
_UNLISTED = 1e-3  # probability of a pair that the lexicon lacks
_COPY = 0.5  # and of a word that is copied
_ROUNDS = 5  # of normalisation; more do not change the result
_SLACK = 6  # characters by which the tokenizer may change the text between two words


class Aligned(NamedTuple):
    """An aligned translation: T target words and S source words, 0 and 0 if the model has no attention."""

    text: str  # the translation
    source: list[Span]  # (S,) words in the sentence
    target: list[Span]  # (T,) words in the translation
    weights: Floats  # (T, S) the attention of each target word to the source words; a row sums to 1, or to 0
    doubtful: bool = False  # whether the model is unsure of it
    lost: Sequence[str] = ()  # placeholders that the model omitted


def align(translator: Translator, sentence: str, translation: Translation) -> Aligned:
    """The alignment of a sentence and its translation."""
    reader, writer = translator.sources[0].pipeline, translator.tgt_pipeline
    weights, doubtful = translation.attention, translation.quality < DOUBTFUL
    if weights is None or not translation.tokens or not translation.source:
        return Aligned(translation.text, [], [], np.zeros((0, 0), np.float32), doubtful)
    source, of_source = _words(translation.source, sentence, reader)
    target, of_target = _words(translation.written, translation.text, writer)
    links = np.zeros((len(target), len(source)), np.float32)
    for t, row in zip(of_target, weights[:-1, :-1], strict=True):
        np.add.at(links[t], of_source, row)
    found, seen = ([i for i, (start, end) in enumerate(words) if start < end] for words in (target, source))
    source, target = [source[s] for s in seen], [target[t] for t in found]
    src = [sentence[start:end] for start, end in source]
    tgt = [translation.text[start:end] for start, end in target]
    likely = links[np.ix_(found, seen)] * probabilities(src, tgt, translator.lexicon or NO_LEXICON)
    links = balanced(likely, [_are_words(tgt), _are_words(src)])
    return Aligned(translation.text, source, target, links, doubtful)


def probabilities(source: Sequence[str], target: Sequence[str], lexicon: Lexicon) -> Floats:
    """P(target word | source word) in a lexicon, (T, S), ignoring case.

    Pairs that the lexicon lacks have a low probability, except for two equal words.
    """
    found = np.zeros((len(target), len(source)), np.float32)
    for s, word in enumerate(source):
        entries = lexicon.translations.get(word) or lexicon.translations.get(word.lower(), {})
        listed = {other.lower(): p for other, p in sorted(entries.items(), key=itemgetter(1))}  # the highest of each
        found[:, s] = [listed.get(other.lower(), _COPY if other == word else 0) for other in target]
    return found + _UNLISTED


def _are_words(words: Sequence[str]) -> list[bool]:
    """Whether each token is a word rather than punctuation."""
    return [any(map(str.isalnum, word)) for word in words]


def balanced(weights: Floats, are_words: Sequence[Sequence[bool]]) -> Floats:
    """An alignment (T, S) from attention (T, S): how likely each target word translates each source word.

    Attention is where a decoder reads, not what it translates: articles attend to their nouns, a full stop to any
    word. So punctuation is aligned with punctuation only (``are_words``: for the target and the source, which tokens
    are words), places near the diagonal are preferred as in fast_align (Dyer et al. 2013), and columns and rows are
    normalised in turn (Sinkhorn 1967), because source words have similar numbers of translations.
    """
    (places_t, places_s) = ((np.arange(size) + 0.5) / max(1, size) for size in weights.shape)
    links = (weights + _LEAST) * np.exp(-_DIAGONAL * np.abs(places_t[:, None] - places_s))
    links[np.not_equal.outer(*are_words)] = 0
    for _ in range(_ROUNDS):
        links = shares(shares(links.T).T)
    aligned: Floats = links.astype(np.float32)
    return aligned


def shares(weights: Floats) -> Floats:
    """Weights (T, S) scaled so that each row sums to 1; rows of zeros are not changed."""
    total = weights.sum(axis=1, keepdims=True)
    normalised: Floats = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return normalised


def _words(tokens: list[str], text: str, pipeline: TextPipeline) -> tuple[list[Span], list[int]]:
    """The span of each word, empty for words not found in the text, and the number of each token's word."""
    numbers = pipeline.word_numbers(tokens)
    pieces = (unescape(letters(token)) if pipeline.side.escape else letters(token) for token in tokens)
    pieces = (INVISIBLE.sub("", piece) for piece in pieces)  # some have them if the model's training text had
    words = [Span(len(text), 0)] * (numbers[-1] + 1)
    invisible = {place for found in INVISIBLE.finditer(text) for place in range(*found.span())}
    visible = [place for place in range(len(text)) if place not in invisible]
    for number, (start, end) in zip(numbers, characters(pieces, "".join(text[i] for i in visible)), strict=True):
        if start < end:
            first, last = visible[start], visible[end - 1]
            words[number] = Span(min(first, words[number].start), max(last + 1, words[number].end))
    return words, numbers


def characters(pieces: Iterable[str], text: str) -> list[Span]:
    """The span of each piece in a text that consists of these, in order, and white space between them.

    The span is empty if the text spells the piece differently, apart from case.
    """
    plain = _lower(text)
    spans, place, missed = list[Span](), 0, 0
    for piece in pieces:
        wanted = _lower(piece)
        while place < len(text) and text[place].isspace():
            place += 1
        # Pieces that were not found come first; the text may spell them with a few more characters.
        found = plain.find(wanted, place, place + len(wanted) + 2 * missed + _SLACK)
        if not wanted or found < 0:
            spans.append(Span(place, place))
            missed += len(wanted)
        else:
            place, missed = found + len(wanted), 0
            spans.append(Span(found, place))
    return spans


def _lower(text: str) -> str:
    """A text in lower case, with as many characters as before."""
    return "".join(lower if len(lower := letter.lower()) == 1 else letter for letter in text)
