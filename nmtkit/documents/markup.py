"""The text and the inline markup of an XML element as a segment, and back: for OpenDocument, XLIFF and TMX."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from lxml import etree

from nmtkit.documents.places import Builder, paired, walk
from nmtkit.documents.segment import Segment

# What an element is to the text around it: markup of the words in it, which stays one or may be repeated around each
# part of them; one that is kept as it is, without words; a tab or line break, which is also white space between
# words; one that the translation does without; or one of two that stand before and after words.
Role = Literal["whole", "splits", "kept", "layout", "dropped", "opens", "closes"]

NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # characters (XML 1.0, 2.2)
SPACE = re.compile("[ \t\r\n]+")


class Kept(NamedTuple):
    """An element that is kept with all that is in it."""

    element: etree._Element
    layout: bool  # a tab or line break


class Pair(NamedTuple):
    """Two elements that stand before and after words, such as those for the start and the end of code in XLIFF."""

    first: etree._Element
    last: etree._Element


def legal(text: str) -> str:
    """A text without the characters that XML cannot have."""
    return NOT_XML.sub("", text)


def read_markup(parent: etree._Element, role: Callable[[etree._Element], Role], collapse: bool) -> Segment:
    """The content of an element; ``collapse``: white space of any length is one space, as in OpenDocument and HTML."""
    builder = Builder()

    def read(element: etree._Element) -> None:
        add(element.text)
        children = [(child, role(child) if isinstance(child.tag, str) else "kept") for child in element]
        pairs = paired([kind if kind in ("opens", "closes") else "" for _, kind in children])
        for number, (child, kind) in enumerate(children):
            if number in pairs and kind == "opens":
                builder.start(Pair(child, children[pairs[number]][0]), splits=False)
            elif number in pairs:
                builder.end()
            elif kind in ("whole", "splits") and "".join(child.itertext()).strip():
                builder.start(child, splits=kind == "splits")
                read(child)
                builder.end()
            elif kind != "dropped":
                builder.text(" " if kind == "layout" else "")
                builder.empty(Kept(child, kind == "layout"))
            add(child.tail)

    def add(text: str | None) -> None:
        builder.text(SPACE.sub(" ", text or "") if collapse else text or "")

    read(parent)
    return builder.segment()


def write_markup(parent: etree._Element, segment: Segment) -> None:
    """Replace the content of an element, whose attributes it keeps."""
    for child in list(parent):
        parent.remove(child)
    parent.text = None
    inside, after_layout = [parent], False
    for kind, element, text in walk(segment):
        last = inside[-1]
        if kind == "text":
            text = legal(text.lstrip(" ") if after_layout else text)
            after_layout = False
            if len(last):
                last[-1].tail = (last[-1].tail or "") + text
            else:
                last.text = (last.text or "") + text
        elif isinstance(element, Pair):
            last.append(_alone(element.first if kind == "start" else element.last))
        elif kind == "end":
            if not isinstance(element, Kept):
                inside.pop()
        elif isinstance(element, Kept):
            if element.layout:
                if len(last):
                    last[-1].tail = (last[-1].tail or "").rstrip(" ")
                else:
                    last.text = (last.text or "").rstrip(" ")
                after_layout = True
            last.append(_alone(element.element))
        else:
            assert isinstance(element, etree._Element)
            inside.append(etree.SubElement(last, element.tag, dict(element.attrib), element.nsmap))


def _alone(element: etree._Element) -> etree._Element:
    """An element without the text that followed it."""
    element.tail = None
    return element
