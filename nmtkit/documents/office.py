"""Documents of word processors and presentations: docx and pptx (Office Open XML), odt and odp (OpenDocument).

Formatted runs, links and the like are markup around the text of a paragraph. Images, fields, notes and all other
content are empty elements in it. Files of the archive without paragraphs are not changed.
"""

import copy
import itertools
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from lxml import etree

from nmtkit.documents.archive import Archive, Xml
from nmtkit.documents.markup import NOT_XML, XML_SPACE, Code, Role, alone, local_name, read_markup, write_markup
from nmtkit.documents.places import Builder, Places, Step, is_script, walk
from nmtkit.documents.segment import Segment
from nmtkit.errors import UserError
from nmtkit.text.scripts import right_to_left

Element: TypeAlias = etree._Element

# The ends of the content types of parts with paragraphs.
_PARTS = (
    "wordprocessingml.document.main+xml", "wordprocessingml.header+xml", "wordprocessingml.footer+xml",
    "wordprocessingml.footnotes+xml", "wordprocessingml.endnotes+xml", "presentationml.slide+xml",
    "presentationml.notesSlide+xml", "drawingml.diagramData+xml", "drawingml.diagramDrawing+xml",
)  # fmt: skip
_PARAGRAPHS = [
    f"{{{namespace}}}p"
    for namespace in (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://schemas.openxmlformats.org/drawingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
        "http://purl.oclc.org/ooxml/drawingml/main",
    )
]
_CONTAINERS = {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "dir", "bdo", "ruby"}
_INNER = {"sdt": "sdtContent", "ruby": "rubyBase"}  # the element of a container that has its text
_DROPPED = {"rPr", "proofErr", "lastRenderedPageBreak", "softHyphen"}  # properties, spelling checks, breaks
_LAYOUT = {"tab": "\t", "ptab": "\t", "br": " ", "cr": " "}  # white space between words
# The properties of paragraphs and runs that come after the writing direction (ECMA-376, 17.3.1.26 and 17.3.2.28).
_AFTER_BIDI = frozenset(
    "adjustRightInd snapToGrid spacing ind contextualSpacing mirrorIndents suppressOverlap jc textDirection "
    "textAlignment textboxTightWrap outlineLvl divId cnfStyle rPr sectPr pPrChange".split()
)
_AFTER_RTL = frozenset("cs em lang eastAsianLayout specVanish oMath rPrChange".split())
_BLANK = re.compile("[ \r\n]+")  # a presentation has its tabs in the text
_DEEPEST = 8  # paragraphs in each other
_UNSEEN = {"lang", "altLang", "noProof", "dirty", "err", "smtClean"}  # invisible properties of runs

_ODF_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_ODF_USED = f"{_ODF_TEXT}style-name"
_ODF_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_ODF_ROLES: dict[str, Role] = {
    f"{_ODF_TEXT}span": "splits", f"{_ODF_TEXT}a": "whole", f"{_ODF_TEXT}meta": "whole",
    f"{_ODF_TEXT}tab": "layout", f"{_ODF_TEXT}line-break": "layout", f"{_ODF_TEXT}s": "layout",
    f"{_ODF_TEXT}soft-page-break": "dropped", f"{_ODF_TEXT}ruby": "whole", f"{_ODF_TEXT}ruby-base": "whole",
    "{urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0}content-control": "whole",
}  # fmt: skip
_ODF_SLIDES = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
# Paragraphs, headings, and the headers and footers of slides.
_ODF_PARAGRAPHS = [f"{_ODF_TEXT}p", f"{_ODF_TEXT}h", f"{_ODF_SLIDES}header-decl", f"{_ODF_SLIDES}footer-decl"]
# Elements whose paragraphs are not translated: comments and deleted text.
_ODF_ASIDE = ["{urn:oasis:names:tc:opendocument:xmlns:office:1.0}annotation", f"{_ODF_TEXT}tracked-changes"]
_ODF_MARGINS = [f"{_ODF_STYLE}{side}{page}" for side in ("header", "footer") for page in ("", "-left", "-first")]


def read_ooxml(data: bytes, language: str) -> Places:
    """Read a docx or pptx, to be translated into ``language``, whose writing direction its paragraphs get.

    Raises UserError if it contains macros or no text, and as ``Archive`` does.
    """
    archive = Archive(data)
    types = [
        (part.get("PartName", "").removeprefix("/"), part.get("ContentType", ""))
        for part in archive.parse("[Content_Types].xml").tree.iter("{*}Override", "{*}Default")
    ]
    if any("macroEnabled" in kind or "vbaProject" in kind for _, kind in types):
        raise UserError("has macros, which are programs; save it without them, as docx or pptx")
    there = {name.lower(): name for name in archive.names}  # the list may have other cases, and parts that are missing
    names = [there[name.lower()] for name, kind in types if kind.endswith(_PARTS) and name.lower() in there]
    if not names:
        raise UserError("contains no text of a docx or pptx")
    add = partial(_add_paragraph, rtl=right_to_left(language))
    return _places(archive, names, lambda tree: tree.iter(*_PARAGRAPHS), add)


def read_odf(data: bytes) -> Places:
    """Read an odt or odp. Raises UserError if it is encrypted or contains macros, and as ``Archive`` does."""
    archive = Archive(data)
    if "encrypted-package" in archive.names or any(
        True for _ in archive.parse("META-INF/manifest.xml").tree.iter("{*}encryption-data")
    ):
        raise UserError("is encrypted; save it again without a password")
    if any(name.startswith(("Basic/", "Scripts/")) for name in archive.names):
        raise UserError("has macros, which are programs; save it without them")

    raised = set[str | None]()  # the names of the styles of superscripts and subscripts

    def paragraphs(tree: etree._ElementTree) -> Iterator[Element]:
        for text in tree.iter(f"{_ODF_STYLE}text-properties"):
            if not text.get(f"{_ODF_STYLE}text-position", "0%").startswith("0%"):
                raised.add(text.getparent().get(f"{_ODF_STYLE}name"))
        margins = tree.getroot().tag.endswith("document-styles")
        for paragraph in tree.iter(*_ODF_PARAGRAPHS):
            aside = any(True for _ in paragraph.iterancestors(_ODF_ASIDE))
            if not aside and (not margins or any(True for _ in paragraph.iterancestors(_ODF_MARGINS))):
                yield paragraph

    def role(element: Element) -> Role:
        found = _ODF_ROLES.get(str(element.tag), "kept")
        if found not in ("splits", "whole") or not any(each.get(_ODF_USED) in raised for each in element.iter()):
            return found
        if is_script("".join(itertools.islice(element.itertext(), 20)), element.tail or ""):
            return "kept"
        return "script" if found == "splits" else found

    def add(places: Places, paragraph: Element) -> None:
        segment = read_markup(paragraph, role, collapse=True)
        places.add(segment, lambda translated: write_markup(paragraph, translated))

    names = [name for name in ("content.xml", "styles.xml") if name == "content.xml" or name in archive.names]
    return _places(archive, names, paragraphs, add)


def _places(
    archive: Archive,
    names: Iterable[str],
    paragraphs: Callable[[etree._ElementTree], Iterator[Element]],
    add: Callable[[Places, Element], None],
) -> Places:
    """The paragraphs of these files of an archive. ``add`` adds one of them to the places."""
    changed = dict[str, Xml]()
    places = Places(lambda: archive.write({name: file.write() for name, file in changed.items()}))
    for name in names:
        file, before = archive.parse(name), len(places.segments)
        for paragraph in paragraphs(file.tree):
            # As in text boxes; each level is copied with all that are in it.
            if len(list(itertools.islice(paragraph.iterancestors(paragraph.tag), _DEEPEST))) == _DEEPEST:
                raise UserError(f"has paragraphs nested more than {_DEEPEST} deep")
            add(places, paragraph)
        if len(places.segments) > before:
            changed[name] = file
    return places


class _Kept(NamedTuple):
    """Nodes that are copied."""

    nodes: tuple[Element, ...]
    layout: str = ""  # the white space between words that they are
    in_run: bool = False  # whether they need a run around them
    properties: Element | None = None  # of this run


def _add_paragraph(places: Places, paragraph: Element, rtl: bool) -> None:
    """Add a paragraph of Office Open XML. rtl: whether its translation is written from right to left.

    The formatting of most of its letters outside links is that of the paragraph, and of the spaces between marks. Runs
    with other formatting are markup around their text. Neighbours that look alike are joined, because spelling checks
    and editing leave many.
    """
    if next(paragraph.iter("{*}t"), None) is None:
        return
    steps = list(_steps(_content(paragraph)))
    outside, letters, looks = Counter[Hashable](), Counter[Hashable](), dict[Hashable, Any]()
    links = list[bool]()  # whether each container around the text is a link
    for kind, element, text in steps:
        if kind == "text":
            look = _look(element)
            is_link = isinstance(element, etree._Element) and element.find("{*}hlinkClick") is not None
            letters[look] += len(text.strip())
            outside[look] += 0 if is_link or any(links) else len(text.strip())
            looks.setdefault(look, element)
        elif kind == "end":
            links.pop()
        elif not isinstance(element, _Kept):
            links.append(isinstance(element, Code) or local_name(element) == "hyperlink")
    if not looks:
        return
    base = max(looks, key=lambda look: (outside[look], letters[look]))
    builder, current = Builder(), base
    for kind, element, text in [*steps, Step("end")]:
        look = _look(element) if text.strip() else current
        if current != base and (look != current or (kind != "text" and not isinstance(element, _Kept))):
            builder.end()
            current = base
        if kind == "text":
            if look != current:
                builder.start(look, splits=True, script=_is_raised(element))
                current = look
            builder.text(text)
        elif isinstance(element, _Kept):
            builder.empty(element, element.layout)
        elif kind == "start":
            builder.start(element, splits=False)
        elif builder.inside:
            builder.end()

    def put(translated: Segment) -> None:
        _put_paragraph(paragraph, translated, looks, base)
        _set_direction(paragraph, rtl)

    places.add(builder.segment(), put)


def _content(parent: Element) -> list[Element]:
    """The nodes of a paragraph or container without its properties."""
    return [node for node in parent if not local_name(node).endswith("Pr")]


def _steps(content: Iterable[Element]) -> Iterator[Step]:
    """The text and the markup of nodes of a paragraph. A text's element is the properties of its run, or None."""
    for nodes in _fields(content):
        node, name = nodes[0], local_name(nodes[0])
        if len(nodes) > 1:
            yield from _field(nodes)
        elif _is_raised(node) and is_script(_text(node), _text_after(node)):
            yield Step("start", _Kept((node,)))
        elif name == "r":
            properties = node.find("{*}rPr")
            for inner in node:
                is_ruby = local_name(inner) == "ruby"
                yield from _steps([inner]) if is_ruby else _node(inner, properties, in_run=True)
        elif name in _CONTAINERS and any(text.text for text in node.iter("{*}t")):
            content = node.find(f"{{*}}{_INNER[name]}") if name in _INNER else node
            yield Step("start", node)
            yield from _steps(_content(node if content is None else content))
            yield Step("end")
        else:
            yield from _node(node, node.find("{*}rPr"), in_run=False)


def _is_raised(node: Element | None) -> bool:
    """Whether a node has superscripts or subscripts."""
    marks = () if node is None else node.iter("{*}vertAlign", "{*}rPr")
    return any(
        each.get("baseline", "").strip("0%") or {"superscript", "subscript"}.intersection(each.values())
        for each in marks
    )


def _text(node: Element) -> str:
    return "".join(text.text or " " for text in node.iter("{*}t", "{*}tab", "{*}br"))


def _text_after(node: Element) -> str:
    """The first text after a node that is not a superscript or subscript."""
    nodes = itertools.islice(node.itersiblings(), 10)
    return next((text for each in nodes if not _is_raised(each) and (text := _text(each))), "")


def _node(node: Element, properties: Element | None, in_run: bool) -> Iterator[Step]:
    """A node of a run or paragraph."""
    name = local_name(node)
    if name in ("t", "noBreakHyphen"):
        yield Step("text", properties, _BLANK.sub(" ", node.text or "") if name == "t" else "\u2011")
    elif name not in _DROPPED:
        inside = node.iter() if name in _CONTAINERS else (node,)
        layout = next((_LAYOUT[found] for each in inside if (found := local_name(each)) in _LAYOUT), "")
        yield Step("start", _Kept((node,), layout, in_run, properties))


def _fields(content: Iterable[Element]) -> Iterator[list[Element]]:
    """Lists of single nodes, and of the nodes of each whole field."""
    field, depth = list[Element](), 0
    for node in itertools.chain.from_iterable(map(_parts, content)):
        kinds = _field_characters(node)
        depth += kinds.count("begin")
        if not depth:
            yield [node]
            continue
        field.append(node)
        depth -= kinds.count("end")
        if depth <= 0:
            yield field
            field, depth = [], 0
    yield from ([node] for node in field)  # of a field that ends in another paragraph


def _parts(run: Element) -> list[Element]:
    """A node of a paragraph; a run with text and field characters becomes several, each with one node."""
    if run.find("{*}fldChar") is None or run.find("{*}t") is None:
        return [run]
    parts, properties = [run], run.find("{*}rPr")
    for node in [each for each in run if each is not properties][1:]:
        parts.append(run.makeelement(run.tag, run.attrib, run.nsmap))
        parts[-1].extend([node] if properties is None else [copy.deepcopy(properties), node])
        parts[-2].addnext(parts[-1])
    return parts


def _field_characters(run: Element) -> list[str | None]:
    """The types of the field characters in a run: begin, separate, end."""
    return [mark.get(f"{mark.tag}Type") for mark in run.iterchildren("{*}fldChar")]


def _field(nodes: list[Element]) -> Iterator[Step]:
    """A field: a link has text; any other is kept with its result, which the program computes."""
    code = "".join(text.text or "" for node in nodes for text in node.iter("{*}instrText"))
    separator = next((i for i, node in enumerate(nodes) if "separate" in _field_characters(node)), None)
    if code.split()[:1] == ["HYPERLINK"] and separator is not None:
        yield Step("start", Code(tuple(nodes[: separator + 1]), (nodes[-1],)))
        yield from _steps(nodes[separator + 1 : -1])
        yield Step("end")
    else:
        yield Step("start", _Kept(tuple(nodes)))


def _put_paragraph(paragraph: Element, segment: Segment, looks: dict[Hashable, Element | None], base: Hashable) -> None:
    """Replace the content of a paragraph."""
    last = paragraph.find("{*}endParaRPr")
    for node in _content(paragraph):
        paragraph.remove(node)
    namespace = etree.QName(paragraph).namespace
    inside, properties = [paragraph], [looks[base]]

    def run(look: Element | None) -> Element:
        made = etree.SubElement(inside[-1], f"{{{namespace}}}r")
        if look is not None:
            made.append(alone(copy.deepcopy(look)))
        return made

    for kind, element, text in walk(segment):
        if kind == "text":
            if text := NOT_XML.sub("", text):
                made = etree.SubElement(run(properties[-1]), f"{{{namespace}}}t")
                made.text = text
                if "wordprocessingml" in str(namespace):
                    made.set(XML_SPACE, "preserve")
        elif isinstance(element, _Kept):
            if kind == "start":
                parent = run(element.properties) if element.in_run else inside[-1]
                parent.extend(map(alone, element.nodes))
        elif isinstance(element, Code):
            inside[-1].extend(map(alone, element.before if kind == "start" else element.after))
        elif element in looks:
            if kind == "start":
                properties.append(looks[element])
            else:
                properties.pop()
        elif kind == "start":
            assert isinstance(element, etree._Element)
            inside.append(_shell(inside[-1], element))
        else:
            inside.pop()
    if last is not None:
        paragraph.append(last)


def _set_direction(paragraph: Element, rtl: bool) -> None:
    """Set the writing direction of a paragraph and its runs."""
    if "wordprocessingml" in str(paragraph.tag):
        if not rtl and paragraph.find("{*}pPr/{*}bidi") is None:
            return  # runs may be quotations in another language
        _switch(paragraph, "bidi", rtl, _AFTER_BIDI)
        for run in paragraph.iter(paragraph.tag[:-1] + "r"):
            _switch(run, "rtl", rtl, _AFTER_RTL)
    elif rtl:
        _properties(paragraph).set("rtl", "1")
    else:
        for properties in paragraph.iterchildren("{*}pPr"):
            properties.attrib.pop("rtl", None)


def _properties(node: Element) -> Element:
    """The properties of a paragraph or run, which it gets if it has none."""
    found = node.find("{*}" + local_name(node) + "Pr")
    if found is None:
        found = node.makeelement(node.tag + "Pr")
        node.insert(0, found)
    return found


def _switch(node: Element, name: str, on: bool, later: frozenset[str]) -> None:
    """Switch a property of a paragraph or run on or off. later: the properties that the schema has after it."""
    for old in node.findall(f"{{*}}{local_name(node)}Pr/{{*}}{name}"):
        old.getparent().remove(old)
    if on:
        properties = _properties(node)
        new = properties.makeelement(f"{{{etree.QName(node).namespace}}}{name}")
        place = next((i for i, each in enumerate(properties) if local_name(each) in later), len(properties))
        properties.insert(place, new)


def _shell(parent: Element, container: Element) -> Element:
    """Append a container without its text to ``parent``; returns the element for the text."""
    name, namespace = local_name(container), etree.QName(container).namespace
    if name == "ruby":
        parent = etree.SubElement(parent, f"{{{namespace}}}r")
    made = etree.SubElement(parent, container.tag, dict(container.attrib), container.nsmap)
    for node in container:
        if local_name(node).endswith("Pr") or local_name(node) == "rt":
            made.append(alone(copy.deepcopy(node)))
    return etree.SubElement(made, f"{{{namespace}}}{_INNER[name]}") if name in _INNER else made


def _look(properties: Any) -> Hashable:
    """The visible part of the properties of a run."""
    if properties is None:
        return ()
    seen = [(node, tuple(sorted((key, value) for key, value in node.attrib.items() if key not in _UNSEEN)))
            for node in properties.iter() if local_name(node) not in _UNSEEN]  # fmt: skip
    return (*seen[0][1], *((node.tag, attributes) for node, attributes in seen[1:]))
