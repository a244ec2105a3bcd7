import re
import time
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from nmtkit.documents.segment import Mark, Segment
from nmtkit.documents.sentences import sentences
from nmtkit.errors import UserError
from tests.documents.files import FILES, OOXML, RUN, A, W, archive, capitals, docx, odt, pptx, read, types, unpacked

BOLD = "<w:rPr><w:b/></w:rPr>"


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def texts(name: str, data: bytes) -> list[str]:
    return [segment.text for segment in read(name, data).segments]


def document(data: bytes) -> str:
    """The text of a Word document, without namespaces' names."""
    return unpacked(data)["document.xml"].decode().partition("<w:body>")[2].partition("</w:body>")[0]


def test_a_paragraph_is_one_segment_whatever_runs_it_has() -> None:
    bold = RUN.format("<w:rPr><w:b/><w:lang w:val='en'/></w:rPr>", "girl drinks")
    [segment] = read("a.docx", docx(paragraph(RUN.format("", "The little "), bold, RUN.format("", " milk.")))).segments
    assert segment.text == "The little girl drinks milk."
    assert [(mark.start, mark.end, mark.splits) for mark in segment.marks] == [(11, 22, True)]


def test_runs_that_look_alike_are_one() -> None:
    spell = "<w:proofErr w:type='spellStart'/>"
    runs = [
        RUN.format("<w:rPr><w:lang w:val='en'/></w:rPr>", "li"),
        spell,
        RUN.format("", "ttle"),
        RUN.format("<w:rPr/>", " girl"),
    ]
    [segment] = read("a.docx", docx(paragraph(*runs))).segments
    assert segment == Segment("little girl")


def test_text_has_the_formatting_of_its_mark_wherever_that_goes() -> None:
    file = read(
        "a.docx", docx(paragraph(RUN.format("", "the "), RUN.format(BOLD, "girl"), RUN.format("", " drinks milk.")))
    )
    [segment] = file.segments
    moved = Segment("milk drinks the girl.", (segment.marks[0]._replace(start=0, end=4),))
    assert document(file.write([moved])) == paragraph(RUN.format(BOLD, "milk"), RUN.format("", " drinks the girl."))


def test_images_footnotes_and_fields_are_kept_once_each() -> None:
    field = "".join(
        f"<w:r>{part}</w:r>"
        for part in ('<w:fldChar w:fldCharType="begin"/>', "<w:instrText>PAGE</w:instrText>",
                     '<w:fldChar w:fldCharType="separate"/>', "<w:t>7</w:t>", '<w:fldChar w:fldCharType="end"/>')
    )  # fmt: skip
    image, note = "<w:r><w:drawing/></w:r>", '<w:r><w:footnoteReference w:id="2"/></w:r>'
    runs = [
        RUN.format("", "a page "),
        field,
        RUN.format("", " an image "),
        image,
        RUN.format("", " a note"),
        note,
        RUN.format("", "."),
    ]
    data = docx(paragraph(*runs))
    assert texts("a.docx", data) == ["a page an image a note."]
    assert document(capitals("a.docx", data)) == document(data).replace("a page", "A PAGE").replace(
        "an image", "AN IMAGE").replace("a note", "A NOTE")  # fmt: skip


def test_notes_are_no_text_and_words_around_a_subscript_are_copied() -> None:
    raised = '<w:rPr><w:vertAlign w:val="{}script"/></w:rPr>'
    note, below = RUN.format(raised.format("super"), "1"), RUN.format(raised.format("sub"), "2")
    link = f'<w:hyperlink w:anchor="x">{note}</w:hyperlink>'
    runs = [RUN.format("", "a man"), note, link, RUN.format("", " in H"), below, RUN.format("", "O")]
    slide = '<a:r><a:t>a man</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>1</a:t></a:r><a:r><a:t> in it</a:t></a:r>'
    styles = (
        '<style:style style:name="T1"><style:text-properties style:text-position="super 58%"/></style:style>'
        '<style:style style:name="T2"><style:text-properties style:text-position="sub 58%"/></style:style>'
    )
    spans = '<text:span text:style-name="T1">1</text:span> in H<text:span text:style-name="T2">2</text:span>O'
    for name, data, text in (
        ("a.docx", docx(paragraph(*runs)), "a man in H2O"),
        ("a.pptx", pptx(f"<a:p>{slide}</a:p>"), "a man in it"),
        ("a.odt", odt(f"{styles}<text:p>a man{spans}</text:p>"), "a man in H2O"),
    ):
        document = read(name, data)
        [segment] = document.segments
        assert segment.text == text
        assert [segment.text[start:end] for start, end in segment.keep] == ["H2O"] * ("H2O" in text)
        same, changed = (unpacked(each) for each in (document.write([segment]), capitals(name, data)))
        assert {file: each.lower() for file, each in same.items()} == {
            file: each.lower() for file, each in changed.items()}  # fmt: skip


def test_links_are_around_their_text_whether_elements_or_fields() -> None:
    link = f'<w:hyperlink w:anchor="x">{RUN.format("", "here")}</w:hyperlink>'
    begin, separate = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate"))
    before = f'{begin}<w:r><w:instrText> HYPERLINK "x"</w:instrText></w:r>{separate}'
    after = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    for inside in (link, before + RUN.format("", "here") + after):
        data = docx(paragraph(RUN.format("", "look "), inside, RUN.format("", " now")))
        [segment] = read("a.docx", data).segments
        assert (segment.text, [mark[:2] for mark in segment.marks]) == ("look here now", [(5, 9)])
        assert document(capitals("a.docx", data)) == document(data).replace("look", "LOOK").replace(
            "here", "HERE").replace("now", "NOW")  # fmt: skip


def test_the_spaces_beside_a_long_link_are_not_underlined() -> None:
    line, words = "<w:rPr><w:u/></w:rPr>", "the words of a long link"
    code = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    field = f"{code.format('begin')}<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>{code.format('separate')}{{}}"
    for link in ("<w:hyperlink>{}</w:hyperlink>", field + code.format("end")):
        linked = link.format(RUN.format(line, words))
        data = docx(paragraph(RUN.format("", "see "), linked, RUN.format("", " now")))
        file = read("a.docx", data)
        [segment] = file.segments
        assert [segment.text[mark.start : mark.end] for mark in segment.marks] == [words, words]
        assert document(file.write([segment])) == document(data)
    slide = f"<a:r><a:t>see </a:t></a:r><a:r><a:rPr><a:hlinkClick/></a:rPr><a:t>{words}</a:t></a:r>"
    [segment] = read("a.pptx", pptx(f"<a:p>{slide}</a:p>")).segments
    assert [segment.text[mark.start : mark.end] for mark in segment.marks] == [words]
    [segment] = read("a.docx", docx(paragraph(link.format(RUN.format(BOLD, "a") + RUN.format(line, words))))).segments
    assert [segment.text[mark.start : mark.end] for mark in segment.marks] == [f"a{words}", "a"]


@pytest.mark.parametrize("properties", ["", BOLD])
def test_text_in_the_runs_of_a_field_is_translated_but_not_its_result(properties: str) -> None:
    begin, separate, end = (f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "separate", "end"))
    words, result, rest = (f'<w:t xml:space="preserve">{text}</w:t>' for text in ("a page ", "seven", " of it"))
    split = f"</w:r><w:r>{properties}"
    for code, text in (("PAGE", "a page of it"), ('HYPERLINK "x"', "a page seven of it")):
        for between in ("", split):
            code_and_result = [f"<w:instrText>{code}</w:instrText>", separate, result]
            field = between.join([words + begin, *code_and_result, end + rest])
            data = docx(paragraph(f"<w:r>{properties}{field}</w:r>"))
            assert texts("a.docx", data) == [text]
            parts = split.join([words, begin, *code_and_result, end, rest])
            parts = parts.replace("a page", "A PAGE").replace("of it", "OF IT")
            expected = paragraph(f"<w:r>{properties}{parts}</w:r>")
            assert document(capitals("a.docx", data)) == (
                expected if code == "PAGE" else expected.replace("seven", "SEVEN")
            )


def test_a_field_that_ends_in_another_paragraph_stays_around_the_text() -> None:
    begin, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end"))
    data = docx(paragraph(begin, RUN.format("", "contents")) + paragraph(RUN.format("", "chapter"), end))
    assert document(capitals("a.docx", data)) == document(data).replace("contents", "CONTENTS").replace(
        "chapter", "CHAPTER"
    )


def test_tabs_and_line_breaks_are_white_space_to_the_model_and_stay() -> None:
    data = docx("<w:p><w:r><w:t>one </w:t><w:br/><w:t>two</w:t><w:tab/><w:t>three</w:t></w:r></w:p>")
    assert texts("a.docx", data) == ["one two\tthree"]
    written = document(capitals("a.docx", data))
    assert [node.tag for node in ElementTree.fromstring(written.replace("w:", "").replace("xml:", "")).iter()] == (
        "p r t r br r t r tab r t".split()
    )
    assert ">ONE</w:t>" in written


@pytest.mark.parametrize("inside", ["<w:tab/>", "<w:br/>"])
def test_an_inserted_tab_or_line_break_separates_words(inside: str) -> None:
    inserted = f'<w:ins w:id="1" w:author="x"><w:r>{inside}</w:r></w:ins>'
    data = docx(paragraph(RUN.format("", "a"), inserted, RUN.format("", "b")))
    assert [text.split() for text in texts("a.docx", data)] == [["a", "b"]]
    assert document(data).count(inside) == document(capitals("a.docx", data)).count(inside) == 1


def test_columns_keep_their_tabs() -> None:
    tab = "<w:r><w:rPr><w:u/></w:rPr><w:tab/></w:r>"
    for name, data in (
        (
            "a.docx",
            docx(paragraph(RUN.format("", "name"), tab, RUN.format(BOLD, "age"), tab, tab, RUN.format("", "42"))),
        ),
        ("a.pptx", pptx("<a:p><a:r><a:t>name\tage\t\t42</a:t></a:r></a:p>")),
        ("a.odt", odt("<text:p>name<text:tab/><text:span>age</text:span><text:tab/><text:tab/>42</text:p>")),
    ):
        file = read(name, data)
        [segment] = file.segments
        assert [segment.text[a:b] for a, b in sentences(segment.text, "en", True)] == ["name", "age", "42"]
        assert unpacked(file.write([segment])) == unpacked(data)


def test_text_boxes_tables_headers_and_notes_are_read() -> None:
    box = f"<w:r><w:pict><w:txbxContent>{paragraph(RUN.format('', 'inside'))}</w:txbxContent></w:pict></w:r>"
    table = f"<w:tbl><w:tr><w:tc>{paragraph(RUN.format('', 'cell'))}</w:tc></w:tr></w:tbl>"
    data = docx(paragraph(RUN.format("", "outside "), box) + table, header=paragraph(RUN.format("", "top")))
    assert texts("a.docx", data) == ["outside", "inside", "cell", "top"]
    assert texts("a.docx", capitals("a.docx", data)) == ["OUTSIDE", "INSIDE", "CELL", "TOP"]


@pytest.mark.parametrize(
    ("part", "root"),
    [
        ("wordprocessingml.footnotes", f"<w:footnotes {W}><w:footnote>{{}}</w:footnote></w:footnotes>"),
        ("wordprocessingml.endnotes", f"<w:endnotes {W}><w:endnote>{{}}</w:endnote></w:endnotes>"),
        ("presentationml.notesSlide", f"<a:txBody {A}>{{}}</a:txBody>"),
        ("drawingml.diagramData", f"<a:txBody {A}>{{}}</a:txBody>"),
        ("drawingml.diagramDrawing", f"<a:txBody {A}>{{}}</a:txBody>"),
    ],
)
def test_every_part_with_paragraphs_is_read_in_both_namespaces(part: str, root: str) -> None:
    text = paragraph(RUN.format("", "one")) if "w:" in root else "<a:p><a:r><a:t>one</a:t></a:r></a:p>"
    transitional = root.format(text)
    strict = re.sub('http://schemas[^"]*/([a-z]+)/2006/main', r"http://purl.oclc.org/ooxml/\1/main", transitional)
    for file in (transitional, strict):
        data = archive({"[Content_Types].xml": types(part=f"{OOXML}{part}+xml"), "part.xml": file})
        assert texts("a.docx", data) == ["one"]
        assert unpacked(capitals("a.docx", data))["part.xml"].decode() == file.replace("one", "ONE")


def test_inserted_text_is_translated_and_deleted_text_is_not() -> None:
    runs = f"<w:ins>{RUN.format('', 'new ')}</w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
    assert texts("a.docx", docx(paragraph(runs, RUN.format("", "text")))) == ["new text"]


def test_content_controls_keep_their_properties() -> None:
    control = f"<w:sdt><w:sdtPr><w:id/></w:sdtPr><w:sdtContent>{RUN.format('', 'choice')}</w:sdtContent></w:sdt>"
    data = docx(paragraph(RUN.format("", "your "), control))
    assert document(capitals("a.docx", data)) == document(data).replace("your", "YOUR").replace("choice", "CHOICE")
    loext = 'xmlns:loext="urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"'
    control = f'<loext:content-control {loext} loext:dropdown="true">{{}}</loext:content-control>'
    data = odt(f"<text:p>your {control.format('choice')}</text:p>")
    assert texts("a.odt", data) == ["your choice"]
    assert f"YOUR {control.format('CHOICE')}<".encode() in unpacked(capitals("a.odt", data))["content.xml"]


def test_a_word_with_its_reading_above_is_translated_and_the_reading_stays() -> None:
    reading = f"<w:rubyPr/><w:rt>{RUN.format('', 'miyako')}</w:rt>"
    word = f"<w:r><w:ruby>{reading}<w:rubyBase>{RUN.format('', 'tokyo')}</w:rubyBase></w:ruby></w:r>"
    for name, data in (
        ("a.docx", docx(paragraph(RUN.format("", "in "), word))),
        ("a.odt", odt("<text:p>in <text:ruby><text:ruby-base>tokyo</text:ruby-base><text:ruby-text>miyako"
                      "</text:ruby-text></text:ruby></text:p>")),
    ):  # fmt: skip
        assert texts(name, data) == ["in tokyo"]
        assert unpacked(capitals(name, data)) == {
            file: content.replace(b">in ", b">IN ").replace(b"tokyo", b"TOKYO")
            for file, content in unpacked(data).items()
        }


def test_numbers_alone_are_left_alone() -> None:
    assert texts("a.docx", docx(paragraph(RUN.format("", "12.5 %")) + paragraph())) == []


def test_many_empty_paragraphs_take_little_time() -> None:
    data = docx("<w:p/>" * 100_000 + paragraph(RUN.format("", "end")))
    assert texts("a.docx", data) == ["end"]


@pytest.mark.slow
def test_a_run_of_many_tabs_takes_little_time() -> None:
    data = docx(paragraph("<w:r><w:t>a</w:t>" + "<w:tab/><w:t>a</w:t>" * 24_000 + "</w:r>"))
    began = time.process_time()
    file = read("a.docx", data)
    file.write(file.segments)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(("name", "make", "tag"), [("a.docx", docx, "w:p"), ("a.odt", odt, "text:p")])
def test_paragraphs_may_be_in_each_other_but_not_deep(name: str, make: Callable[[str], bytes], tag: str) -> None:
    text = RUN.format("", "a b") if tag == "w:p" else "a b"

    def nested(depth: int) -> bytes:
        return make(f"<{tag}>" * depth + text + f"</{tag}>" * depth)

    assert texts(name, nested(8))
    with pytest.raises(UserError, match="has paragraphs nested more than 8 deep"):
        read(name, nested(9))


def test_characters_that_xml_cannot_have_are_left_out() -> None:
    for name in ("a.docx", "a.odt"):
        file = read(name)
        written = file.write([Segment("a\x00b\x1bc") for _ in file.segments])
        assert texts(name, written) == ["abc"] * len(file.segments)


def test_the_end_of_a_slide_s_paragraph_stays_last() -> None:
    data = pptx('<a:p><a:pPr/><a:r><a:t>one</a:t></a:r><a:br/><a:r><a:t>two</a:t></a:r><a:endParaRPr lang="en"/></a:p>')
    slide = unpacked(capitals("a.pptx", data))["slide.xml"].decode()
    text = '<a:pPr/><a:r><a:t>ONE</a:t></a:r><a:br/><a:r><a:t>TWO</a:t></a:r><a:endParaRPr lang="en"/>'
    assert slide == f"<a:txBody {A}><a:p>{text}</a:p></a:txBody>"


def test_paragraphs_have_the_writing_direction_of_the_translation() -> None:
    body = (
        '<w:p><w:pPr><w:keepNext/><w:jc w:val="center"/></w:pPr>'
        + RUN.format("", "a b")
        + RUN.format(BOLD, "c")
        + "</w:p>"
    )
    rtl = read("a.docx", docx(body), "ckb")
    written = rtl.write(rtl.segments)
    assert document(written) == (
        '<w:p><w:pPr><w:keepNext/><w:bidi/><w:jc w:val="center"/></w:pPr>'
        + RUN.format("<w:rPr><w:rtl/></w:rPr>", "a b")
        + RUN.format("<w:rPr><w:b/><w:rtl/></w:rPr>", "c")
        + "</w:p>"
    )
    ltr = read("a.docx", written, "es")
    assert document(ltr.write(ltr.segments)) == body.replace("<w:r><w:t", "<w:r><w:rPr/><w:t")
    quoted = paragraph(RUN.format("", "a "), RUN.format("<w:rPr><w:rtl/></w:rPr>", "b"))
    file = read("a.docx", docx(quoted), "es")
    assert document(file.write(file.segments)) == quoted
    slide = "<a:p><a:r><a:t>one</a:t></a:r></a:p>"
    rtl = read("a.pptx", pptx(slide), "ar")
    written = rtl.write(rtl.segments)
    assert '<a:p><a:pPr rtl="1"/><a:r>' in unpacked(written)["slide.xml"].decode()
    ltr = read("a.pptx", written, "es")
    assert "rtl" not in unpacked(ltr.write(ltr.segments))["slide.xml"].decode()


def test_notes_of_opendocument_are_kept_in_their_text_and_translated() -> None:
    body = "<text:note-body><text:p>of this</text:p></text:note-body>"
    note = f"<text:note><text:note-citation>1</text:note-citation>{body}</text:note>"
    data = odt(f"<text:p>a note{note} in <text:span>bold</text:span><text:line-break/>text<text:s/></text:p>")
    assert texts("a.odt", data) == ["a note in bold text", "of this"]
    written = unpacked(capitals("a.odt", data))["content.xml"].decode()
    capital = note.replace("of this", "OF THIS")
    assert f"<text:p>A NOTE{capital} IN <text:span>BOLD</text:span><text:line-break/>TEXT<text:s/></text:p>" in written


@pytest.mark.parametrize("inside", [" ", "<text:s/>", "<text:tab/>", "<text:span><text:line-break/></text:span>"])
def test_a_span_of_white_space_in_opendocument_separates_words(inside: str) -> None:
    span = f"<text:span>{inside}</text:span>"
    data = odt(f"<text:p>{span}a{span}<text:span>bold</text:span>{span} text{span}</text:p>")
    assert [text.split() for text in texts("a.odt", data)] == [["a", "bold", "text"]]
    written = unpacked(capitals("a.odt", data))["content.xml"].decode()
    assert f"<text:p>{span}A{span}<text:span>BOLD</text:span>{span}TEXT{span}</text:p>" in written


def test_of_the_styles_of_opendocument_headers_and_footers_are_translated() -> None:
    footer = "<style:footer><text:p>page <text:page-number>1</text:page-number></text:p></style:footer>"
    data = odt("", f"<text:p>a style</text:p>{footer}")
    assert texts("a.odt", data) == ["page"]


def test_the_footers_of_slides_of_opendocument_are_translated() -> None:
    namespace = 'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"'
    footer = f'<presentation:footer-decl {namespace} presentation:name="ftr1">{{}}</presentation:footer-decl>'
    data = odt(f"{footer.format('on every slide')}<text:p>a slide</text:p>")
    assert texts("a.odp", data) == ["on every slide", "a slide"]
    assert footer.format("ON EVERY SLIDE").encode() in unpacked(capitals("a.odp", data))["content.xml"]


def test_comments_and_deleted_paragraphs_of_opendocument_are_not_translated() -> None:
    aside = "<office:annotation><text:p>comment</text:p></office:annotation>"
    data = odt(f"<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes><text:p>text{aside}</text:p>")
    assert texts("a.odt", data) == ["text"]
    assert aside in unpacked(capitals("a.odt", data))["content.xml"].decode()


def test_the_list_of_parts_may_have_missing_ones_and_other_cases() -> None:
    listed = types(Document=f"{OOXML}wordprocessingml.document.main+xml", footer=f"{OOXML}wordprocessingml.footer+xml")
    data = archive({**unpacked(docx(paragraph(RUN.format("", "text")))), "[Content_Types].xml": listed})
    assert document(capitals("a.docx", data)) == paragraph(RUN.format("", "TEXT"))


def test_documents_with_macros_are_refused() -> None:
    kind = "application/vnd.ms-word.document.macroEnabled.main+xml"
    with pytest.raises(UserError, match=r"^a\.docx: has macros, which are programs; save it without them"):
        read("a.docx", archive({"[Content_Types].xml": types(document=kind), "document.xml": "<a/>"}))
    listed = types(document=f"{OOXML}wordprocessingml.document.main+xml", macros="application/vnd.ms-office.vbaProject")
    with pytest.raises(UserError, match=r"^a\.docx: has macros, which are programs; save it without them"):
        read("a.docx", archive({**unpacked(FILES["a.docx"]), "[Content_Types].xml": listed}))
    for program in ("Basic/Standard/Module1.xml", "Scripts/python/a.py"):
        with pytest.raises(UserError, match=r"^a\.odt: has macros, which are programs; save it without them"):
            read("a.odt", archive({**unpacked(FILES["a.odt"]), program: ""}))


def test_encrypted_documents_of_opendocument_are_refused() -> None:
    secret = "<manifest><encryption-data/></manifest>"
    for files in ({"META-INF/manifest.xml": secret}, {"encrypted-package": "x"}):
        with pytest.raises(UserError, match=r"^a\.odt: is encrypted; save it again without a password"):
            read("a.odt", archive({**unpacked(FILES["a.odt"]), **files}))


def test_office_files_of_another_kind_are_refused() -> None:
    sheet = types(sheet=f"{OOXML}spreadsheetml.sheet+xml")
    with pytest.raises(UserError, match=r"^a\.docx: contains no text of a docx or pptx"):
        read("a.docx", archive({"[Content_Types].xml": sheet, "sheet.xml": "<a/>"}))


def test_marks_are_keys_that_come_back() -> None:
    [segment] = read("a.pptx").segments
    assert segment.text == "bold and plain text"
    assert segment.marks == (Mark(0, 4, segment.marks[0].element, True),)
