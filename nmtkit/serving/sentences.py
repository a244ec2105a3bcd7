"""Texts as sentences: where they stand, and how their translations are put together again, with nothing lost."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sentencex import segment

_LINE = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_WINDOW = 4_000  # characters
_SPACELESS = {"bo", "ja", "km", "lo", "my", "th", "yue", "zh"}  # languages without spaces between sentences


class Span(NamedTuple):
    """The characters of a text that are one sentence: from ``start`` up to ``end``."""

    start: int
    end: int


def count_lines(text: str) -> int:
    """The number of lines that are not blank, which is soon counted; there are at least as many sentences."""
    return sum(1 for line in text.splitlines() if line.strip())


def sentences(text: str, language: str, split: bool) -> list[Span]:
    """The sentences of a text, or its lines if it is not to be ``split``; all that is not white space is in one.

    A line break of any kind ends a sentence. Sentences are those of sentencex, which knows the abbreviations of many
    languages, and takes the rules of a related one, or English ones, for the others.
    """
    spans = []
    for start, line in _lines(text):
        # A text may have a million blank lines, which need no search for sentences.
        for piece in _segmented(line, language) if split and line.strip() else [line]:
            if stripped := piece.strip():
                first = start + piece.index(stripped)
                spans.append(Span(first, first + len(stripped)))
            start += len(piece)
    return spans


def _segmented(line: str, language: str) -> Iterator[str]:
    """The sentences of a line with the white space around them."""
    while len(line) > _WINDOW:
        # The time that sentencex takes for quotes grows with the square of the text, so that it gets a part at a time.
        # The last sentence of a part may go on in the next.
        pieces = segment(language, line[:_WINDOW])
        yield from pieces[:-1] or pieces
        line = line[sum(map(len, pieces[:-1] or pieces)) :]
    yield from segment(language, line)


def between(text: str, spans: Sequence[Span], language: str) -> list[str]:
    """What stands before the translation of each sentence, and after the last: what is there in the text.

    Sentences of a target ``language`` with spaces get one where the source has nothing between two, as Chinese has.
    """
    starts, ends = [*(span.start for span in spans), len(text)], [0, *(span.end for span in spans)]
    gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    space = "" if language in _SPACELESS else " "
    return [gap or (space if 0 < number < len(spans) else "") for number, gap in enumerate(gaps)]


def whole_lines(lines: Sequence[str]) -> list[Span]:
    """The lines in a text that has them one below the other, each of them a sentence whatever is in it."""
    ends = itertools.accumulate((len(line) + 1 for line in lines), initial=0)
    return [Span(start, start + len(line)) for start, line in zip(ends, lines, strict=False)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with the place where it starts, without its end."""
    start = 0
    for line_break in _LINE.finditer(text):
        yield start, text[start : line_break.start()]
        start = line_break.end()
    yield start, text[start:]
