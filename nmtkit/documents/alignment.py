"""A sentence and its translation word by word: where each word stands in its text, and which looks at which."""

from collections.abc import Iterable
from html import unescape
from typing import NamedTuple

import numpy as np

from nmtkit.documents.sentences import Span
from nmtkit.search.beam import Floats
from nmtkit.text.pipeline import TextPipeline, letters
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator

_SLACK = 6  # characters by which a tokenizer may change a text between two words that it leaves alone


class Aligned(NamedTuple):
    """A sentence's translation, aligned: T target words, S source words. A model without attention has no words."""

    text: str  # the translation
    source: list[Span]  # (S,) the words' characters in the sentence
    target: list[Span]  # (T,) and in the translation
    weights: Floats  # (T, S) the attention of each target word to the source words; a row sums to 1, or to 0


def align(translator: Translator, sentence: str, translation: Translation) -> Aligned:
    """A sentence's translation with words and attention instead of tokens."""
    reader, writer = translator.sources[0].pipeline, translator.tgt_pipeline
    weights = translation.attention
    if weights is None or not translation.tokens or not translation.source:
        return Aligned(translation.text, [], [], np.zeros((0, 0), np.float32))
    source, of_source = _words(translation.source, sentence, reader)
    target, of_target = _words(translation.written, translation.text, writer)
    links = np.zeros((len(target), len(source)), np.float32)
    for t, row in zip(of_target, weights[:-1, :-1], strict=True):
        np.add.at(links[t], of_source, row)
    found, seen = ([i for i, (start, end) in enumerate(words) if start < end] for words in (target, source))
    links = shares(links[np.ix_(found, seen)])
    return Aligned(translation.text, [source[s] for s in seen], [target[t] for t in found], links)


def shares(weights: Floats) -> Floats:
    """Weights (T, S) whose rows sum to 1, but for those of zeros."""
    total = weights.sum(axis=1, keepdims=True)
    normalised: Floats = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return normalised


def _words(tokens: list[str], text: str, pipeline: TextPipeline) -> tuple[list[Span], list[int]]:
    """The characters of each word, none (start = end) of those not found in the text, and each token's word."""
    numbers = pipeline.word_numbers(tokens)
    pieces = (unescape(letters(token)) if pipeline.side.escape else letters(token) for token in tokens)
    words = [Span(len(text), 0)] * (numbers[-1] + 1)
    for number, (start, end) in zip(numbers, characters(pieces, text), strict=True):
        if start < end:
            words[number] = Span(min(start, words[number].start), max(end, words[number].end))
    return words, numbers


def characters(pieces: Iterable[str], text: str) -> list[Span]:
    """The characters of each piece in a text that consists of these, in order, and of white space between them.

    A piece whose letters the text writes in another way, but for their case, has none (start = end).
    """
    plain = "".join(each if len(each) == 1 else letter for letter in text for each in [letter.lower()])
    spans, place, missed = list[Span](), 0, 0
    for piece in pieces:
        wanted = "".join(each if len(each) == 1 else letter for letter in piece for each in [letter.lower()])
        while place < len(text) and text[place].isspace():
            place += 1
        # What is missing is somewhere between, and so are at most as many other characters, or a few more.
        found = plain.find(wanted, place, place + len(wanted) + 2 * missed + _SLACK)
        if not wanted or found < 0:
            spans.append(Span(place, place))
            missed += len(wanted)
        else:
            place, missed = found + len(wanted), 0
            spans.append(Span(found, place))
    return spans
