"""A document as a list of places with text, and inline markup as a walk over a segment: what all formats share."""

import itertools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Literal, NamedTuple

from nmtkit.documents.segment import Mark, Segment

# What is copied inside a string: a time of WebVTT's karaoke, an override of SubStation's.
_CODE = re.compile(r"<[0-9][0-9:.]*>|\{\\[^{}]*\}")
_VOID = {
    "br",
    "hr",
    "img",
    "v",
    "wbr",
}  # elements of HTML without an end tag, and the speaker of WebVTT, who may have none


class Step(NamedTuple):
    """A step of a walk over a segment: the start of an element, its end, or some text."""

    kind: Literal["start", "end", "text"]
    element: Hashable = None
    text: str = ""


def walk(segment: Segment) -> Iterator[Step]:
    """The text and the elements of a segment in document order, each start with its end; no text is empty.

    An empty element where another one ends stands after it.
    """
    position, inside = 0, list[Mark]()

    def until(end: int) -> Iterator[Step]:
        nonlocal position
        if position < end:
            yield Step("text", text=segment.text[position:end])
            position = end

    for mark in segment.marks:
        while inside and inside[-1].end <= mark.start:
            yield from until(inside[-1].end)
            yield Step("end", inside.pop().element)
        yield from until(mark.start)
        yield Step("start", mark.element)
        inside.append(mark)
    while inside:
        yield from until(inside[-1].end)
        yield Step("end", inside.pop().element)
    yield from until(len(segment.text))


class Builder:
    """Makes a segment of the steps of a walk, in document order."""

    def __init__(self) -> None:
        self._texts = list[str]()
        self._length = 0
        self._marks = list[Mark]()
        self.inside = list[int]()  # the places in _marks of the elements that have not ended
        self._keep = list[tuple[int, int]]()

    def text(self, text: str, keep: bool = False) -> None:
        """Add text; ``keep``: that is copied as it is."""
        if keep and text:
            self._keep.append((self._length, self._length + len(text)))
        self._texts.append(text)
        self._length += len(text)

    def start(self, element: Hashable, splits: bool) -> None:
        """Begin an element."""
        self.inside.append(len(self._marks))
        self._marks.append(Mark(self._length, self._length, element, splits))

    def end(self) -> None:
        """End the element that was begun last."""
        number = self.inside.pop()
        self._marks[number] = self._marks[number]._replace(end=self._length)

    def empty(self, element: Hashable) -> None:
        """Add an element without text."""
        self.start(element, splits=False)
        self.end()

    def segment(self) -> Segment:
        """The segment of all steps."""
        return Segment("".join(self._texts), tuple(self._marks), tuple(self._keep))


def paired(kinds: Sequence[str]) -> dict[int, int]:
    """Of neighbours that open and close, the places of those that make pairs, each with that of the other."""
    pairs, waiting = dict[int, int](), list[int]()
    for number, kind in enumerate(kinds):
        if kind == "opens":
            waiting.append(number)
        elif kind == "closes" and waiting:
            other = waiting.pop()
            pairs |= {other: number, number: other}
    return pairs


def part(segment: Segment, marks: Iterable[Mark], start: int, end: int) -> Segment:
    """The characters from ``start`` to ``end`` of a segment, with those of its marks that are given."""

    def within(place: int) -> int:
        return min(max(place, start), end) - start

    return Segment(
        segment.text[start:end],
        tuple(mark._replace(start=within(mark.start), end=within(mark.end)) for mark in marks),
        tuple((within(first), within(last)) for first, last in segment.keep if first < end and start < last),
    )


def trimmed(segment: Segment) -> tuple[Segment, Segment, Segment]:
    """A segment in three parts: white space and empty elements at its start, the text, and those at its end."""
    text, marks = segment.text, segment.marks
    first = len(text) - len(text.lstrip())
    last = max(first, len(text.rstrip()))
    before = list(itertools.takewhile(lambda mark: mark.start == mark.end <= first, marks))
    rest, after = list(marks[len(before) :]), list[Mark]()
    end = max(last, *(mark.end for mark in marks if mark.start < mark.end), 0)
    while rest and rest[-1].start == rest[-1].end >= end:
        after.insert(0, rest.pop())
    return part(segment, before, 0, first), part(segment, rest, first, last), part(segment, after, last, len(text))


def joined(parts: Sequence[Segment]) -> Segment:
    """Segments one after another as one."""
    starts = list(itertools.accumulate((len(part.text) for part in parts), initial=0))
    return Segment(
        "".join(part.text for part in parts),
        tuple(
            mark._replace(start=mark.start + at, end=mark.end + at)
            for at, part in zip(starts, parts, strict=False)
            for mark in part.marks
        ),
        tuple((start + at, end + at) for at, part in zip(starts, parts, strict=False) for start, end in part.keep),
        any(part.doubtful for part in parts),
    )


def divided(segment: Segment, cuts: Sequence[int]) -> list[Segment]:
    """The parts of a segment between ``cuts``, without white space at their edges; an element may be in several."""
    parts = list[Segment]()
    for low, high in itertools.pairwise([0, *cuts, len(segment.text)]):
        text = segment.text[low:high]
        first = low + len(text) - len(text.lstrip())
        last = max(first, low + len(text.rstrip()))
        most = high + (len(parts) == len(cuts))  # an empty element at the end of the text is in the last part
        marks = (
            mark
            for mark in segment.marks
            if (low <= mark.start < most if mark.start == mark.end else max(mark.start, first) < min(mark.end, last))
        )
        parts.append(part(segment, marks, first, last))
    return parts


class Places:
    """A ``Document`` of places, each with a segment and a function that takes its translation.

    ``save`` returns the file when all have theirs. Text without letters is left as it is, and so are white space and
    empty elements at the edges of a text.
    """

    def __init__(self, save: Callable[[], bytes]) -> None:
        self.segments = list[Segment]()
        self._puts = list[Callable[[Segment], None]]()
        self._save = save

    def add(self, segment: Segment, put: Callable[[Segment], None]) -> None:
        """Add a place, unless there is nothing to translate in it."""
        if not _translatable(segment.text):
            return
        before, inner, after = trimmed(segment)
        self.segments.append(inner)
        self._puts.append(lambda translated: put(joined([before, translated, after])))

    def add_string(self, string: str, put: Callable[[str], None], doubt: Callable[[], None] = lambda: None) -> None:
        """Add a string of a program: each of its lines is a segment, in which well-formed tags are markup.

        ``doubt`` is called for each line of whose translation the model is not sure.
        """
        lines = string.splitlines(keepends=True)
        last = max((number for number, line in enumerate(lines) if _translatable(line)), default=0)
        for number, line in enumerate(lines):

            def put_line(translated: Segment, number: int = number) -> None:
                lines[number] = untagged(translated)
                if translated.doubtful:
                    doubt()
                if number == last:
                    put("".join(lines))

            self.add(tagged(line), put_line)

    def write(self, translated: Sequence[Segment]) -> bytes:
        """The whole file with these segments, one for each of ``segments``, in their places."""
        for put, segment in zip(self._puts, translated, strict=True):
            put(segment)
        return self._save()


def _translatable(text: str) -> bool:
    """Whether a text has letters; lone surrogates, which JSON can have, are no text."""
    return any(map(str.isalpha, text)) and not re.search("[\ud800-\udfff]", text)


def tagged(string: str) -> Segment:
    """A string with tags as a segment, whose elements are pairs of the start tag and the end tag as they are written.

    A string whose tags do not nest, or that is not HTML at all, is plain text.
    """
    reader = _Tags()
    try:
        reader.feed(string)
        reader.close()
    except AssertionError:  # of html.parser, for some malformed declarations
        pass
    segment = reader.builder.segment()
    # What the parser corrects or leaves out is not markup of ours.
    segment = segment if not reader.names and untagged(segment) == string else Segment(string)
    return replace(segment, keep=tuple(code.span() for code in _CODE.finditer(segment.text)))


def untagged(segment: Segment) -> str:
    """The string of a segment whose elements are pairs of tags."""
    texts = []
    for kind, element, text in walk(segment):
        if kind == "text":
            texts.append(text)
        else:
            assert isinstance(element, tuple)
            texts.append(element[0] if kind == "start" else element[1])
    return "".join(texts)


class _Tags(HTMLParser):
    """Builds a segment of a string with tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.builder = Builder()
        self.names = list[str]()  # of the elements that have not ended

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw = self.get_starttag_text() or ""
        if tag in _VOID:
            self.builder.empty((raw, ""))
            return
        self.names.append(tag)
        self.builder.start((raw, f"</{raw[1 : 1 + len(tag)]}>"), splits=tag != "a")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.builder.empty((self.get_starttag_text() or "", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "v":
            self.builder.empty(("</v>", ""))
        elif self.names and self.names[-1] == tag:
            self.names.pop()
            self.builder.end()

    def handle_data(self, data: str) -> None:
        self.builder.text(data)

    def handle_entityref(self, name: str) -> None:
        self.builder.text(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.builder.text(f"&#{name};")
