"""Splitting texts into sentences, and the white space between these."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import regex
from sentencex import segment

from nmtkit.text.scripts import CHARACTERS, base_language

_WINDOW = 4_000  # characters
# The ends of sentences that sentencex does not know: Khmer, Tibetan before a space, and the Ethiopic full stop as two
# word spaces.
_END = regex.compile(r"(?V1)(?<=[។៕]|፡፡|།(?=\s))(?=\s*\S)")
# Burmese marks at which sentencex ends a sentence: the comma, and "of".
_INSIDE = ("၊", "၏")


class Span(NamedTuple):
    """A range of characters in a text, excluding ``end``."""

    start: int
    end: int


def nonblank_lines(text: str) -> int:
    """The number of non-blank lines: a fast lower bound for the number of sentences."""
    return sum(1 for line in text.splitlines() if line.strip())


def sentences(text: str, language: str, split: bool) -> list[Span]:
    """The sentences of a text, or its non-blank lines if ``split`` is False, without white space at their edges.

    A line break or tab ends a sentence. sentencex splits the lines; for languages that it does not know it uses the
    rules of a related language or of English.
    """
    spans, line_start, text, base = [], 0, text.replace("\t", "\n"), base_language(language)
    for line, with_end in zip(text.splitlines(), text.splitlines(keepends=True), strict=True):
        start = line_start
        for piece in _whole(_segmented(line, base)) if split and line.strip() else [line]:
            if stripped := piece.strip():
                first = start + piece.index(stripped)
                spans.append(Span(first, first + len(stripped)))
            start += len(piece)
        line_start += len(with_end)
    return spans


def _segmented(line: str, language: str) -> Iterator[str]:
    """The sentences of a line with the white space between them."""
    while len(line) > _WINDOW:
        # sentencex is quadratic in the length of a text with quotes. The last sentence of a window may be incomplete.
        pieces = segment(language, line[:_WINDOW])
        pieces = pieces[:-1] or pieces
        yield from itertools.chain.from_iterable(map(_END.splititer, pieces))
        line = line[sum(map(len, pieces)) :]
    for piece in segment(language, line):
        yield from _END.splititer(piece)


def _whole(pieces: Iterable[str]) -> Iterator[str]:
    """The sentences of which these are pieces, which may end with a mark that is ``_INSIDE``."""
    parts = list[str]()
    for piece in pieces:
        parts.append(piece)
        if not piece.rstrip().endswith(_INSIDE):
            yield "".join(parts)
            parts.clear()
    yield "".join(parts)


def between(text: str, spans: Sequence[Span], source: str, target: str) -> list[str]:
    """The text before each sentence and after the last one, for use between their translations.

    If there is no space between two sentences, as in Chinese and Japanese, other languages get one, because Thai, too,
    has spaces between sentences. A single space between sentences of another language is left out in these two.
    """
    starts, ends = [*(span.start for span in spans), len(text)], [0, *(span.end for span in spans)]
    gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    src, tgt = base_language(source), base_language(target)
    instead = {"": " "} if tgt not in CHARACTERS else {" ": ""} if src not in CHARACTERS else {}
    return [instead.get(gap, gap) if 0 < number < len(spans) else gap for number, gap in enumerate(gaps)]


def whole_lines(lines: Sequence[str]) -> list[Span]:
    """The spans of lines in a text that joins them by line feeds."""
    starts = itertools.accumulate((len(line) + 1 for line in lines), initial=0)
    return [Span(start, start + len(line)) for start, line in zip(starts, lines, strict=False)]
