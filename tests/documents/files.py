"""Small documents of every kind, and translations of them that change nothing but the case of letters."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace

from nmtkit.documents.formats import read_document
from nmtkit.documents.segment import Document, Segment

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
)
OOXML = "application/vnd.openxmlformats-officedocument."


def archive(files: Mapping[str, str | bytes], first: str = "") -> bytes:
    """A zip file; ``first``: the content of the file mimetype, which comes first and is not compressed."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as packed:
        if first:
            packed.writestr("mimetype", first, zipfile.ZIP_STORED)
        for name, content in files.items():
            packed.writestr(name, content)
    return written.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """The files of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def types(**parts: str) -> str:
    """The list of an office file's parts: what is before .xml in their names, and their types."""
    listed = "".join(f'<Override PartName="/{name}.xml" ContentType="{kind}"/>' for name, kind in parts.items())
    return f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{listed}</Types>'


def docx(body: str, **others: str) -> bytes:
    """A Word document with these paragraphs, and other files by what is before .xml in their names."""
    kinds = {"document": "document.main+xml", "header": "header+xml", "footer": "footer+xml"}
    listed = {name: f"{OOXML}wordprocessingml.{kinds[name]}" for name in ("document", *others) if name in kinds}
    files = {f"{name}.xml": f"<w:hdr {W}>{content}</w:hdr>" for name, content in others.items()}
    document = (
        f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<w:document {W}><w:body>{body}</w:body></w:document>'
    )
    return archive({"[Content_Types].xml": types(**listed), "document.xml": document, **files, "styles.bin": b"\0\1"})


def pptx(paragraphs: str) -> bytes:
    """A presentation with one slide."""
    slide = f"<a:txBody {A}>{paragraphs}</a:txBody>"
    return archive({"[Content_Types].xml": types(slide=f"{OOXML}presentationml.slide+xml"), "slide.xml": slide})


def odt(body: str, styles: str = "") -> bytes:
    """A text document of OpenDocument."""
    return archive(
        {
            "content.xml": f"<office:document-content {ODF}>{body}</office:document-content>",
            "styles.xml": f"<office:document-styles {ODF}>{styles}</office:document-styles>",
            "META-INF/manifest.xml": "<manifest/>",
        },
        "application/vnd.oasis.opendocument.text",
    )


def epub(chapter: str, **others: str) -> bytes:
    """A book with one chapter, and other files in META-INF."""
    return archive(
        {
            "META-INF/container.xml": '<container><rootfile full-path="book/list.opf"/></container>',
            "book/list.opf": '<package><item href="one%201.xhtml" media-type="application/xhtml+xml"/></package>',
            "book/one 1.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{chapter}</body></html>',
            **{f"META-INF/{name}.xml": content for name, content in others.items()},
        },
        "application/epub+zip",
    )


SRT = """7
00:00:01,000 --> 00:00:03,500
<i>the little girl drinks</i>
<i>cold milk</i>

8
00:00:03,600 --> 00:00:06,000
and reads a <b>long</b> book.

9
00:00:07,000 --> 00:00:09,000
- hello.
- how are you?

"""
VTT = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE a comment

intro
00:00:01.000 --> 00:00:03.500 align:start
<v mary>the little girl drinks

00:00:03.600 --> 00:00:06.000
and reads <b>a <i>long</i> book</b>.
"""
PO = r"""# A catalogue.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);\n"

#: main.c:1
msgid "cannot open it.\ntry <b>again</b>.\n"
msgstr ""

msgid "done"
msgstr "fait"

#, fuzzy
msgid "old"
msgstr "ancien"

msgctxt "menu"
msgid "open"
msgstr ""

msgid "one file"
msgid_plural "many files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] "beaucoup de fichiers"

#~ msgid "gone"
#~ msgstr ""
"""
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file original="a" source-language="en" datatype="">\
<body>
<trans-unit id="1"><source>the <g id="1">girl</g> drinks<x id="2"/> milk.</source></trans-unit>
<trans-unit id="2"><source>done</source><target state="final">fait</target></trans-unit>
<trans-unit id="3" translate="no"><source>code</source></trans-unit>
<trans-unit id="4"><source>a <bpt id="1">b</bpt>pair<ept id="1">b</ept></source><target/></trans-unit>
</body></file></xliff>
"""
XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="fr"><file id="f">\
<unit id="1"><segment><source>the <pc id="1">girl</pc> drinks<ph id="2"/> milk.</source></segment></unit></file></xliff>
"""
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header creationtool="x" creationtoolversion="1" segtype="sentence" o-tmf="x" adminlang="en" \
srclang="en" datatype="plaintext"/><body>
<tu><tuv xml:lang="en"><seg>the <bpt i="1">b</bpt>girl<ept i="1">b</ept>.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>yes</seg></tuv><tuv xml:lang="fr-FR"><seg>oui</seg></tuv></tu>
</body></tmx>
"""
MARKDOWN = r"""---
title: left alone
---

# a heading with *emphasis* #

a paragraph with a [link](http://x.org "a title") and **bold *words***.
its second line\
and one after a break.

> quoted
> words

| name | what \| or |
|------|------------|
| some *x* | more words |

- an item
  goes on
  1. within

```
code
```
"""
RUN = '<w:r>{}<w:t xml:space="preserve">{}</w:t></w:r>'
FILES = {
    "a.docx": docx(
        "<w:p><w:pPr/>"
        + RUN.format("", "plain and ")
        + RUN.format("<w:rPr><w:b/></w:rPr>", "bold")
        + RUN.format("", " text.")
        + "</w:p><w:sectPr/>",
        header="<w:p>" + RUN.format("", "the header") + "</w:p>",
    ),
    "a.pptx": pptx(
        '<a:p><a:r><a:rPr b="1"/><a:t>bold</a:t></a:r><a:r><a:t> and plain text</a:t></a:r><a:endParaRPr/></a:p>'
    ),
    "a.odt": odt(
        '<text:h>a heading</text:h><text:p>with <text:span text:style-name="T1">bold</text:span> text</text:p>'
    ),
    "a.epub": epub("<h1>a heading</h1><p>with <b>bold</b> text</p>"),
    "a.srt": SRT.encode(),
    "a.vtt": VTT.encode(),
    "a.po": PO.encode(),
    "a.xlf": XLIFF.encode(),
    "a.xliff": XLIFF2.encode(),
    "a.tmx": TMX.encode(),
    "a.properties": b"# a comment\ntitle=the title\nlong=goes on\nempty=\n",
    "a.json": b'{"key": "some <b>text</b>", "n": 1.50,\n "list": ["one", "", "two\\nlines", {"key": "\\"word\\""}]}\n',
    "a.csv": b'id,text,more\r\n1,"hello, you",x y\r\n2,world,z\r\n',
    "a.md": MARKDOWN.encode(),
    "a.txt": b"a line.\r\n\r\n  another <b>line</b>\n1 < 2",
}


def read(name: str, data: bytes | None = None, language: str = "fr") -> Document:
    """One of the documents, or ``data`` read as one, for a translation into this language."""
    columns = ["text"] if name.endswith(".csv") else []
    return read_document(name, FILES[name] if data is None else data, columns, ("en", language))


def upper(segment: Segment) -> Segment:
    """A segment in capitals, but for what is kept."""
    text = list(segment.text.upper() if len(segment.text.upper()) == len(segment.text) else segment.text)
    for start, end in segment.keep:
        text[start:end] = segment.text[start:end]
    return replace(segment, text="".join(text))


def capitals(name: str, data: bytes | None = None) -> bytes:
    """A document with its segments in capitals."""
    document = read(name, data)
    return document.write([upper(segment) for segment in document.segments])
