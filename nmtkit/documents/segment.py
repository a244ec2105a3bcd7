"""What every document format has in common: paragraphs of text with inline markup, translated and put back.

A format's file turns a document into a ``Document``; ``translate.py`` translates its segments and knows no format.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Mark(NamedTuple):
    """Inline markup: an element around ``text[start:end]`` of a segment; empty (br, img) if both are equal."""

    start: int
    end: int
    element: Hashable  # the format's own key of the element, given back untouched
    splits: bool  # whether the element may be repeated, around each part of its words, as b may; else it stays one


@dataclass(frozen=True)
class Segment:
    """A paragraph: its text without markup, its inline markup, and what must not be translated.

    ``marks`` are properly nested and in document order, outer before inner. An empty mark contains no other, and one
    at the end of another is after it: a format makes one empty mark of an element without text, whatever is in it.
    White space is single spaces; a line break ends a sentence. ``keep`` are spans of characters (start,
    end) that are copied as they are: code, and what the format says is not to be translated. Placeholders need not be
    among them; they are found by pattern.
    """

    text: str
    marks: tuple[Mark, ...] = ()
    keep: tuple[tuple[int, int], ...] = ()
    doubtful: bool = False  # whether it is a translation with a sentence of which the model is not sure


class Document(Protocol):
    """A file as segments, which can be written again with others in their places."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The paragraphs in document order."""
        ...

    def write(self, translated: Sequence[Segment]) -> bytes:
        """The whole file with these segments, one for each of ``segments``, in their places."""
        ...
