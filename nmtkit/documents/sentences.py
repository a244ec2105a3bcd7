"""Splitting texts into sentences, and the white space between these."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sentencex import segment

from nmtkit.text.scripts import WITHOUT_SPACES, base_language

_WINDOW = 4_000  # characters


class Span(NamedTuple):
    """A range of characters in a text, excluding ``end``."""

    start: int
    end: int


def count_lines(text: str) -> int:
    """The number of non-blank lines: a fast lower bound for the number of sentences."""
    return sum(1 for line in text.splitlines() if line.strip())


def sentences(text: str, language: str, split: bool) -> list[Span]:
    """The sentences of a text, or its non-blank lines if ``split`` is False, without white space at their edges.

    A line break ends a sentence. sentencex splits the lines; for languages that it does not know it uses the rules of
    a related language or of English.
    """
    spans, line_start = [], 0
    for line, with_end in zip(text.splitlines(), text.splitlines(keepends=True), strict=True):
        start = line_start
        for piece in _segmented(line, language) if split and line.strip() else [line]:
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
        yield from pieces[:-1] or pieces
        line = line[sum(map(len, pieces[:-1] or pieces)) :]
    yield from segment(language, line)


def between(text: str, spans: Sequence[Span], language: str) -> list[str]:
    """The text before each sentence and after the last one, for use between their translations.

    If the source has no space between two sentences, as in Chinese, a target ``language`` with spaces gets one.
    """
    starts, ends = [*(span.start for span in spans), len(text)], [0, *(span.end for span in spans)]
    gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    space = "" if base_language(language) in WITHOUT_SPACES else " "
    return [gap or (space if 0 < number < len(spans) else "") for number, gap in enumerate(gaps)]


def whole_lines(lines: Sequence[str]) -> list[Span]:
    """The spans of lines in a text that joins them by line feeds."""
    starts = itertools.accumulate((len(line) + 1 for line in lines), initial=0)
    return [Span(start, start + len(line)) for start, line in zip(starts, lines, strict=False)]
