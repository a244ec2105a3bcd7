"""HTML pages, HTML fragments and XHTML, parsed by lxml.

``Paragraphs`` does the work for any tree whose elements have the names of HTML, such as a chapter of EPUB.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from html import escape
from itertools import accumulate, compress, islice
from typing import Any

from lxml import etree, html

from nmtkit.documents.archive import Xml
from nmtkit.documents.markup import NOT_XML, append_text, last_child, local_name
from nmtkit.documents.places import Builder, check_number, is_script, part, walk
from nmtkit.documents.segment import Segment
from nmtkit.documents.text import byte_order_mark, guessed, line_end, space_between
from nmtkit.errors import UserError
from nmtkit.lines import XML_LANG
from nmtkit.text.scripts import right_to_left

Node = Any  # an element, comment or processing instruction of lxml
Run = tuple[Node, Node | None, list[Node]]  # inline nodes between blocks: parent, child before, nodes

# Inline elements; those in _SPLITS may be repeated around several parts of their words.
_SPLITS = frozenset("b big em font i mark nobr s small span strike strong u".split())
_INLINE = _SPLITS | frozenset("a abbr acronym bdi bdo cite data del dfn ins label output q ruby rb sub sup".split())
_SCRIPTS = ("sub", "sup")
_COPIED = frozenset("code kbd samp tt var".split())  # inline elements whose text is copied
# Inline elements whose content is neither translated nor part of the text.
_LEFT = frozenset(
    "applet area audio base br canvas embed iframe img input link map math meta noframes object param picture rp rt "
    "rtc script select style svg template textarea time track video wbr".split()
)
_APART = frozenset("pre xmp".split())  # blocks that are not translated
_VOID = ("source", "track", "wbr")  # elements without content that libxml2 does not know as such
_NOTHING = "\ufdd0"  # their content while they are written
# An end tag without a start tag, perhaps, between words. libxml2 leaves it out, but browsers break the line.
_STRAY = re.compile(r"(?<=[^\s>])</(?:p|br)\s*>(?=\w)", re.IGNORECASE)
_HEAD = 1_024  # bytes in which a page declares its encoding (HTML Standard, 13.2.3.2)
_DECLARED = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)")
_LANGUAGE = ("lang", "xml:lang", XML_LANG)  # in HTML the second, in XML the third
_TYPE = "{http://www.idpf.org/2007/ops}type"  # of EPUB
_BLANK = " \t\n\r\f"
_SPACE = re.compile(f"[{_BLANK}]+")
_DEEPEST = 2_000  # libxml2 drops elements nested more than 2,048 deep
_PAGE = re.compile(r"<(?:!doctype|html|head|body|frameset)\b", re.IGNORECASE)


class Paragraphs:
    """The lines of text in a tree of elements; ``replace`` writes their translations into the tree."""

    def __init__(self, root: Node) -> None:
        self._lines = list[_Line]()
        self._with_text, self._with_blocks = set[Node](), set[Node]()
        self._look(root)
        waiting: list[Run | Node] = [root]
        while waiting:
            each = waiting.pop()
            if isinstance(each, tuple):
                self._add(*each)
            elif each is not root and _is_kept(each):
                waiting += reversed(_translated_inside(each))
            elif each is root or _name(each) not in _APART:
                waiting += reversed(self._parts(each))
        self.segments = [line.segment for line in self._lines]

    def _look(self, root: Node) -> None:
        """Find the elements that contain text to translate, and those that contain blocks."""
        nodes = [root]
        for node in nodes:  # which grows meanwhile
            if (name := _name(node)) and name not in _LEFT | _APART and not _is_script(node):
                nodes += node
                if (node.text or "").strip():
                    self._with_text.add(node)
        for node in reversed(nodes[1:]):  # elements come after all that is in them
            parent, name = node.getparent(), _name(node)
            if node in self._with_text or (node.tail or "").strip():
                self._with_text.add(parent)
            if node in self._with_blocks or (name and name not in _LEFT | _INLINE | _COPIED):
                self._with_blocks.add(parent)

    def _is_inline(self, node: Node) -> bool:
        """Whether a node is part of a line of text."""
        name = _name(node)
        return not name or name in _LEFT or (name in _INLINE | _COPIED and node not in self._with_blocks)

    def _parts(self, parent: Node) -> list[Run | Node]:
        """The blocks of an element and the inline runs between them."""
        before, nodes = None, list[Node]()
        parts: list[Run | Node] = []
        for child in parent:
            if self._is_inline(child):
                nodes.append(child)
            else:
                parts += [(parent, before, nodes), child]
                before, nodes = child, []
        return [*parts, (parent, before, nodes)]

    def _add(self, parent: Node, before: Node | None, nodes: list[Node]) -> None:
        """Add an inline run as a line, without the nodes at its edges that have no text."""
        start = (parent.text if before is None else before.tail) or ""
        while nodes and not (nodes[-1].tail or "").strip() and nodes[-1] not in self._with_text:
            nodes.pop()
        first = 0
        while first < len(nodes) and not start.strip() and nodes[first] not in self._with_text:
            before, start = nodes[first], nodes[first].tail or ""
            first += 1
        if start.strip() or first < len(nodes):
            check_number(len(self._lines))
            self._lines.append(_Line(parent, before, start, nodes[first:], self._with_text))

    def replace(self, segments: Sequence[Segment]) -> None:
        """Write segments, one for each of ``segments``, into the tree; this works only once."""
        for line, segment in zip(self._lines, segments, strict=True):
            line.write(segment)


def set_language(root: Node, language: str) -> None:
    """Change the language and the writing direction that a page declares to those of ``language``.

    A whole page in a language that is written from right to left gets a direction even if it had none.
    """
    for name in root.attrib:
        if name in _LANGUAGE:
            root.set(name, language.replace("_", "-"))
    if right_to_left(language) and (_name(root) == "html" or "dir" in root.attrib):
        root.set("dir", "rtl")
    elif "dir" in root.attrib:
        root.set("dir", "ltr")


def _name(node: Node) -> str:
    """The name of an element; "" for a comment or processing instruction."""
    return local_name(node).lower()


def _is_kept(node: Node) -> bool:
    """Whether the text of a node is copied."""
    return _name(node) in _COPIED or _says(node) == "no" or "notranslate" in (node.get("class") or "").split()


def _is_space(node: Node) -> bool:
    """Whether a node without text is a line break, or an inline element around one or around white space."""
    name = _name(node)
    if name == "br":
        return True
    return name in _INLINE | _COPIED and ("".join(node.itertext()).isspace() or node.find(".//{*}br") is not None)


def _is_script(node: Node) -> bool:
    """Whether an element is the number of a note, an exponent or the like, which is copied as it is."""
    if _name(node) not in _SCRIPTS and "noteref" not in (node.get(_TYPE) or node.get("role") or ""):
        return False
    return is_script("".join(islice(node.itertext(), 20)), node.tail or "")


def _says(node: Node) -> str:
    """The attribute ``translate`` of an element."""
    return (node.get("translate") or "").strip().lower()


def _translated_inside(kept: Node) -> list[Node]:
    """The outermost elements within a copied one that are marked to be translated."""
    found, waiting = list[Node](), [*reversed(kept)]
    while waiting:
        node = waiting.pop()
        if _says(node) == "yes":
            found.append(node)
        else:
            waiting += reversed(node)
    return found


@dataclass
class _Inline:
    node: Node
    text: str | None = None  # of an element that is copied: its text
    first: list[Node] = field(default_factory=list)  # children without text at its start
    last: list[Node] = field(default_factory=list)  # and at its end
    gap: str = ""  # between the text and ``last``
    breaks: bool = False  # whether it ends with a line break that is a space in the text only


class _Line:
    """An inline run as a segment, whose marks' elements are numbers. White space is collapsed, as in browsers.

    start: the text before the nodes. with_text: all elements that contain text.
    """

    def __init__(self, parent: Node, before: Node | None, start: str, nodes: list[Node], with_text: set[Node]) -> None:
        self._parent, self._before, self._with_text = parent, before, with_text
        self._builder, self._end = Builder(), ""  # the last character of the text
        self._inlines = dict[Hashable, _Inline]()  # by number
        self._spaced = set[Node]()  # nodes whose space in the text is before them, but after them in the page
        self._behind: Node | None = None  # the node without text at the end of the text, if any
        self._begins_blank = False  # whether white space before the first word was left out
        end = (nodes[-1].tail or "") if nodes else start
        waiting: list[Node | str | _Inline] = [*_reversed(nodes), start]  # nodes, texts, and elements that end
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                self._write(each)
            elif isinstance(each, _Inline):
                self._close(each)
            elif each not in with_text or not _name(each) or _name(each) in _LEFT or _is_kept(each):
                self._copy(each)
            else:
                waiting += self._open(each)
        self.segment = self._builder.segment()
        if self._end == " ":
            self.segment = part(self.segment, self.segment.marks, 0, len(self.segment.text) - 1)
        # White space in an element at the edge of the line separates the text from an image or button beside it.
        self._lead = start[: len(start) - len(start.lstrip(_BLANK))] or " " * self._begins_blank
        self._trail = end[len(end.rstrip(_BLANK)) :] or " " * (self._end == " ")

    def _write(self, text: str, keep: bool = False) -> str:
        """Add text; returns it with its white space collapsed."""
        text = _SPACE.sub(_collapsed, text)
        if not text:
            return ""
        # Of the white space on both sides of a node without text, the text has one space, before the node.
        if text.startswith(" ") and self._end in ("", " "):
            text = text[1:]
            if self._behind is not None:
                self._spaced.add(self._behind)
            elif not self._end:
                self._begins_blank = True
        self._behind, self._end = None, text[-1:] or self._end
        self._builder.text(text, keep)
        return text

    def _open(self, node: Node) -> list[Node | str | _Inline]:
        """Start an element; returns its end and its content, in reverse order."""
        number, inside = len(self._inlines), deque(node)
        inline = self._inlines[number] = _Inline(node)
        if not (node.text or "").strip(_BLANK):
            while inside and inside[0] not in self._with_text:
                inline.first.append(inside.popleft())
                if (inline.first[-1].tail or "").strip(_BLANK):
                    break
        while inside and inside[-1] not in self._with_text and not (inside[-1].tail or "").strip(_BLANK):
            inline.last.append(inside.pop())
        inline.last.reverse()
        start = node.text
        if inline.first:
            self._behind, start = inline.first[-1], inline.first[-1].tail
            self._break(inline.first, None)
        splits = _name(node) in _SPLITS and node.get("id") is None
        self._builder.start(number, splits, script=_name(node) in _SCRIPTS)
        return [inline, *_reversed(inside), start or ""]

    def _close(self, inline: _Inline) -> None:
        self._builder.end()
        if inline.last and self._end == " ":
            inline.gap, self._behind = " ", inline.node
        inline.breaks = self._break(inline.last, inline.node.tail)

    def _copy(self, node: Node) -> None:
        """Add a node that is written unchanged, with its text if that is to be copied."""
        number, text = len(self._inlines), ""
        self._builder.start(number, splits=False)
        if node in self._with_text and _is_kept(node) and _name(node) not in _LEFT:
            text = self._write(etree.tostring(node, encoding="unicode", method="text", with_tail=False), keep=True)
        self._builder.end()
        self._behind = node
        self._inlines[number] = _Inline(node, text, breaks=self._break([node], node.tail))

    def _break(self, nodes: Sequence[Node], tail: str | None) -> bool:
        """Add a space if one of ``nodes`` is white space; returns whether the page has none beside them."""
        if self._end in ("", " ") or not any(node not in self._with_text and _is_space(node) for node in nodes):
            return False
        self._builder.text(" ")
        self._end, self._behind = " ", None
        return (tail or "x")[0] not in _BLANK

    def write(self, segment: Segment) -> None:
        """Put a segment in the place of the line."""
        segment = _copied_once(replace(segment, text=NOT_XML.sub(" ", segment.text)), self._inlines)
        root = self._parent.makeelement("line")
        left = Counter(mark.element for mark in segment.marks)
        inside, empty = [root], dict[Hashable, Node]()
        copied: str | None = None  # the text of the copied element around the place
        breaks = False  # whether the page has a line break here in place of the text's space
        for kind, number, text in walk(segment):
            node = inside[-1]
            if kind == "text":
                if text.strip() != copied:
                    append_text(node, text[breaks and text[0] == " " :])
                    breaks = False
                continue
            inline = self._inlines[number]
            element = inline.node
            if inline.text is not None:  # written as it was, with its text
                copied = inline.text.strip() if kind == "start" else None
                if kind == "start":
                    node.append(element)
                    element.tail = " " if element in self._spaced else None
                    breaks |= inline.breaks
            elif kind == "start":
                if number in empty:
                    element = deepcopy(empty[number])
                else:
                    lead = element.text
                    element.text = element.tail = None
                    element[:] = []
                    empty[number] = deepcopy(element)
                    if inline.first:
                        element.text = lead
                        element.extend(inline.first)
                        element[-1].tail = " " if element[-1] in self._spaced else None
                node.append(element)
                inside.append(element)
            else:
                inside.pop()
                left[number] -= 1
                if not left[number]:
                    last = last_child(node)
                    if not ((node.text if last is None else last.tail) or "").endswith(" "):
                        append_text(node, inline.gap)
                    node.extend(inline.last)
                    node.tail = " " if element in self._spaced else None
                    breaks |= inline.breaks
        self._insert(root)

    def _insert(self, root: Node) -> None:
        """Put the content of an element in the place of the line."""
        append_text(root, self._trail)
        text = self._lead + (root.text or "")
        if self._before is None:
            self._parent.text = text
            self._parent[:0] = list(root)
        else:
            _put_after(self._before, text, list(root))


def _collapsed(space: re.Match[str]) -> str:
    """White space as browsers show it; as CSS permits, line breaks between Chinese or Japanese characters vanish."""
    text, start, end = space.string, *space.span()
    return space_between(text[max(0, start - 1) : start], text[end : end + 1]) if "\n" in space[0] else " "


def _reversed(nodes: Sequence[Node]) -> list[Node | str]:
    """Nodes and the texts after them, in reverse."""
    return [each for node in reversed(nodes) for each in (node.tail or "", node)]


def _put_after(node: Node, text: str, nodes: Sequence[Node]) -> None:
    """Put a text and nodes in the place of the text after a node; an index would take longer, because lxml counts."""
    node.tail = None
    for each in reversed(nodes):
        node.addnext(each)
    node.tail = text


def _copied_once(segment: Segment, inlines: dict[Hashable, _Inline]) -> Segment:
    """The segment without copied elements' text outside their marks, because each is written with its own text."""
    text, apart, seen = segment.text, list[str](), dict[str, int]()
    free, left = (bytearray(b"\1") * len(text) for _ in range(2))  # 1 in free: not a copied text; 1 in left: is kept
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


class Html:
    """An HTML page or fragment, or XHTML if it begins with an XML declaration. A fragment is written as one.

    A page is written in its own encoding: that of its byte order mark, the declared one or else ASCII, UTF-8 or
    Windows-1252. A fragment without a mark and a declaration is written in UTF-8. language: that of the translation.
    Raises UserError if XHTML is not well-formed or elements are nested so deeply that the parser would lose text.
    """

    def __init__(self, content: bytes, language: str) -> None:
        self._content, self._language = content, language
        self.segments = Paragraphs(_parsed(content)[0]).segments

    def write(self, translated: Sequence[Segment]) -> bytes:
        """The page with these segments in their places."""
        root, save = _parsed(self._content)  # again, because a page may be written several times
        Paragraphs(root).replace(translated)
        set_language(root, self._language)
        return save()


def _parsed(content: bytes) -> tuple[Node, Callable[[], bytes]]:
    """The root of a page or fragment, and a function that writes it. Raises UserError as ``Html`` does."""
    mark, otherwise = byte_order_mark(content, "windows-1252")
    # A declared encoding is used if it can decode the page. A declaration in ASCII is not in UTF-16, whatever it says.
    names = (name.decode("ascii").lower() for name in _DECLARED.findall(content[:_HEAD]))
    declared = ["utf-8" if name.startswith("utf") else name for name in names]
    tried = () if mark else (*declared, "ascii", "utf-8")
    text, encoding = guessed(content[len(mark) :], *tried, otherwise=otherwise)
    if text.lstrip().startswith("<?xml"):
        xml = Xml(content)
        return xml.tree.getroot(), xml.write
    end = line_end(text)
    text = _STRAY.sub(r"\g<0> ", NOT_XML.sub(" ", text).replace(end, "\n"))
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, default_doctype=False)
    is_page = _PAGE.search(text) is not None
    parser.feed((text if is_page else f"<html><body>{text}").encode("utf-8", "replace"))
    root = parser.close()
    if root is None:
        raise UserError("has no elements")
    for node in [*root.iter(*_VOID)]:
        _empty(node)
    steps = (1 if event == "start" else -1 for event, _ in etree.iterwalk(root, events=("start", "end")))
    if max(accumulate(steps)) > _DEEPEST:
        raise UserError(f"has elements nested more than {_DEEPEST} deep; simplify the page")
    body = root
    if not is_page:
        body = root.find("body")
        append_text(body, body.tail or "")
        body.tail = None
        body.extend(root[root.index(body) + 1 :])  # what follows a stray end tag

    def save() -> bytes:
        if is_page:
            written, own = _written(root.getroottree()) + "\n" * text.endswith("\n"), encoding
        else:
            written = "".join([escape(body.text or "", quote=False), *map(_written, body)])
            own = encoding if mark or declared else "utf-8"
        return mark + written.replace("\n", end).encode(own, "xmlcharrefreplace")

    return body, save


def _written(tree: Node) -> str:
    """The HTML of an element or a whole page."""
    for node in tree.iter(*_VOID):
        node.text = _NOTHING
    return re.sub(f"{_NOTHING}</\\w+>", "", etree.tostring(tree, encoding="unicode", method="html"))


def _empty(node: Node) -> None:
    """Move the content of an element to the place after it."""
    inside, text, tail = [*node], node.text or "", node.tail or ""
    node.text = None
    _put_after(node, text, inside)
    last = inside[-1] if inside else node
    last.tail = (last.tail or "") + tail
