"""Splitting long lines into pieces, and combining the translations of the pieces.

The cost of search is quadratic in the source length. In pieces it is linear, and the model reads sentences of the
lengths in its training data.
"""

import heapq
import itertools
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple, TypeVar

import numpy as np
import regex

from nmtkit.align.posunk import Replacement
from nmtkit.search.beam import Floats
from nmtkit.text.pipeline import TextPipeline, letters
from nmtkit.text.scripts import TERMINAL

T = TypeVar("T")

_CLOSING = "[\"'»”’)\\]}」』）]"  # may follow a mark before the next word
SENTENCE_END = regex.compile(f"{TERMINAL}{_CLOSING}*$")
# In Ethiopic, ፡ is a space between words.
_PUNCTUATION = regex.compile(rf"(?V1)[\p{{Terminal_Punctuation}}–—--፡]$|{_CLOSING}$")
_CLOSER = re.compile(f"{_CLOSING}+")


class Met(NamedTuple):
    """A term of a line, and its form in the translation; None if it is missing."""

    source: str
    form: str | None


class Part(NamedTuple):
    """The translation of a line or of a piece of it. T tokens, S source tokens."""

    tokens: list[str]  # (T,) as the model produced them
    written: list[str]  # (T,) the same with unknown words replaced, if requested
    replaced: list[Replacement] | None  # the replacement of each
    score: float
    log_probs: list[float]  # (T + 1,) of the tokens and EOS
    links: list[tuple[int, int]]  # (source token, target token), if there are attention weights
    attention: Floats | None  # (T + 1, S + 1), EOS included
    terms: list[Met]  # in its source
    seen: float | None  # sum over source tokens of the highest attention weight on each, if requested


def cuts(tokens: Sequence[str], limit: int, pipeline: TextPipeline) -> list[int]:
    """Cut ``tokens`` into pieces of at most ``limit``; returns the position of the first token of each piece.

    Cuts are at the end of a sentence if possible, else after other punctuation, else between words, else anywhere; of
    equally good positions, the one with the most equal pieces is chosen. All pieces except the last have at least half
    of ``limit`` tokens.
    """
    starts = [0]
    while (end := end_of_piece(tokens, starts[-1], limit, pipeline)) < len(tokens):
        starts.append(end)
    return starts


def end_of_piece(tokens: Sequence[str], start: int, limit: int, pipeline: TextPipeline) -> int:
    """The end of the piece that begins at ``start``; see ``cuts``."""
    left = len(tokens) - start
    if left <= limit:
        return len(tokens)
    # Searching only the second half of the limit bounds the number of pieces and the work.
    equal = start + left / -(-left // limit)  # the end of this piece if the pieces were equal and as few as possible
    places = range(start + max(1, limit // 2), start + limit + 1)
    return max(places, key=lambda i: (_goodness(tokens, i, pipeline), -abs(i - equal)))


def _goodness(tokens: Sequence[str], i: int, pipeline: TextPipeline) -> int:
    """The quality of a cut before token i: 3 between sentences, 2 after punctuation, 1 between words, 0 in a word."""
    if pipeline.word_numbers([tokens[i - 1], tokens[i]])[-1] == 0:
        return 0
    before = "".join(map(letters, tokens[max(0, i - 3) : i]))  # a closing quote may follow the mark
    # A closing quote belongs to its sentence.
    if _CLOSER.fullmatch(letters(tokens[i])):
        return 1
    return 3 if SENTENCE_END.search(before) else 2 if _PUNCTUATION.search(before) else 1


def same_cuts(starts: Sequence[int], tokens: Sequence[str], others: Sequence[str]) -> list[int]:
    """The positions in ``others``, the same line in other tokens, that correspond to ``starts`` in ``tokens``.

    They are the positions with the most similar share of characters before them, because the spelling may differ (for
    example in punctuation).
    """
    read, read_by_other = (np.cumsum([0, *(len(letters(t)) for t in side)]) for side in (tokens, others))
    shares = read_by_other / max(1, read_by_other[-1])
    return [int(np.abs(shares - read[start] / max(1, read[-1])).argmin()) for start in starts]


def slices(tokens: list[T], starts: Sequence[int]) -> list[list[T]]:
    """Split ``tokens`` at ``starts``."""
    return [tokens[a:b] for a, b in itertools.pairwise([*starts, len(tokens)])]


def best_combinations(pieces: Sequence[Sequence[Part]], n: int) -> list[tuple[Part, ...]]:
    """The n combinations of one part per piece with the highest sums of scores, best first.

    The n best for k pieces extend the n best for the first k - 1.
    """
    best: list[tuple[float, tuple[Part, ...]]] = [(0.0, ())]
    for parts in pieces:
        longer = ((total + part.score, (*before, part)) for total, before in best for part in parts)
        best = heapq.nlargest(n, longer, key=itemgetter(0))
    return [parts for _, parts in best]
