"""HTML pages, fragments of them, and XHTML, with lxml's parsers.

``Paragraphs`` does the work for any tree of elements that have HTML's names, as those of EPUB have.
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from html import escape
from itertools import accumulate, compress
from typing import Any, Literal

from lxml import etree, html

from nmtkit.documents.segment import Mark, Segment
from nmtkit.documents.text import guessed
from nmtkit.errors import UserError

Node = Any  # an element, comment or processing instruction of lxml

# The elements of a line of text, and those of them that may be repeated around parts of their words.
_SPLITS = frozenset("b big em font i mark nobr s small span strike strong u".split())
_INLINE = _SPLITS | frozenset(
    "a abbr acronym bdi bdo cite data del dfn ins label output q ruby rb rp rt sub sup".split()
)
# In a line of text, their text is copied as a word of it.
_COPIED = frozenset("code kbd samp tt var".split())
# In a line of text, they are at a place of it; what they have is left alone.
_LEFT = frozenset(
    "applet area audio base br canvas embed iframe img input link map math meta noframes object param picture script "
    "select style svg template textarea time track video wbr".split()
)
_APART = frozenset("pre xmp".split())  # left alone, between lines of text
_VOID = ("source", "track", "wbr")  # have nothing in them, which libxml2 does not know
_HEAD = 1_024  # bytes in which a page declares its encoding (HTML Standard, 13.2.3.2)
_DECLARED = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)")
_SPACE = re.compile("[ \t\n\r\f]+")
_DEEPEST = 2_000  # libxml2 loses what is nested more than 2,048 deep
_NOT_XML = re.compile("[^\t\n\r\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2
_PAGE = re.compile(r"<(?:!doctype|html|head|body|frameset)\b", re.IGNORECASE)


@dataclass
class _Inline:
    """An element of a line of text."""

    node: Node
    text: str | None = None  # if it is written as it is: the text that is copied with it
    first: list[Node] = field(default_factory=list)  # without text, at its start
    last: list[Node] = field(default_factory=list)  # and at its end
    gap: str = ""  # before the last ones
    joined: bool = False  # whether it ends with a line break without the space that the text has behind it


@dataclass
class _Line:
    """Text and inline elements between other elements."""

    parent: Node
    before: Node | None  # the child of the parent after which it stands
    nodes: list[Node]
    inlines: dict[Hashable, _Inline]  # by the numbers that are the elements of marks
    spaced: set[Node]  # those with white space behind them that the text has before them
    lead: str  # white space around it
    trail: str


class Paragraphs:
    """The lines of text in a tree of elements; ``replace`` writes others into the tree."""

    def __init__(self, root: Node) -> None:
        self.segments: list[Segment] = []
        self._lines: list[_Line] = []
        self._with_text, self._with_blocks = set[Node](), set[Node]()
        self._look(root)
        waiting: list[tuple[Node, Node | None, list[Node]] | Node] = [root]  # lines, and elements that have some
        while waiting:
            each = waiting.pop()
            if isinstance(each, tuple):
                self._add(*each)
            elif each is not root and _is_kept(each):
                waiting += _translated_inside(each)
            elif each is root or _name(each) not in _APART:
                waiting += self._parts(each)

    def _look(self, root: Node) -> None:
        """Find the elements that have text to translate in them, and those that have elements of their own lines."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node is not root and (node.tail or "").strip():
                self._above(node.getparent(), self._with_text)
            name = _name(node)
            if name and name not in _LEFT | _APART:
                waiting += node
                if (node.text or "").strip():
                    self._above(node, self._with_text)
            if name and name not in _LEFT | _INLINE | _COPIED and node is not root:
                self._above(node.getparent(), self._with_blocks)

    @staticmethod
    def _above(node: Node | None, found: set[Node]) -> None:
        """Add an element and those around it."""
        while node is not None and node not in found:
            found.add(node)
            node = node.getparent()

    def _is_inline(self, node: Node) -> bool:
        """Whether an element is part of a line of text."""
        name = _name(node)
        return not name or name in _LEFT or (name in _INLINE | _COPIED and node not in self._with_blocks)

    def _parts(self, parent: Node) -> list[tuple[Node, Node | None, list[Node]] | Node]:
        """An element's lines and the elements between them, the first of them last."""
        before, nodes = None, list[Node]()
        parts: list[tuple[Node, Node | None, list[Node]] | Node] = []
        for child in parent:
            if self._is_inline(child):
                nodes.append(child)
            else:
                parts += [(parent, before, nodes), child]
                before, nodes = child, []
        return [*parts, (parent, before, nodes)][::-1]

    def _add(self, parent: Node, before: Node | None, nodes: list[Node]) -> None:
        """Add a line as a segment, if it has text."""
        start = (parent.text if before is None else before.tail) or ""
        while nodes and not start.strip() and nodes[0] not in self._with_text:
            before, start = nodes[0], nodes[0].tail or ""
            nodes = nodes[1:]
        while nodes and not (nodes[-1].tail or "").strip() and nodes[-1] not in self._with_text:
            nodes = nodes[:-1]
        if not start.strip() and not any(
            node in self._with_text or (node.tail and node.tail.strip()) for node in nodes
        ):
            return
        line = _Reader(self._with_text, start, nodes)
        end = (nodes[-1].tail or "") if nodes else start
        lead, trail = start[: len(start) - len(start.lstrip(_BLANK))], end[len(end.rstrip(_BLANK)) :]
        # White space in an element that begins or ends the line separates it from a picture or a button beside it.
        lead, trail = lead or " " * line.begins_blank, trail or " " * line.ends_blank
        self.segments.append(line.segment())
        self._lines.append(_Line(parent, before, nodes, line.inlines, line.spaced, lead, trail))

    def replace(self, segments: Sequence[Segment]) -> None:
        """Write segments, one for each of ``segments``, in their places; a second time is an error."""
        for line, segment in zip(self._lines, segments, strict=True):
            _write(line, segment)


_BLANK = " \t\n\r\f"


def _name(node: Node) -> str:
    """An element's name without its namespace; none for a comment or a processing instruction."""
    return node.tag.rpartition("}")[2].lower() if isinstance(node.tag, str) else ""


def _is_kept(node: Node) -> bool:
    """Whether an element's text is copied."""
    if not _name(node):
        return False
    return _name(node) in _COPIED or _says(node) == "no" or "notranslate" in node.get("class", "").split()


def _says(node: Node) -> str:
    """The attribute ``translate`` of an element."""
    return (node.get("translate") or "").strip().lower()


def _translated_inside(kept: Node) -> list[Node]:
    """The outermost elements in one that is copied that say that they are to be translated, the first of them last."""
    found, waiting = list[Node](), list[Node](kept)
    while waiting:
        node = waiting.pop()
        if _says(node) == "yes":
            found.append(node)
        else:
            waiting += node
    return found


class _Reader:
    """Makes a segment of a line: white space is one space, as a browser shows it."""

    def __init__(self, with_text: set[Node], start: str, nodes: list[Node]) -> None:
        self.inlines = dict[Hashable, _Inline]()
        self._with_text = with_text
        self._text, self._keep = "", list[tuple[int, int]]()
        self.spaced = set[Node]()
        self._behind: Node | None = None  # an element without text at its end, behind which the next text stands
        self.begins_blank = False  # whether there is white space at the beginning
        self._marks: list[Mark | None] = []
        self._write(start)
        # What is still to be read: nodes, texts, and the numbers of elements that end.
        waiting: list[Node | str | int] = _reversed(nodes)
        opened = dict[int, int]()
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                self._write(each)
            elif isinstance(each, int):
                inline = self.inlines[each]
                inline.gap = " " if inline.last and self._text.endswith(" ") else ""
                self._mark(each, opened[each], _name(inline.node) in _SPLITS and inline.node.get("id") is None)
                self._behind = inline.node if inline.gap else self._behind
                inline.joined = self._break(inline.last, inline.node.tail)
            elif each not in with_text or not _name(each) or _name(each) in _LEFT or _is_kept(each):
                self._whole(each)
            else:
                number, inside = len(self.inlines), list(each)
                inline = self.inlines[number] = _Inline(each)
                self._marks.append(None)
                waiting.append(number)
                if not (each.text and each.text.strip(_BLANK)):
                    while inside and self._is_bare(inside[0]):
                        inline.first.append(inside.pop(0))
                        if (inline.first[-1].tail or "").strip(_BLANK):
                            break
                while inside and self._is_bare(inside[-1]) and not (inside[-1].tail or "").strip(_BLANK):
                    inline.last.insert(0, inside.pop())
                self._behind = inline.first[-1] if inline.first else self._behind
                self._break(inline.first, None)
                opened[number] = len(self._text)
                waiting += _reversed(inside)
                start = inline.first[-1].tail if inline.first else each.text
                waiting.append(start or "")

    def _break(self, nodes: Sequence[Node], tail: str | None) -> bool:
        """Write a space after nodes if one is a line break; return whether there is none before or behind them."""
        if not any(_name(node) == "br" for node in nodes):
            return False
        if not self._text or self._text.endswith(" "):
            return False
        self._text, self._behind = f"{self._text} ", None
        return (tail or "x")[0] not in _BLANK

    def _is_bare(self, node: Node) -> bool:
        """Whether an element has no text."""
        return node not in self._with_text

    @property
    def ends_blank(self) -> bool:
        """Whether there is white space at the end."""
        return self._text.endswith(" ")

    def _write(self, text: str) -> None:
        text = _SPACE.sub(" ", text)
        if not text:
            return
        # White space on both sides of an element without text is one space of the text, which stands before it.
        if text.startswith(" ") and (not self._text or self._text.endswith(" ")):
            if self._behind is not None:
                self.spaced.add(self._behind)
            elif not self._text:
                self.begins_blank = True
        self._behind = None
        self._text += text.lstrip(" ") if not self._text or self._text.endswith(" ") else text

    def _mark(self, number: int, start: int, splits: bool) -> None:
        self._marks[number] = Mark(start, len(self._text), number, splits)

    def _whole(self, node: Node) -> None:
        """Read an element that is written as it is."""
        start, text = len(self._text), ""
        if node in self._with_text and _is_kept(node) and _name(node) not in _LEFT:
            self._write(etree.tostring(node, encoding="unicode", method="text", with_tail=False))
            text = self._text[start:]
            self._keep.append((start, len(self._text)))
        self._marks.append(None)
        self._mark(len(self.inlines), start, False)
        inline, self._behind = _Inline(node, text), node
        self.inlines[len(self.inlines)] = inline
        inline.joined = self._break([node], node.tail)

    def segment(self) -> Segment:
        """The segment, without white space at its end."""
        text = self._text.rstrip(" ")
        marks = [mark for mark in self._marks if mark is not None]
        most = len(text)
        ended = [mark._replace(start=min(mark.start, most), end=min(mark.end, most)) for mark in marks]
        return Segment(text, tuple(ended), tuple((start, min(end, most)) for start, end in self._keep))


def _reversed(nodes: Sequence[Node]) -> list[Node | str | int]:
    """Nodes and the texts behind them, the first of them last."""
    return [each for node in reversed(nodes) for each in (node.tail or "", node)]


def _append(node: Node, text: str) -> None:
    """Add text at the end of an element."""
    last = _last(node)
    if last is None:
        node.text = (node.text or "") + text
    else:
        last.tail = (last.tail or "") + text


def _last(node: Node) -> Node | None:
    """The last child of an element, whose children lxml would count each time."""
    return next(node.iterchildren(reversed=True), None)


def _write(line: _Line, segment: Segment) -> None:
    """Put a segment into the place of a line."""
    segment = _copied_once(replace(segment, text=_NOT_XML.sub(" ", segment.text)), line.inlines)
    text = segment.text
    root = line.parent.makeelement("line")
    left = Counter(mark.element for mark in segment.marks)
    path: list[tuple[Node, Mark]] = [(root, Mark(0, len(text) + 1, None, False))]
    place, empty = 0, dict[Hashable, Node]()
    for mark in [*segment.marks, Mark(len(text) + 1, len(text) + 1, None, False)]:
        while len(path) > 1 and not (mark.start < path[-1][1].end and mark.end <= path[-1][1].end):
            node, closed = path.pop()
            _append(node, text[place : closed.end])
            place = max(place, closed.end)
            left[closed.element] -= 1
            inline = line.inlines[closed.element]
            if not left[closed.element]:
                last = _last(node)
                if not ((node.text if last is None else last.tail) or "").endswith(" "):
                    _append(node, inline.gap)
                node.extend(inline.last)
                node.tail = " " if inline.node in line.spaced else None
                place += inline.joined and text[place : place + 1] == " "
        node = path[-1][0]
        _append(node, text[place : mark.start])
        place = max(place, mark.start)
        if mark.element is None:
            break
        inline = line.inlines[mark.element]
        element = inline.node
        if inline.text is not None:  # written as it was, with its text
            node.append(element)
            element.tail = " " if element in line.spaced else None
            if text[mark.start : mark.end].strip() == inline.text.strip():
                place = mark.end
            place += inline.joined and text[place : place + 1] == " "
            continue
        if mark.element in empty:
            element = deepcopy(empty[mark.element])
        else:
            lead = element.text
            element.text = element.tail = None
            element[:] = []
            empty[mark.element] = deepcopy(element)
            if inline.first:
                element.text = lead
                element.extend(inline.first)
                element[-1].tail = " " if element[-1] in line.spaced else None
        node.append(element)
        path.append((element, mark))
    _replace(line, root)


def _copied_once(segment: Segment, inlines: dict[Hashable, _Inline]) -> Segment:
    """The segment without the text of copied elements that do not stand around it, and are written with it."""
    text, apart, seen = segment.text, list[str](), dict[str, int]()
    free, left = (bytearray(b"\1") * len(text) for _ in range(2))  # characters: in none of them; to be written
    for mark in segment.marks:
        copied = (inlines[mark.element].text or "").strip()
        if copied and copied == text[mark.start : mark.end].strip():
            free[mark.start : mark.end] = bytes(mark.end - mark.start)
        elif copied:
            apart.append(copied)
    for copied in sorted(apart, key=len, reverse=True):
        start = text.find(copied, seen.get(copied, 0))
        while start >= 0 and 0 in free[start : start + len(copied)]:
            start = text.find(copied, start + 1)
        end = seen[copied] = start + len(copied) if start >= 0 else len(text)
        if start >= 0:
            free[start:end] = left[start:end] = bytes(len(copied))
            if text[end : end + 1] == " " and text[start - 1 : start] in ("", " "):
                left[end] = 0
    places = [*accumulate(left, initial=0)]
    marks = (mark._replace(start=places[mark.start], end=places[mark.end]) for mark in segment.marks)
    return replace(segment, text="".join(compress(text, left)), marks=tuple(marks))


def _replace(line: _Line, root: Node) -> None:
    """Put the content of an element in the place of a line."""
    for node in line.nodes:
        if node.getparent() is line.parent:
            line.parent.remove(node)
    _append(root, line.trail)
    text = line.lead + (root.text or "")
    if line.before is None:
        line.parent.text = text
        index = 0
    else:
        line.before.tail = text
        index = line.parent.index(line.before) + 1
    line.parent[index:index] = list(root)


class Html:
    """An HTML page, or a fragment of one, which stays a fragment; XHTML if it begins as XML does.

    A page is written in its own encoding: the declared one, or else ASCII if it has nothing else, and UTF-8. Raises
    UserError for XML that is not well-formed, and for elements that are nested more deeply than the parser follows,
    whose text would be lost.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.segments: Sequence[Segment] = self._parsed()[1].segments

    def _parsed(self) -> tuple["_Page", Paragraphs]:
        page = _page(self._content)
        return page, Paragraphs(page.root)

    def write(self, translated: Sequence[Segment]) -> bytes:
        """The page with these segments in their places."""
        page, paragraphs = self._parsed()
        paragraphs.replace(translated)
        return page.written()


@dataclass
class _Page:
    """A parsed page or fragment."""

    root: Node
    kind: Literal["page", "fragment", "xml"]
    encoding: str

    def written(self) -> bytes:
        if self.kind == "xml":
            tree = self.root.getroottree()
            return bytes(etree.tostring(tree, encoding=self.encoding, xml_declaration=bool(tree.docinfo.xml_version)))
        if self.kind == "fragment":
            inside = [escape(self.root.text or "", quote=False)]
            inside += [etree.tostring(node, encoding="unicode", method="html") for node in self.root]
            return "".join(inside).encode()
        text = etree.tostring(self.root.getroottree(), encoding="unicode", method="html")
        return str(text).encode(self.encoding, "xmlcharrefreplace")


def _page(content: bytes) -> _Page:
    """Parse a page. Raises UserError as ``Html`` does."""
    if content.lstrip().startswith(b"<?xml"):
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        try:
            root = etree.fromstring(content, parser)
        except etree.XMLSyntaxError as error:
            raise UserError(f"not well-formed XML: {error}") from None
        return _Page(root, "xml", root.getroottree().docinfo.encoding or "UTF-8")
    # An encoding that the page declares is used if it can decode the page.
    declared = (name.decode("ascii") for name in _DECLARED.findall(content[:_HEAD]))
    text, encoding = guessed(content, *declared, "ascii", "utf-8", otherwise="windows-1252")
    text = _NOT_XML.sub(" ", text)
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, default_doctype=False)
    is_page = _PAGE.search(text) is not None
    parser.feed((text if is_page else f"<html><body>{text}").encode("utf-8", "replace"))
    root = parser.close()
    if root is None:
        raise UserError("has no elements")
    for node in [*root.iter(*_VOID)]:
        _empty(node)
    if _depth(root) > _DEEPEST:
        raise UserError(f"elements are nested more than {_DEEPEST} deep; simplify the page")
    if is_page:
        return _Page(root, "page", encoding)
    body = root.find("body")
    _append(body, body.tail or "")
    body.tail = None
    body.extend(root[root.index(body) + 1 :])  # what is behind a stray end tag
    return _Page(body, "fragment", "utf-8")


def _empty(node: Node) -> None:
    """Put what is in an element behind it."""
    parent, index = node.getparent(), node.getparent().index(node) + 1
    inside, text, tail = [*node], node.text or "", node.tail or ""
    node.text, node.tail = None, text
    parent[index:index] = inside
    last = inside[-1] if inside else node
    last.tail = (last.tail or "") + tail


def _depth(root: Node) -> int:
    """How deeply elements are nested."""
    deepest = depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        deepest = max(deepest, depth)
    return deepest
