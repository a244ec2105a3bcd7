import pytest

from nmtkit.errors import UserError
from tests.documents.files import FILES, archive, capitals, epub, read, unpacked


def test_a_chapter_stays_xhtml_with_its_markup() -> None:
    chapter = unpacked(capitals("a.epub"))["book/one 1.xhtml"].decode()
    assert chapter == (
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>A HEADING</h1><p>WITH <b>BOLD</b> TEXT</p></body></html>'
    )


def test_the_number_of_a_note_is_no_text() -> None:
    note = '<a xmlns:epub="http://www.idpf.org/2007/ops" epub:type="noteref" href="#n">1</a>'
    book = epub(f"<p>a man{note} is</p>")
    assert [segment.text for segment in read("a.epub", book).segments] == ["a man is"]
    assert f"<p>A MAN{note} IS</p>".encode() in unpacked(capitals("a.epub", book))["book/one 1.xhtml"]


def test_the_entities_of_xhtml_are_characters_of_its_text() -> None:
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'
    page = (
        f'{doctype}\n<html xmlns="http://www.w3.org/1999/xhtml"><body>'
        '<p title="caf&eacute; &amp;">it can&rsquo;t&nbsp;be &lt; &own;</p><pre><![CDATA[&nbsp;]]></pre></body></html>'
    )
    book = archive({**unpacked(FILES["a.epub"]), "book/one 1.xhtml": page})
    assert [segment.text for segment in read("a.epub", book).segments] == ["it can\u2019t\xa0be <"]
    written = unpacked(capitals("a.epub", book))["book/one 1.xhtml"].decode()
    assert written == page.replace("&eacute;", "\xe9").replace("it can&rsquo;t&nbsp;be", "IT CAN\u2019T\xa0BE")


def test_a_chapter_declares_the_language_of_its_translation() -> None:
    page = b'<html xmlns="http://www.w3.org/1999/xhtml" lang="en" xml:lang="en"><body><p>a</p></body></html>'
    book = archive({**unpacked(FILES["a.epub"]), "book/one 1.xhtml": page})
    assert unpacked(capitals("a.epub", book))["book/one 1.xhtml"] == page.replace(b'"en"', b'"fr"').replace(
        b">a<", b">A<"
    )


def test_a_book_declares_the_language_of_its_translation() -> None:
    package = unpacked(FILES["a.epub"])["book/list.opf"].replace(
        b"<package>",
        b'<?xml version="1.0"?>\n<package><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>a</dc:title>'
        b"<dc:language>en</dc:language><dc:language>la</dc:language></metadata>",
    )
    book = archive({**unpacked(FILES["a.epub"]), "book/list.opf": package})
    assert unpacked(capitals("a.epub", book))["book/list.opf"] == package.replace(b">en<", b">fr<")
    document = read("a.epub", book, "pt_BR")
    assert b">pt-BR<" in unpacked(document.write(document.segments))["book/list.opf"]


def test_a_chapter_that_the_book_lists_twice_is_read_once() -> None:
    again = b'<package><item href="./one%201.xhtml" media-type="application/xhtml+xml"/>'
    package = unpacked(FILES["a.epub"])["book/list.opf"].replace(b"<package>", again)
    book = archive({**unpacked(FILES["a.epub"]), "book/list.opf": package})
    assert read("a.epub", book).segments == read("a.epub").segments
    assert unpacked(capitals("a.epub", book))["book/one 1.xhtml"] == unpacked(capitals("a.epub"))["book/one 1.xhtml"]


def test_the_first_file_says_what_the_archive_is_and_is_not_compressed() -> None:
    assert capitals("a.epub")[30:58] == b"mimetypeapplication/epub+zip"


def test_books_that_are_protected_or_incomplete_are_refused() -> None:
    secret = '<encryption><CipherReference URI="book/one%201.xhtml"/></encryption>'
    with pytest.raises(UserError, match=r"^a\.epub: is encrypted \(book/one 1\.xhtml\), as books with copy protection"):
        read("a.epub", epub("<p>x</p>", encryption=secret))
    font = '<encryption><CipherReference URI="font.otf"/></encryption>'
    assert [segment.text for segment in read("a.epub", epub("<p>x</p>", encryption=font)).segments] == ["x"]
    files = unpacked(FILES["a.epub"])
    with pytest.raises(UserError, match=r"^a\.epub: contains no list of its files, so it is not an epub$"):
        read("a.epub", archive({**files, "META-INF/container.xml": "<container/>"}))
    del files["book/one 1.xhtml"]
    with pytest.raises(UserError, match=r"^a\.epub: contains no book/one 1\.xhtml"):
        read("a.epub", archive(files))
