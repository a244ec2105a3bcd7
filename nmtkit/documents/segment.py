"""Paragraphs of text with inline markup, which every document format has.

Each format's module makes a ``Document``; ``translate.py`` translates its segments and knows nothing about formats.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Mark(NamedTuple):
    """Inline markup: an element around ``text[start:end]`` of a segment, empty (br, img) if start = end."""

    start: int
    end: int
    element: Hashable  # the format's own key of the element
    splits: bool  # whether the element may be repeated around several parts of its words, as b may
    spaced: bool = False  # whether an empty element has a space on both sides, of which the text has one
    layout: bool = False  # whether an empty element is white space, such as a line break, that the text has as well


@dataclass(frozen=True)
class Segment:
    """A paragraph: its text without markup, its inline markup, and what must not be translated.

    ``marks`` are nested and in document order, outer before inner. An empty mark contains no other, and comes after a
    mark that ends there: an element without text is one empty mark, whatever it contains. A line break or tab ends a
    sentence. ``keep`` are spans of characters (start, end) that are copied: code, and what the format excludes from
    translation, but not placeholders, which are found by pattern.
    """

    text: str
    marks: tuple[Mark, ...] = ()
    keep: tuple[tuple[int, int], ...] = ()
    doubtful: bool = False  # whether it contains a doubtful translation of a sentence


class Document(Protocol):
    """A file as segments, which can be written with other segments in their places."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The paragraphs in document order."""
        ...

    def write(self, translated: Sequence[Segment]) -> bytes:
        """The file with these segments, one for each of ``segments``, in their places."""
        ...
