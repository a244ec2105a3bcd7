"""Conversion between an XML element with inline markup and a segment, for OpenDocument, XLIFF and TMX."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from lxml import etree

from nmtkit.documents.places import Builder, paired, walk
from nmtkit.documents.segment import Segment

# The role of an inline element: "whole" and "splits" are markup of words, which must stay one element or may be
# repeated around each part of them; "script" is a superscript or subscript that splits; "kept" is written as it is; so
# is "layout", which is white space between words; "dropped" is left out; "opens" and "closes" come before and after
# words.
Role = Literal["whole", "splits", "script", "kept", "layout", "dropped", "opens", "closes"]
_AROUND = ("whole", "splits", "script")  # an element around words or, if there are none, around white space

NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # forbidden characters (XML 1.0, 2.2)
SPACE = re.compile("[ \t\r\n]+")
XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class Code(NamedTuple):
    """Elements that are copied: before words and after them, such as the start and the end of code in XLIFF."""

    before: tuple[etree._Element, ...]
    after: tuple[etree._Element, ...] = ()


def local_name(node: etree._Element) -> str:
    """The name of an element without its namespace; "" for a comment or processing instruction."""
    tag = node.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def alone(element: etree._Element) -> etree._Element:
    """The element, without the text that follows it."""
    element.tail = None
    return element


def last_child(element: etree._Element) -> etree._Element | None:
    """The last child of an element; ``element[-1]`` would take longer, because lxml counts the children."""
    return next(element.iterchildren(reversed=True), None)


def append_text(element: etree._Element, text: str) -> None:
    """Add text at the end of an element."""
    last = last_child(element)
    if last is None:
        element.text = (element.text or "") + text
    else:
        last.tail = (last.tail or "") + text


def read_markup(parent: etree._Element, role: Callable[[etree._Element], Role], collapse: bool) -> Segment:
    """The content of an element; ``collapse``: white space of any length becomes one space."""
    builder = Builder()

    def add(text: str | None, keep: bool) -> None:
        builder.text(SPACE.sub(" ", text or "") if collapse else text or "", keep)

    def read(element: etree._Element, keep: bool) -> None:
        add(element.text, keep)
        children = [(child, role(child) if isinstance(child.tag, str) else "kept") for child in element]
        pairs = paired([kind for _, kind in children])
        for number, (child, kind) in enumerate(children):
            if number in pairs and kind == "opens":
                builder.start(Code((child,), (children[pairs[number]][0],)), splits=False)
            elif number in pairs:
                builder.end()
            elif kind in _AROUND and "".join(child.itertext()).strip():
                builder.start(child, splits=kind != "whole", script=kind == "script")
                read(child, _is_copied(child, keep))
                builder.end()
            elif kind != "dropped":
                blank = "".join(child.itertext()) if kind in _AROUND else ""
                inside = child.iter("*") if kind in (*_AROUND, "layout") else ()
                layouts = [local_name(each) for each in inside if role(each) == "layout"]
                builder.empty(Code((child,)), "\t" if "tab" in layouts else " " if layouts or blank else "")
            add(child.tail, keep)

    read(parent, keep=False)
    return builder.segment()


def _is_copied(element: etree._Element, outside: bool) -> bool:
    """Whether the text of an inline element of XLIFF is copied; ``outside``: that around it is."""
    said = "no" if element.get("mtype") == "protected" else element.get("translate")
    return said == "no" or (outside and said != "yes")


def write_markup(parent: etree._Element, segment: Segment) -> None:
    """Replace the content of an element; its attributes stay.

    An element without text that stood at the end of another one, and is after it in the segment, is again in it.
    """
    parent[:], parent.text = [], None
    inside = [parent]
    ended = dict[etree._Element, etree._Element]()  # since the last text: elements and their copies
    for kind, element, text in walk(segment):
        last = inside[-1]
        if kind == "text":
            append_text(last, NOT_XML.sub("", text))
            ended.clear()
        elif isinstance(element, Code):
            if kind == "start":
                ended.get(element.before[0].getparent(), last).extend(map(alone, element.before))
            else:
                last.extend(map(alone, element.after))
        elif kind == "end":
            ended[element] = inside.pop()
        else:
            assert isinstance(element, etree._Element)
            inside.append(etree.SubElement(last, element.tag, dict(element.attrib), element.nsmap))
