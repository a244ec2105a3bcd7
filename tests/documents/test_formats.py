"""What holds for every format."""

import contextlib
import random
import sys
import zipfile
from typing import Any

import pytest

from nmtkit.documents.formats import SUFFIXES, is_document, read_document
from nmtkit.errors import UserError
from tests.documents.files import FILES, ODF, XLIFF, archive, capitals, read, unpacked

ARCHIVES = ["a.docx", "a.pptx", "a.odt", "a.epub"]
every_file = pytest.mark.parametrize("name", FILES)


def contents(name: str, data: bytes) -> dict[str, bytes]:
    """The files of an archive; else the file."""
    return unpacked(data) if name in ARCHIVES else {name: data}


def placed(name: str, data: bytes) -> list[tuple[str, list[tuple[int, int, bool]]]]:
    """The segments of a document, their elements without the keys that each reading has of its own."""
    return [(s.text, [(m.start, m.end, m.splits) for m in s.marks]) for s in read(name, data).segments]


@every_file
def test_a_translation_into_itself_has_the_same_text_and_markup(name: str) -> None:
    document = read(name)
    written = document.write(document.segments)
    if name in ("a.po", "a.xlf", "a.xliff", "a.tmx"):  # now with all translations
        assert read(name, written).segments == []
    else:
        assert placed(name, written) == placed(name, FILES[name])


@every_file
def test_a_translation_into_capitals_changes_nothing_but_letters(name: str) -> None:
    document = read(name)
    assert len(document.segments) > 0
    same, changed = contents(name, document.write(document.segments)), contents(name, capitals(name))
    assert list(same) == list(changed)
    assert any(changed[file] != same[file] for file in same)
    for file in same:
        assert changed[file].decode("latin-1").lower() == same[file].decode("latin-1").lower()


@pytest.mark.parametrize(
    ("name", "element", "before", "after"),
    [
        ("a.odt", "<text:page-number/>", f"<text:p {ODF}>", "</text:p>"),
        ("a.xlf", '<x id="2"/>', XLIFF[: XLIFF.index("the <g")], XLIFF[XLIFF.index("</source>") :]),
        ("a.md", "![x](d.png)", "", ""),
        ("a.json", "<br>", '["', '"]'),
        ("a.html", "<img>", "", ""),
    ],
)
def test_of_the_spaces_around_an_element_without_text_the_model_sees_one_and_the_file_keeps_both(
    name: str, element: str, before: str, after: str
) -> None:
    data = f"{before}a dog {element} runs{after}".encode()
    file = patched(FILES[name], "content.xml", data) if name in ARCHIVES else data
    assert read(name, file).segments[0].text == "a dog runs"
    assert any(f"A DOG {element} RUNS".encode() in content for content in contents(name, capitals(name, file)).values())


@pytest.mark.parametrize("name", ["a.html", "a.md"])
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("我们今天\n去公园。", "我们今天去公园。"),
        ("今日は、\n公園に\n行く", "今日は、公園に行く"),
        ("我们 今天", "我们 今天"),  # a space that is meant
        ("我们用\nPython。", "我们用 Python。"),
        ("우리는\n공원에", "우리는 공원에"),
        ("one\ntwo", "one two"),
    ],
)
def test_lines_of_chinese_and_japanese_are_joined_without_a_space(name: str, written: str, text: str) -> None:
    page = f"<p>{written}</p>" if name.endswith("html") else written
    assert [segment.text for segment in read(name, page.encode()).segments] == [text]


@pytest.mark.parametrize("name", ARCHIVES)
def test_files_of_an_archive_without_text_stay_as_they_are(name: str) -> None:
    before, after = unpacked(FILES[name]), unpacked(capitals(name))
    assert list(before) == list(after)
    changed = [file for file in before if before[file] != after[file]]
    assert changed == [file for file in changed if file.endswith((".xml", ".xhtml"))]
    assert len(changed) < len(before)


def read_or_refused(name: str, data: bytes) -> bytes | None:
    """A translation of a file, or None if it is refused, which takes one line with its name."""
    try:
        return capitals(name, data)
    except UserError as error:
        reason = str(error)
    assert reason.startswith(f"{name}: ")
    assert "\n" not in reason
    return None


@every_file
def test_damaged_files_are_refused_in_a_line_or_read(name: str) -> None:
    draw = random.Random(name)
    for _ in range(20):
        data = bytearray(FILES[name])
        for _ in range(draw.choice([1, 2, 10])):
            place = draw.randrange(len(data))
            match draw.randrange(4):
                case 0:
                    data[place] = draw.randrange(256)
                case 1:
                    del data[place : place + draw.choice([1, 10])]
                case 2:
                    data[place:place] = draw.choice(
                        [b"<", b">", b'"', b"\\", b"\0", b"\xff", b"\n\n", b"<b>", b"-->", b"{"]
                    )
                case _:
                    data[place:place] = data[:100]
        written = read_or_refused(name, bytes(data))
        if written is not None:
            read(name, written)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.pdf", "it was made from"),
        ("a.DOC", "docx"),
        ("a.docm", "docx"),
        ("a.pptm", "pptx"),
        ("a.ods", "csv"),
        ("a.HTML.gz", "decompress"),
        ("a.xml", "standard input"),
        ("a.sdlxliff", "extract the text"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_a_remedy(name: str, remedy: str) -> None:
    assert is_document(name)
    with pytest.raises(UserError, match=f"^{name}: cannot be translated: .*{remedy}"):
        read_document(name, b"", [], ("", ""))


def test_other_files_are_no_documents() -> None:
    assert not is_document("text.txt")
    assert not is_document("docx")
    assert not any(is_document(f"text.txt{suffix}") for suffix in (".gz", ".zst"))
    assert not any(is_document(f"newstest.{code}") for code in ("en", "ts", "yml", "tex", "lrc", "ass", "zh-CN"))
    assert all(is_document(f"a{suffix}") for suffix in SUFFIXES if suffix != ".txt")  # whose lines are translated
    with pytest.raises(UserError, match=r"^text\.tex: is not a supported document; supported are \.html"):
        read_document("text.tex", b"", [], ("", ""))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_has_a_reader(suffix: str) -> None:
    with contextlib.suppress(UserError):
        read_document(f"a{suffix}", b"", [], ("en", "fr"))


def test_columns_are_of_tables() -> None:
    with pytest.raises(UserError, match=r"^a\.md: `columns` is for tables"):
        read_document("a.md", b"", ["1"], ("", ""))


def test_without_the_extra_a_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "webvtt", None)
    monkeypatch.delitem(sys.modules, "nmtkit.documents.subtitles", raising=False)
    with pytest.raises(UserError, match=r"^a\.srt: reading it needs webvtt; pip install 'nmtkit\[files\]'$"):
        read_document("a.srt", b"", [], ("", ""))


@every_file
def test_text_in_another_encoding_is_refused_or_read(name: str) -> None:
    for data in (b"\xe9t\xe9\n" * 3, b"\xff\xfe" + "<b>é\n".encode("utf-16-le"), b"", b"\0" * 30):
        read_or_refused(name, data)


def patched(data: bytes, name: str, content: bytes) -> bytes:
    """An archive with another content of a file."""
    return archive({**unpacked(data), name: content})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" " * (51 << 20), r"its document\.xml has 51 MiB; the limit is 50 MiB"),
        (
            b'<!DOCTYPE a [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><a>&b;</a>',
            r"its document\.xml declares XML entities",
        ),
        (b"<a><b></a>", r"its document\.xml is not well-formed XML: .* line 1"),
        (b"<a>" * 300 + b"</a>" * 300, r"its document\.xml is not well-formed XML: Excessive depth"),
    ],
)
def test_hostile_xml_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=f"^a.docx: {reason}"):
        read("a.docx", patched(FILES["a.docx"], "document.xml", content))


def test_nothing_outside_of_a_file_is_read() -> None:
    secret = b'<!DOCTYPE w:document SYSTEM "file:///etc/passwd"><w:document xmlns:w="x"/>'
    assert read("a.docx", patched(FILES["a.docx"], "document.xml", secret)).segments[0].text == "the header"


def test_archives_that_unpack_to_too_much_are_refused() -> None:
    zeros = bytes(70 << 20)
    bomb = archive({f"{number}.bin": zeros for number in range(6)})
    assert len(bomb) < 1 << 20
    with pytest.raises(UserError, match=r"^a\.docx: contains 6 files of 420 MiB; the limit is 20000 of 400 MiB"):
        read("a.docx", bomb)


def test_damaged_archives_are_refused() -> None:
    with pytest.raises(UserError, match=r"^a\.docx: is damaged, or not in the format that its name implies"):
        read("a.docx", FILES["a.docx"][:-30])
    stored = archive({}, "a text that is not compressed")
    with pytest.raises(UserError, match=r"^a\.docx: is damaged: the checksum of its mimetype is wrong"):
        read("a.docx", stored.replace(b"a text", b"b text"))
    with pytest.raises(UserError, match=r"^a\.docx: is damaged: it cannot be unpacked"):
        read("a.docx", FILES["a.docx"][:60] + b"\xff" * 10 + FILES["a.docx"][70:])
    with pytest.raises(UserError, match=r"^a\.docx: contains no \[Content_Types\]\.xml, so it is not in the format"):
        read("a.docx", archive({"a.xml": ""}))


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_archives_with_two_files_of_a_name_are_refused(tmp_path: Any) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as packed:
        packed.writestr("one", "1")
        packed.writestr("one", "2")
    with pytest.raises(UserError, match=r"^a\.docx: contains two files of the same name"):
        read("a.docx", (tmp_path / "a.docx").read_bytes())


def test_encrypted_files_are_refused() -> None:
    with pytest.raises(UserError, match=r"^a\.docx: is encrypted or in an old binary format"):
        read("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
    data = bytearray(archive({"a.xml": "x"}))
    data[data.index(b"PK\1\2") + 8] |= 1
    with pytest.raises(UserError, match=r"^a\.docx: is encrypted; save it again without a password"):
        read("a.docx", bytes(data))
