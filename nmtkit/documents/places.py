"""Shared by the formats: a document as a list of places with text, inline markup as steps, and plain text (txt)."""

import itertools
import logging
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from typing import Literal, NamedTuple, TypeVar

from nmtkit.documents.segment import Mark, Segment
from nmtkit.documents.text import decoded, encoded
from nmtkit.errors import UserError, counted

log = logging.getLogger(__name__)
T = TypeVar("T")

# Codes in a string, which are copied: times in WebVTT, overrides in SubStation Alpha.
_CODE = re.compile(r"<[0-9][0-9:.]*>|\{\\[^{}]*\}")
# An identifier, such as #fff, img/a.png, en-US and onClick, but not 1st, he/she, e.g. or Wi-Fi.
_IDENTIFIER = re.compile(r"(?=/|.*(?:[_#\\]|[a-zA-Z]\d|\.\w\w|//|[a-z][A-Z])|[a-z]{2,3}-[A-Z])[\w./\\#:-]+", re.ASCII)
_FORMS = re.compile(r"\{\s*[^\s{},]+\s*,\s*(?:plural|select|selectordinal|choice)\s*,")  # choice is Java's
_TAGGED = 20_000  # characters of a string in which tags are recognised
_UNENDED = re.compile(r"<[a-zA-Z/!?][^<>]*(?:<|$)")
MOST = ContextVar[int | None]("MOST", default=None)  # places in a document; a server limits them before it reads one
# Tags of HTML's blocks, which separate paragraphs of a string.
_BLOCKS = re.compile(r"((?:</?(?:blockquote|div|h[1-6]|li|ol|p|table|tbody|td|th|thead|tr|ul)(?:\s[^<>]*)?>)+)", re.I)
# HTML elements without an end tag, and the speaker of WebVTT, whose end tag is optional.
_VOID = {"br", "hr", "img", "v", "wbr"}


class Step(NamedTuple):
    """The start of an element, its end, or text."""

    kind: Literal["start", "end", "text"]
    element: Hashable = None
    text: str = ""


def walk(segment: Segment) -> Iterator[Step]:
    """The steps of a segment in document order. No text is empty, and every element has a start and an end.

    An empty element at the end of another one comes after it. A ``spaced`` one gets the space that the text lacks;
    beside one of ``layout``, the text has no white space.
    """
    done, space, after_layout = 0, "", False  # space: after an empty element
    for kind, mark, before_layout in _edges(segment.marks):
        place = mark.start if kind == "start" else mark.end
        follows_space = not segment.text[max(0, mark.start - 1) : mark.start].strip()
        text = space + segment.text[done:place] + " " * (kind == "start" and mark.spaced and not follows_space)
        done, space = max(done, place), " " * (kind == "end" and mark.spaced and follows_space)
        if text and after_layout:
            text, after_layout = text.lstrip(" \t"), False
        if text := text.rstrip(" \t") if before_layout else text:
            yield Step("text", text=text)
        if kind == "start":
            after_layout = mark.layout or (after_layout and not mark.spaced)
        yield Step(kind, mark.element)
    text = space + segment.text[done:]
    if text := text.lstrip(" \t") if after_layout else text:
        yield Step("text", text=text)


def _edges(marks: Iterable[Mark]) -> Iterator[tuple[Literal["start", "end"], Mark, bool]]:
    """The starts and ends of marks in document order, and whether an element of ``layout`` is there."""
    inside = list[Mark]()
    for mark in marks:
        while inside and inside[-1].end <= mark.start:
            ended = inside.pop()
            yield "end", ended, mark.layout and ended.end == mark.start
        yield "start", mark, mark.layout
        inside.append(mark)
    yield from (("end", mark, False) for mark in reversed(inside))


class Builder:
    """Builds a segment from its steps in document order."""

    def __init__(self) -> None:
        self._texts = list[str]()
        self._length, self._last = 0, ""  # of the text: its length and its last character
        self._after_empty = False
        self._marks = list[Mark]()
        self.inside = list[int]()  # the numbers of the marks that have not ended
        self._keep = list[tuple[int, int]]()
        self._scripts = list[int]()  # the numbers of the marks of superscripts and subscripts

    def text(self, text: str, keep: bool = False) -> None:
        """Add text; ``keep``: it is not translated."""
        if not text:
            return
        if self._after_empty and self._last == text[0] == " ":
            self._marks[-1], text = self._marks[-1]._replace(spaced=True), text[1:]
        if keep and text:
            self._keep.append((self._length, self._length + len(text)))
        self._texts.append(text)
        self._length, self._last = self._length + len(text), text[-1:] or " "
        self._after_empty = False

    def start(self, element: Hashable, splits: bool, script: bool = False) -> None:
        """Start an element; ``script``: it is a superscript or subscript."""
        self._scripts += [len(self._marks)] * script
        self.inside.append(len(self._marks))
        self._marks.append(Mark(self._length, self._length, element, splits))
        self._after_empty = False

    def end(self) -> None:
        """End the element that was started last."""
        number = self.inside.pop()
        self._marks[number] = self._marks[number]._replace(end=self._length)

    def space(self, space: str) -> None:
        """Add white space between words, of which the text has one character."""
        if self._last not in ("", space):
            self.text(space)

    def empty(self, element: Hashable, layout: str = "") -> None:
        """Add an element without text; ``layout``: the white space that it is."""
        self.space(layout)
        self._marks.append(Mark(self._length, self._length, element, splits=False, layout=layout != ""))
        self._after_empty = True

    def segment(self) -> Segment:
        """The segment. A word that goes on after a superscript or subscript of ``is_script`` is copied, such as H2O."""
        text, end, keep = "".join(self._texts), 0, list[tuple[int, int]]()
        for number in self._scripts:
            start, place = self._marks[number][:2]
            if end <= start and text[place : place + 1].isalnum() and is_script(text[start:place]):
                while text[max(0, start - 1) : start].isalnum():
                    start -= 1
                end = place
                while text[end : end + 1].isalnum():
                    end += 1
                self._keep.append((start, end))
        for start, end in sorted(self._keep):
            if keep and start < keep[-1][1]:
                keep[-1] = keep[-1][0], max(end, keep[-1][1])
            else:
                keep.append((start, end))
        return Segment(text, tuple(self._marks), tuple(keep))


def is_script(text: str, after: str = "") -> bool:
    """Whether a superscript or subscript is the number of a note, an exponent or the like, which is copied.

    It is short and has at most one letter. ``after``: the text after it, with which its word must not go on.
    """
    return 0 < len(text.strip()) < 20 and sum(map(str.isalpha, text)) <= 1 and not re.match(r"\S?\w", after)


def paired(kinds: Sequence[str]) -> dict[int, int]:
    """The numbers of matching "opens" and "closes", each with that of its partner."""
    pairs, waiting = dict[int, int](), list[int]()
    for number, kind in enumerate(kinds):
        if kind == "opens":
            waiting.append(number)
        elif kind == "closes" and waiting:
            other = waiting.pop()
            pairs |= {other: number, number: other}
    return pairs


def part(segment: Segment, marks: Iterable[Mark], start: int, end: int) -> Segment:
    """The characters from ``start`` to ``end`` of a segment with ``marks``, which are cut to fit."""

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
        after.append(rest.pop())
    after.reverse()
    return part(segment, before, 0, first), part(segment, rest, first, last), part(segment, after, last, len(text))


def joined(parts: Sequence[Segment]) -> Segment:
    """The concatenation of segments."""
    text, marks, keep = "", list[Mark](), list[tuple[int, int]]()
    for part in parts:
        at = len(text)
        marks += (mark._replace(start=mark.start + at, end=mark.end + at) for mark in part.marks)
        keep += ((start + at, end + at) for start, end in part.keep)
        text += part.text
    return Segment(text, tuple(marks), tuple(keep), any(part.doubtful for part in parts))


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


class TooLarge(UserError):
    """A document has more text than a server reads."""


def check_number(number: int) -> None:
    """Raise TooLarge if a document has more places with text than ``MOST``."""
    most = MOST.get()
    if most is not None and number >= most:
        raise TooLarge(f"has more than {most} paragraphs, which is the limit")


class Places:
    """A ``Document`` of places, each with a segment and a function that puts its translation there.

    ``save`` returns the file with all translations. Text without letters is not translated, nor are white space and
    empty elements at the edges of a text.
    """

    def __init__(self, save: Callable[[], bytes]) -> None:
        self.segments = list[Segment]()
        self._puts = list[Callable[[Segment], None]]()
        self._save = save

    def add(self, segment: Segment, put: Callable[[Segment], None]) -> None:
        """Add a place if it has something to translate."""
        if not _translatable(segment.text):
            return
        check_number(len(self.segments))
        before, inner, after = trimmed(segment)
        self.segments.append(inner)
        self._puts.append(lambda translated: put(joined([before, translated, after])))

    def add_string(self, string: str, put: Callable[[str], None], doubt: Callable[[], None] = lambda: None) -> None:
        """Add a program string: each of its lines and blocks is a segment, in which well-formed tags are markup.

        Lines that are an identifier are left out. ``doubt`` is called for each line with a doubtful translation.
        """
        parts = (_BLOCKS.split(line) if _BLOCKS.search(line) and tagged(line).marks else [line]
                 for line in string.splitlines(keepends=True))  # fmt: skip
        lines = [*itertools.chain.from_iterable(parts)]
        found = ((number, tagged(line)) for number, line in enumerate(lines) if not _BLOCKS.fullmatch(line))
        texts = {number: segment for number, segment in found if _is_prose(segment.text)}
        last = max(texts, default=0)

        def put_line(number: int, translated: Segment) -> None:
            lines[number] = untagged(translated)
            if translated.doubtful:
                doubt()
            if number == last:
                put("".join(lines))

        for number, segment in texts.items():
            self.add(segment, partial(put_line, number))

    def write(self, translated: Sequence[Segment]) -> bytes:
        """The file with these segments, one for each of ``segments``, in their places."""
        for put, segment in zip(self._puts, translated, strict=True):
            put(segment)
        return self._save()


def read_txt(data: bytes) -> Places:
    """Read plain text: each line is a paragraph, in which well-formed tags are markup."""
    whole = [decoded(data)]
    places = Places(lambda: encoded(whole[0], data))
    places.add_string(whole[0], partial(whole.__setitem__, 0))
    return places


def without_forms(strings: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """The strings, each with its place, except ICU messages with plural or select forms; warns of these once.

    A translation needs its language's own forms, which may be more or fewer, and each form would be a sentence by
    itself: ``{n, plural, one {# dog} other {# dogs}}``.
    """
    left = 0
    for string, place in strings:
        if _FORMS.search(string):
            left += 1
        else:
            yield string, place
    if left:
        log.warning(f"{counted(left, 'ICU message')} with plural or select forms left untranslated")


def _is_prose(line: str) -> bool:
    """Whether a line of a program string is to be translated: not a path, colour, locale or other identifier."""
    return _translatable(line) and not _IDENTIFIER.fullmatch(line.strip())


def _translatable(text: str) -> bool:
    """Whether a text has letters and no lone surrogates, which JSON may contain."""
    return any(map(str.isalpha, text)) and not re.search("[\ud800-\udfff]", text)


def tagged(string: str) -> Segment:
    """A string with tags as a segment; an element is the pair of its start tag and end tag as they are written.

    If the tags do not nest or the string is not HTML, all of it is text. The same applies if a tag does not end, or if
    the string is very long, because the parser takes quadratic time.
    """
    if "<" not in string or len(string) > _TAGGED or _UNENDED.search(string):
        return _with_codes(Segment(string))
    reader = _Tags(string)
    with suppress(AssertionError):  # of html.parser, for some malformed declarations
        reader.feed(string)
        reader.close()
    segment = reader.builder.segment()
    # Also if the parser has corrected or left out something.
    return _with_codes(segment if not reader.names and untagged(segment) == string else Segment(string))


def _with_codes(segment: Segment) -> Segment:
    """The segment with its codes marked as text to keep."""
    return replace(segment, keep=tuple(code.span() for code in _CODE.finditer(segment.text)))


def untagged(segment: Segment) -> str:
    """The string of a segment that ``tagged`` made, or of its translation."""
    texts = []
    for kind, element, text in walk(segment):
        if kind == "text":
            texts.append(text)
        else:
            assert isinstance(element, tuple)
            texts.append(element[0] if kind == "start" else element[1])
    return "".join(texts)


class _Tags(HTMLParser):
    """Builds the segment of a string with tags."""

    def __init__(self, string: str) -> None:
        super().__init__(convert_charrefs=False)
        self.builder = Builder()
        self.ends = frozenset(re.findall("</([^<>]*)>", string))
        self.names = list[str]()  # of the elements that have not ended
        self.string, self.starts = string, [0, *(end.end() for end in re.finditer("\n", string))]  # starts: of lines

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw = self.get_starttag_text() or ""
        if raw[1 : 1 + len(tag)] not in self.ends:
            tag = tag.partition(".")[0]  # an end tag of WebVTT is without the classes
        if tag in _VOID:
            self.handle_startendtag(tag, attrs)
            return
        self.names.append(tag)
        self.builder.start((raw, f"</{raw[1 : 1 + len(tag)]}>"), splits=tag != "a")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw, (line, column) = self.get_starttag_text() or "", self.getpos()
        start = self.starts[line - 1] + column
        end = start + len(raw)
        # A line break between words is the white space that they lack.
        joins = tag == "br" and self.string[max(0, start - 1) : start].strip() and self.string[end : end + 1].strip()
        self.builder.empty((raw, ""), layout=" " if joins else "")

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
