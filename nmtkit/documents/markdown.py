"""Markdown: CommonMark with tables, strikethrough, footnotes, definitions, front matter, containers and mathematics.

A paragraph becomes one line. Code, mathematics, HTML blocks, images, front matter, the addresses of links, the lines of
``:::``, the marks of alerts and the attributes of headings are not changed.
"""

import itertools
import re
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from nmtkit.documents.places import Builder, Places, is_script, walk
from nmtkit.documents.segment import Segment
from nmtkit.documents.text import decoded, encoded, space_between

_SPECIAL = re.compile(r"([\\`*_\[\]<>~&|!^$])")
_FOOTNOTE = re.compile(r"\[\^([^\s\]]+)\]")
# What would start a list, a heading, a quotation or the like at the start of a line; group 1 is the number of a list.
_BLOCK = re.compile(
    r"^(\d{1,9}(?=[.)](?:\s|$)))?"
    r"(?=(?:#+|[+*-])(?:\s|$)|[-=]+\s*$|(?:[*_] ?){3,}\s*$|(?<=\d)[.)]|>|```|~~~|:::|\[[^\]]*\]:)",
    re.MULTILINE,
)
_BOX = re.compile(r"\[[ xX]\][ \t]+")  # of a task
_ALERT = re.compile(r"\[![\w-]+\][-+]?[ \t]*")  # of a note or warning on GitHub or, before its title, in Obsidian
_ATTRIBUTES = re.compile(r"(?<![ \t])[ \t]+\{[#.:-][^{}\n]*\}$")  # of a heading; in linear time
_TOML = re.compile(r"\A\+\+\+(\n.*?^)\+\+\+$", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_EMPHASIS = ("em", "strong", "s")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


class _Written(NamedTuple):
    """The Markdown of an element: what comes before and after its text."""

    before: str
    after: str
    name: str = ""  # em, strong, s or a: the HTML element of the same meaning
    code: bool = False  # its text is not escaped


class _Paragraph(NamedTuple):
    """The place of a paragraph, heading or table cell in the file."""

    start: int
    end: int
    prefix: str  # of its lines after the first: quotation marks and indentation
    begins_line: bool
    cell: bool


def read(data: bytes) -> Places:
    """Read a Markdown file. Raises UserError if it is not UTF-8."""
    original = decoded(data)
    text = original.replace("\r\n", "\n").replace("\r", "\n")
    parser = MarkdownIt("commonmark", {"store_labels": True}).enable(["table", "strikethrough"])
    parser.use(front_matter_plugin).use(footnote_plugin).disable("footnote_inline")
    parser.use(admon_plugin).use(deflist_plugin)
    parser.use(container_plugin, "any", validate=lambda *_: True)
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, allow_blank_lines=False, double_inline=True)
    env = dict[str, Any]()
    written = dict[_Paragraph, str]()

    def save() -> bytes:
        pieces, end = list[str](), 0
        for place in sorted(written):
            pieces += [text[end : place.start], written[place]]
            end = place.end
        result = "".join([*pieces, text[end:]])
        return encoded(result.replace("\n", "\r\n") if "\r\n" in original else result, data)

    places = Places(save)
    lines = text.split("\n")
    starts = [*itertools.accumulate((len(line) + 1 for line in lines), initial=0)]
    tokens, end = parser.parse(_TOML.sub(r"---\1---", text), env), 0
    for before, token in itertools.pairwise(tokens):
        if token.type == "inline" and (place := _found(before, token, lines, starts, end)):
            end, children = place.end, token.children or []
            box = _BOX.match(text, place.start)
            if box and children[0].content.startswith(box[0]):
                place = place._replace(start=box.end())
                children[0].content = children[0].content[len(box[0]) :]
            breaks, alert = list[int](), _ALERT.match(text, place.start)
            if alert and children[0].type == "text":
                children[0].content = children[0].content[len(alert[0]) :]
                place = place._replace(start=alert.end())
                breaks = [i for i, each in enumerate(children) if each.type in ("softbreak", "hardbreak")]
            attributes = _ATTRIBUTES.search(text[place.start : place.end]) if before.type == "heading_open" else None
            if attributes and children[-1].content.endswith(attributes[0]):
                place = place._replace(end=place.end - len(attributes[0]))
                children[-1].content = children[-1].content.removesuffix(attributes[0])

            parts = [(place, children)]
            # The title of an alert is a paragraph of its own, unless markup or code continues in the next line.
            if breaks and children[breaks[0]].level == 0 and len(breaks) == text.count("\n", place.start, end):
                title, line, _ = text[place.start : end].partition("\n")
                parts[0] = (place._replace(end=place.start + len(title.rstrip())), children[: breaks[0]])
                rest = place._replace(start=place.start + len(title + line + place.prefix))
                parts.append((rest, children[breaks[0] + 1 :]))
            for part, inside in parts:

                def put(translated: Segment, place: _Paragraph = part) -> None:
                    written[place] = _paragraph(translated, place, parser, env)

                places.add(_segment(inside, text[part.start : part.end]), put)
    return places


def _found(before: Token, token: Token, lines: Sequence[str], starts: Sequence[int], done: int) -> _Paragraph | None:
    """The place of a token's text in the file; None if the parser has changed the text, such as its tabs."""
    if not token.map:
        return None
    content, first = token.content, token.map[0]
    cell = before.type in ("th_open", "td_open")
    if cell or (before.type == "heading_open" and before.markup.startswith("#")):
        content = content.replace("|", "\\|") if cell else content
        low = max(0, done - starts[first]) if cell else lines[first].find(before.markup) + len(before.markup)
        start = starts[first] + lines[first].find(content, low)
        return None if start < starts[first] else _Paragraph(start, start + len(content), "", False, cell)
    if before.type == "admonition_title_open":  # text if quoted, as Python-Markdown has it
        start = starts[first] + len(line := lines[first].rstrip()) - len(content) - 1
        return _Paragraph(start, start + len(content), "", False, False) if line.endswith(f'"{content}"') else None
    columns = list[int]()
    parts = content.split("\n")
    for line, part in zip(lines[first:], parts, strict=False):
        if not line.rstrip().endswith(part.rstrip()):
            return None
        columns.append(len(line.rstrip()) - len(part.strip()))
    last = first + len(parts) - 1
    prefix = lines[first + 1][: columns[1]] if len(parts) > 1 else ""
    return _Paragraph(starts[first] + columns[0], starts[last] + len(lines[last].rstrip()), prefix, True, False)


def _segment(tokens: Sequence[Token], written: str) -> Segment:
    """The segment of a paragraph, of which these are the tokens; ``written``: its Markdown.

    Its line breaks are backslashes if it has one, or else two spaces, because Python-Markdown has no backslashes.
    """
    builder, ends = Builder(), _ends(tokens)
    done = -1
    for number, token in enumerate(tokens):
        kind = token.type
        if number <= done:
            continue
        if number and tokens[number - 1].markup == "autolink" and tokens[number - 1].nesting == 1:
            builder.text(token.content, keep=True)
        elif kind == "text":
            builder.text(token.content.replace("\t", " "))
        elif kind == "softbreak":
            # Nothing is before or after one that begins or ends the text of a link.
            around = tokens[max(0, number - 1) : number], tokens[number + 1 : number + 2]
            builder.text(space_between(*("".join(each.content for each in part) for part in around)))
        elif kind == "hardbreak" or (kind == "html_inline" and _BREAK.fullmatch(token.content)):
            builder.empty(_Written(token.content or ("\\\n" if "\\\n" in written else "  \n"), ""), layout=" ")
        elif kind in ("code_inline", "math_inline", "math_inline_double"):
            edges = token.content.strip()  # a space at an edge of the text may move out of the mark
            pad = " " if kind == "code_inline" and "`" in edges[:1] + edges[-1:] else ""
            builder.start(_Written(token.markup + pad, pad + token.markup, code=True), splits=False)
            builder.text(token.content, keep=True)
            builder.end()
        elif kind == "link_open" and token.markup == "autolink":
            builder.start(_Written("<", ">", code=True), splits=False)
        elif number < (last := ends.get(number, 0)):
            pair = (token, tokens[last])
            start, end = _link(token) if kind == "link_open" else (each.markup + each.content for each in pair)
            is_raised = start.lower() in ("<sub>", "<sup>")
            inside = _segment(tokens[number + 1 : last] if last < number + 9 else [], written)
            after = "".join(each.content for each in tokens[last + 1 : last + 2] if each.type == "text")
            # A note, or an element without text, such as a link around an image.
            if (is_raised and is_script(inside.text, after)) or (inside.marks and not inside.text.strip()):
                whole = f"{start}{_markdown(inside, escape=True, html=False)}{end}"
                builder.space(" " * inside.text.isspace())
                builder.empty(_Written(whole, ""))
                done = last
            else:
                builder.start(_Written(start, end, token.tag), splits=token.tag in _EMPHASIS, script=is_raised)
        elif token.nesting == -1 or number in ends:
            builder.end()
        elif kind == "footnote_ref":
            builder.empty(_Written(f"[^{token.meta['label']}]", ""))
        elif kind == "image":
            before, after = _link(token)
            builder.empty(_Written(f"!{before}{token.content}{after}", ""))
        else:
            builder.empty(_Written(token.content, ""))
    return builder.segment()


def _ends(tokens: Sequence[Token]) -> dict[int, int]:
    """The numbers of the starts and ends of elements that nest, also HTML tags, each with that of its partner."""
    ends, inside = dict[int, int](), list[tuple[int, str]]()
    for number, token in enumerate(tokens):
        tag = _TAG.match(token.content) if token.type == "html_inline" else None
        if token.nesting == 1 or (tag and not tag[1]):
            inside.append((number, tag[2] if tag else ""))
        while token.nesting == -1 and inside[-1][1]:  # tags without an end
            inside.pop()
        if token.nesting == -1 or (tag and tag[1] and inside and inside[-1][1] == tag[2]):
            other = inside.pop()[0]
            ends |= {other: number, number: other}
    return ends


def _link(token: Token) -> tuple[str, str]:
    """The Markdown before and after the text of a link or image."""
    if "label" in token.meta:
        return "[", f"][{token.meta['label'].lower()}]"
    address, title = str(token.attrs.get("href", token.attrs.get("src", ""))), token.attrs.get("title")
    address = f"<{address}>" if re.search(r"[\s()<>]", address) or not address else address
    quoted = str(title).replace("\\", "\\\\").replace('"', '\\"')
    return "[", f"]({address})" if title is None else f']({address} "{quoted}")'


def _paragraph(segment: Segment, place: _Paragraph, parser: MarkdownIt, env: dict[str, Any]) -> str:
    """A segment as Markdown, with escapes only if it needs them to keep its meaning."""

    def content(segment: Segment) -> tuple[str, list[Hashable]]:
        return "".join(segment.text.split()), [mark.element for mark in segment.marks]

    def is_same(candidate: str) -> bool:
        # The parser counts footnotes in it, and needs only those that the paragraph names.
        refs = env.get("footnotes", {}).get("refs", {})
        named = {label: -1 for name in _FOOTNOTE.findall(candidate) if (label := f":{name}") in refs}
        own = {**env, "footnotes": {"refs": named, "list": {}}}
        tokens = parser.parseInline(candidate, own)[0].children or []
        return content(_segment(tokens, candidate)) == content(segment)

    candidates = (_markdown(segment, escape, html=False) for escape in (False, True))
    # Asterisks do not start or end an emphasis everywhere, for example not beside a space.
    text = next(filter(is_same, candidates), None) or _markdown(segment, escape=True, html=True)
    text = re.sub(r"^  (?=\n)", r"\\", text, flags=re.MULTILINE)  # a blank line would end the paragraph
    if place.cell:
        text = re.sub(r"(?<!\\)\|", r"\\|", text)
    if place.begins_line:
        text = _BLOCK.sub(r"\1\\", text)
    return text.replace("\n", "\n" + place.prefix)


def _markdown(segment: Segment, escape: bool, html: bool) -> str:
    """A segment as Markdown; ``escape``: with special characters escaped; ``html``: with emphasis as HTML."""
    texts, code = list[str](), False
    for kind, element, text in walk(segment):
        if kind == "text":
            clean = re.sub(r"\s+", " ", text)
            texts.append(clean if code or not escape else _SPECIAL.sub(r"\\\1", clean))
            continue
        assert isinstance(element, _Written)
        code = element.code and kind == "start"
        if html and element.name in _EMPHASIS:
            texts.append(f"<{'' if kind == 'start' else '/'}{element.name}>")
        elif tag := element.before if kind == "start" else element.after:
            texts.append(tag)
    return "".join(texts)
