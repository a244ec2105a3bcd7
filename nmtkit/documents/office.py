"""Documents of word processors and presentations: docx and pptx (Office Open XML), odt and odp (OpenDocument).

Of each paragraph the formatted runs, links and the like are markup around its text. Images, fields, notes and all else
that is not its text are empty elements in it. Files of the archive without paragraphs stay as they are.
"""

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from lxml import etree

from nmtkit.documents.archive import Archive, Xml
from nmtkit.documents.markup import SPACE, Role, legal, read_markup, write_markup
from nmtkit.documents.places import Builder, Places, walk
from nmtkit.documents.segment import Segment
from nmtkit.errors import UserError

Element: TypeAlias = etree._Element

# Parts with text for the reader, by the end of their content type.
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
_CONTAINERS = {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "dir", "bdo"}
_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}  # of the source's spelling and lines
_LAYOUT = {"tab", "br", "cr", "ptab"}  # white space between words
_UNSEEN = {"lang", "altLang", "noProof", "dirty", "err", "smtClean"}  # properties of runs that look alike

_ODF_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_ODF_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_ODF_ROLES: dict[str, Role] = {
    f"{_ODF_TEXT}span": "splits", f"{_ODF_TEXT}a": "whole", f"{_ODF_TEXT}meta": "whole",
    f"{_ODF_TEXT}tab": "layout", f"{_ODF_TEXT}line-break": "layout", f"{_ODF_TEXT}s": "layout",
    f"{_ODF_TEXT}soft-page-break": "dropped",
}  # fmt: skip
# Paragraphs in these are not of the text: comments, and what was deleted.
_ODF_ASIDE = ["{urn:oasis:names:tc:opendocument:xmlns:office:1.0}annotation", f"{_ODF_TEXT}tracked-changes"]
_ODF_MARGINS = [f"{_ODF_STYLE}{side}{page}" for side in ("header", "footer") for page in ("", "-left", "-first")]


def read_ooxml(data: bytes) -> Places:
    """A docx or pptx. Raises UserError if it has macros, or as ``Archive`` does."""
    archive = Archive(data)
    types = [
        (part.get("PartName", "").removeprefix("/"), part.get("ContentType", ""))
        for part in archive.parse("[Content_Types].xml").tree.iter("{*}Override", "{*}Default")
    ]
    if any("macroEnabled" in kind or "vbaProject" in kind for _, kind in types):
        raise UserError("has macros, which are programs; save it without them, as docx or pptx")
    names = [name for name, kind in types if name and kind.endswith(_PARTS)]
    if not names:
        raise UserError("has no text of a docx or pptx")
    return _places(archive, names, lambda tree: tree.iter(*_PARAGRAPHS), _add_paragraph)


def read_odf(data: bytes) -> Places:
    """An odt or odp. Raises UserError if it is encrypted or has macros, or as ``Archive`` does."""
    archive = Archive(data)
    if "encrypted-package" in archive.names or any(
        True for _ in archive.parse("META-INF/manifest.xml").tree.iter("{*}encryption-data")
    ):
        raise UserError("is encrypted; save it again without a password")
    if any(name.startswith(("Basic/", "Scripts/")) for name in archive.names):
        raise UserError("has macros, which are programs; save it without them")

    def paragraphs(tree: etree._ElementTree) -> Iterator[Element]:
        margins = tree.getroot().tag.endswith("document-styles")
        for paragraph in tree.iter(f"{_ODF_TEXT}p", f"{_ODF_TEXT}h"):
            if any(True for _ in paragraph.iterancestors(_ODF_ASIDE)):
                continue
            if not margins or any(True for _ in paragraph.iterancestors(_ODF_MARGINS)):
                yield paragraph

    def add(places: Places, paragraph: Element) -> None:
        segment = read_markup(paragraph, lambda element: _ODF_ROLES.get(str(element.tag), "kept"), collapse=True)
        places.add(segment, lambda translated: write_markup(paragraph, translated))

    names = [name for name in ("content.xml", "styles.xml") if name == "content.xml" or name in archive.names]
    return _places(archive, names, paragraphs, add)


def _places(
    archive: Archive,
    names: Iterable[str],
    paragraphs: Callable[[etree._ElementTree], Iterator[Element]],
    add: Callable[[Places, Element], None],
) -> Places:
    """The paragraphs of some files of an archive."""
    changed = dict[str, Xml]()
    places = Places(lambda: archive.write({name: file.write() for name, file in changed.items()}))
    for name in names:
        file, before = archive.parse(name), len(places.segments)
        for paragraph in paragraphs(file.tree):
            add(places, paragraph)
        if len(places.segments) > before:
            changed[name] = file
    return places


class _Kept(NamedTuple):
    """Nodes that are kept as they are, each with the run that it is in, if that is not itself."""

    nodes: tuple[tuple[Element | None, Element], ...]
    layout: bool = False


class _Link(NamedTuple):
    """A field whose result is a text with a link: the nodes before and after that."""

    before: tuple[Element, ...]
    after: tuple[Element, ...]


class _Step(NamedTuple):
    """A step of reading a paragraph; texts have the properties of their run."""

    kind: Literal["text", "start", "end", "kept"]
    element: Hashable = None
    text: str = ""
    properties: Element | None = None


def _add_paragraph(places: Places, paragraph: Element) -> None:
    """Add a paragraph of Office Open XML.

    The formatting of most of its letters is that of the paragraph. Runs with another are markup around their text, and
    neighbours that look alike are one: spelling checks and editing leave many.
    """
    if next(paragraph.iter("{*}t"), None) is None:
        return
    steps = list(_steps(_content(paragraph)))
    letters, looks = Counter[Hashable](), dict[Hashable, Element | None]()
    for step in steps:
        if step.kind == "text":
            look = _look(step.properties)
            letters[look] += len(step.text.strip())
            looks.setdefault(look, step.properties)
    if not letters:
        return
    base = letters.most_common(1)[0][0]
    builder, current = Builder(), base
    for step in [*steps, _Step("end")]:
        look = _look(step.properties) if step.kind == "text" and step.text.strip() else current
        if current != base and (look != current or step.kind in ("start", "end")):
            builder.end()
            current = base
        if step.kind == "text":
            if look != current:
                builder.start(look, splits=True)
                current = look
            builder.text(step.text)
        elif step.kind == "kept":
            builder.empty(step.element)
        elif step.kind == "start":
            builder.start(step.element, splits=False)
        elif builder.inside:
            builder.end()
    places.add(builder.segment(), lambda translated: _put_paragraph(paragraph, translated, looks, base))


def _content(parent: Element) -> list[Element]:
    """The nodes of a paragraph or container without its properties."""
    return [node for node in parent if _name(node) != "endParaRPr" and not _name(node).endswith("Pr")]


def _steps(content: Iterable[Element]) -> Iterator[_Step]:
    """The text and the markup of nodes of a paragraph."""
    for nodes in _fields(content):
        node, name = nodes[0], _name(nodes[0])
        if len(nodes) > 1:
            yield from _field(nodes)
        elif name == "r":
            yield from _run(node)
        elif name in _CONTAINERS and any(text.text for text in node.iter("{*}t")):
            inner = node.find("{*}sdtContent") if name == "sdt" else node
            yield _Step("start", node)
            yield from _steps(_content(node if inner is None else inner))
            yield _Step("end")
        elif name not in _DROPPED:
            if name in _LAYOUT:
                yield _Step("text", text=" ", properties=node.find("{*}rPr"))
            yield _Step("kept", _Kept(((None, node),), name in _LAYOUT))


def _run(run: Element) -> Iterator[_Step]:
    """The text of a run, and what else it has."""
    properties = run.find("{*}rPr")
    for node in run:
        name = _name(node)
        if name == "t":
            yield _Step("text", text=SPACE.sub(" ", node.text or ""), properties=properties)
        elif name == "noBreakHyphen":
            yield _Step("text", text="\u2011", properties=properties)
        elif name != "rPr" and name not in _DROPPED:
            if name in _LAYOUT:
                yield _Step("text", text=" ", properties=properties)
            yield _Step("kept", _Kept(((run, node),), name in _LAYOUT))


def _fields(content: Iterable[Element]) -> Iterator[list[Element]]:
    """The nodes one by one, but those of a whole field together."""
    field, depth = list[Element](), 0
    for node in content:
        kinds = [_attribute(mark, "fldCharType") for mark in node if _name(mark) == "fldChar"]
        depth += kinds.count("begin")
        if not depth:
            yield [node]
            continue
        field.append(node)
        depth -= kinds.count("end")
        if depth <= 0:
            yield field
            field, depth = [], 0
    yield from ([node] for node in field)  # a field that ends in another paragraph


def _field(nodes: list[Element]) -> Iterator[_Step]:
    """A field: a link has text, any other is kept with its result, which the program computes."""
    code = "".join(text.text or "" for node in nodes for text in node.iter("{*}instrText"))
    separators = [
        i for i, node in enumerate(nodes) for mark in node if _attribute(mark, "fldCharType") == "separate"
    ]  # fmt: skip
    if code.split()[:1] == ["HYPERLINK"] and separators:
        result = nodes[separators[0] + 1 : -1]
        yield _Step("start", _Link(tuple(nodes[: separators[0] + 1]), (nodes[-1],)))
        yield from _steps(result)
        yield _Step("end")
    else:
        yield _Step("kept", _Kept(tuple((None, node) for node in nodes)))


def _put_paragraph(paragraph: Element, segment: Segment, looks: dict[Hashable, Element | None], base: Hashable) -> None:
    """Replace the content of a paragraph."""
    last = paragraph.find("{*}endParaRPr")
    for node in _content(paragraph):
        paragraph.remove(node)
    namespace = etree.QName(paragraph).namespace
    inside, properties = [paragraph], [looks[base]]
    written: Element | None = None  # the text after which only markup was written
    after_layout = False

    def run(look: Element | None) -> Element:
        made = etree.SubElement(inside[-1], f"{{{namespace}}}r")
        if look is not None:
            made.append(_copy(look))
        return made

    for kind, element, text in walk(segment):
        if kind == "text":
            text = legal(text.lstrip(" ") if after_layout else text)
            after_layout = False
            if text:
                written = etree.SubElement(run(properties[-1]), f"{{{namespace}}}t")
                written.text = text
                if "wordprocessingml" in str(namespace):
                    written.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
        elif isinstance(element, _Kept):
            if kind == "start":
                if element.layout:
                    after_layout = True
                    if written is not None and written.text:
                        written.text = written.text.rstrip(" ")
                for of, node in element.nodes:
                    _append(inside[-1] if of is None else run(of.find("{*}rPr")), node)
                written = None
        elif isinstance(element, _Link):
            for node in element.before if kind == "start" else element.after:
                _append(inside[-1], node)
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


def _shell(parent: Element, container: Element) -> Element:
    """A container without its content, appended to ``parent``; returns where the content goes."""
    made = etree.SubElement(parent, container.tag, dict(container.attrib), container.nsmap)
    for node in container:
        if _name(node).endswith("Pr"):
            made.append(_copy(node))
    return etree.SubElement(made, container.tag + "Content") if _name(container) == "sdt" else made


def _append(parent: Element, node: Element) -> None:
    """Move a node without the white space after it."""
    node.tail = None
    parent.append(node)


def _copy(node: Element) -> Element:
    made = copy.deepcopy(node)
    made.tail = None
    return made


def _look(properties: Element | None) -> Hashable:
    """What can be seen of the properties of a run."""
    if properties is None:
        return ()
    seen = [(node, tuple(sorted((key, value) for key, value in node.attrib.items() if key not in _UNSEEN)))
            for node in properties.iter() if _name(node) not in _UNSEEN]  # fmt: skip
    return (*seen[0][1], *((node.tag, attributes) for node, attributes in seen[1:]))


def _name(node: Element) -> str:
    """The name of an element without its namespace; of a comment, none."""
    tag = node.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _attribute(node: Element, name: str) -> str | None:
    """An attribute in the namespace of its element."""
    return node.get(f"{{{etree.QName(node).namespace}}}{name}") if _name(node) else None
