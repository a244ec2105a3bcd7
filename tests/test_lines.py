import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ElementTree, SubElement

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.lines import count_lines, decode_line, read_lines

STRANGE = "a\r\x00\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\u00a0\ufeff\t é😀"
PACKED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("text", lambda content: content),
    ("text.gz", gzip.compress),
    ("text.zst", lambda content: zstandard.ZstdCompressor().compress(content)),
]

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_one_folder
@given(lines=st.lists(st.text(st.sampled_from(STRANGE))), final_newline=st.booleans())
@pytest.mark.parametrize(("name", "pack"), PACKED)
def test_a_line_ends_in_newline_and_nothing_else(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], lines: list[str], final_newline: bool
) -> None:
    if not final_newline and lines and not lines[-1]:
        lines = [*lines, "last"]
    text = "\n".join(lines) + ("\n" if final_newline and lines else "")
    (tmp_path / name).write_bytes(pack(text.encode()))
    expected = [line.removesuffix("\r") for line in lines]
    expected[:1] = [line.removeprefix("\ufeff") for line in expected[:1]]
    assert list(read_lines(tmp_path / name)) == expected
    assert count_lines(tmp_path / name) == len(lines)


CELL = st.text(st.sampled_from(STRANGE.replace("\t", "").replace("\r", "")))


@in_one_folder
@given(rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1))
@pytest.mark.parametrize(("name", "pack"), PACKED)
def test_a_column_of_a_table_is_a_text(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], rows: list[tuple[str, str, str]]
) -> None:
    table = tmp_path / name.replace("text", "text.tsv")
    table.write_bytes(pack("\r\n".join("\t".join(row) for row in rows).encode()))
    for number, column in enumerate(zip(*rows, strict=True), 1):
        assert list(read_lines(f"{table}:{number}")) == [column[0].removeprefix("\ufeff"), *column[1:]]


def test_a_line_without_the_column_is_named(tmp_path: Path) -> None:
    table = tmp_path / "text.tsv"
    table.write_text("a\tb\na b\n")
    with pytest.raises(UserError, match=r"text\.tsv: line 2 has 1 column, so no column 2; fix the line, or name"):
        list(read_lines(f"{table}:2"))
    with pytest.raises(UserError, match=r"text\.tsv:9{5000}: cannot be read: "):
        list(read_lines(f"{table}:{'9' * 5_000}"))
    table.write_bytes("a\tb\r\n".encode("utf-16"))
    with pytest.raises(UserError, match=r"text\.tsv:1: byte 0xFF is not UTF-8; .* iconv -f utf-16 -t utf-8"):
        list(read_lines(f"{table}:2"))
    table.write_bytes(b"a\tb\nc\td\x93\n")
    with pytest.raises(UserError, match=r"text\.tsv:2, column 2: byte 0x93 is not UTF-8; .* iconv -f cp1252 "):
        list(read_lines(f"{table}:2"))


def test_a_blank_line_of_a_table_is_an_empty_row(tmp_path: Path) -> None:
    table = tmp_path / "text.tsv"
    table.write_text("a\tb\n\nc\td\n \n")
    assert [list(read_lines(f"{table}:{column}")) for column in (1, 2)] == [["a", "", "c", ""], ["b", "", "d", ""]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], ids=["some quoted", "all quoted"])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_cell_of_csv_may_have_other_delimiters(tmp_path: Path, delimiter: str, quoting: Any, first: int) -> None:
    """As Excel writes sentences with commas between semicolons, without quotation marks."""
    rows = [
        ("Sí, señor.", "Heẽ, karai."),
        ("Hola, dijo; y vino.", "Maitei, he'i; ou."),
        ('«Voy», "ya", digo.', "Aha, ha."),
    ]
    with open(tmp_path / "text.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, quoting=quoting).writerows(rows[first:])
    read = zip(*(read_lines(f"{tmp_path}/text.csv:{column}") for column in (1, 2)), strict=True)
    assert list(read) == rows[first:]


def test_a_quoted_cell_of_csv_may_have_a_space_before_it(tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text('"Sí, señor", "Heẽ, karai"\nMaría,  María\n')
    read = [list(read_lines(f"{tmp_path}/text.csv:{column}")) for column in (1, 2)]
    assert read == [["Sí, señor", "María"], ["Heẽ, karai", "María"]]


def test_a_column_of_a_file_that_is_not_named_like_a_table_is_refused_unless_a_file_has_that_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "text.txt").write_text("a\tb\n")
    message = r"text\.txt:1: a column of a table, which must be named \.tsv .*; rename .*text\.txt$"
    with pytest.raises(UserError, match=message):
        list(read_lines(tmp_path / "text.txt:1"))
    (tmp_path / "text.txt:1").write_text("c\n")
    assert list(read_lines(tmp_path / "text.txt:1")) == ["c"]


MEMORY = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="*all*" segtype="sentence"><note>en: none</note></header><body>
<tu><tuv xml:lang="es-MX"><seg>Uno &amp; dos.</seg></tuv><tuv xml:lang="gn"><seg>Peteĩ
  ha mokõi.</seg></tuv></tu>
<tu><note>no Guaraní</note><tuv xml:lang="es-ES"><seg>Tres.</seg></tuv><tuv xml:lang="ES"><seg>¡Tres!</seg></tuv></tu>
<tu><tuv lang="GN"><seg><bpt i="1">&lt;b&gt;</bpt>Irundy<ept i="1">&lt;/b&gt;</ept>, <hi>po</hi><ph/>.
<ph type="lb"/>Poteĩ.</seg></tuv></tu>
</body></tmx>"""


@pytest.mark.parametrize(("name", "pack"), PACKED)
def test_a_translation_memory_is_a_text_in_each_language(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    """Every unit is a line of each: code and line breaks are left out, and a text that is missing is empty."""
    memory = tmp_path / name.replace("text", "text.tmx")
    memory.write_bytes(pack(MEMORY.encode()))
    assert list(read_lines(f"{memory}:es")) == ["Uno & dos.", "¡Tres!", ""]
    assert list(read_lines(f"{memory}:es_MX")) == ["Uno & dos.", "¡Tres!", ""]
    assert list(read_lines(f"{memory}:es-ES")) == ["", "Tres.", ""]
    assert list(read_lines(f"{memory}:gn")) == ["Peteĩ ha mokõi.", "", "Irundy, po. Poteĩ."]


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" '),
        ('"1.0"?>', '"1.0" encoding="UTF8"?>'),
        ('"1.0"?>', "'1.0' encoding='utf8' standalone='no'?>"),
    ],
)
def test_a_translation_memory_may_have_a_namespace_and_utf_8_by_another_name(
    tmp_path: Path, written: str, instead: str
) -> None:
    (tmp_path / "text.tmx").write_text(MEMORY.replace(written, instead, 1))
    assert list(read_lines(f"{tmp_path}/text.tmx:es")) == ["Uno & dos.", "¡Tres!", ""]
    assert list(read_lines(f"{tmp_path}/text.tmx:gn")) == ["Peteĩ ha mokõi.", "", "Irundy, po. Poteĩ."]


def test_a_translation_memory_may_have_the_inline_elements_of_xliff(tmp_path: Path) -> None:
    written = '<g id="1">Uno <mrk mtype="x">&amp;</mrk></g><x id="2"/> d<g id="3"><ph>&lt;br/&gt;</ph>o</g>s.'
    (tmp_path / "text.tmx").write_text(MEMORY.replace("Uno &amp; dos.", written))
    assert list(read_lines(f"{tmp_path}/text.tmx:es")) == ["Uno & dos.", "¡Tres!", ""]


XML_TEXT = st.text(st.sampled_from(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "", STRANGE) + "\n<&"))


@in_one_folder
@given(texts=st.lists(st.tuples(XML_TEXT, XML_TEXT)))
def test_the_texts_of_a_memory_come_back(tmp_path: Path, texts: list[tuple[str, str]]) -> None:
    body, memory = Element("body"), Element("tmx")
    memory.append(body)
    for pair in [("a", "b"), *texts]:
        unit = SubElement(body, "tu")
        for language, text in zip(("en", "fr"), pair, strict=True):
            SubElement(SubElement(unit, "tuv", {"xml:lang": language}), "seg").text = text
    ElementTree(memory).write(tmp_path / "text.tmx", "utf-8")
    for side, language in enumerate(("en", "fr")):
        expected = [re.sub("[ \t\r\n]+", " ", text[side]) for text in texts]
        assert list(read_lines(f"{tmp_path}/text.tmx:{language}"))[1:] == expected


@pytest.mark.slow
@pytest.mark.parametrize("between", ["\n", ""], ids=["lines", "one line"])
def test_the_units_of_a_translation_memory_are_not_kept_in_memory(tmp_path: Path, between: str) -> None:
    unit = "<tu><tuv xml:lang='en'><seg>one</seg></tuv><tuv xml:lang='fr'><seg>un</seg></tuv></tu>"
    size = (tmp_path / "text.tmx").write_text(f"<tmx><body>{between.join([unit] * 20_000)}</body></tmx>")
    tracemalloc.start()
    assert sum(line == "un" for line in read_lines(f"{tmp_path}/text.tmx:fr")) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 6 * size  # of 23 times its size with all units
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MEMORY, r"text\.tmx: has no text in fr; it has es, es-es, es-mx, gn"),
        (MEMORY.replace("tu>", "unit>"), "text.tmx: has no text in fr; it has no unit"),
        (MEMORY[:-20], r"text\.tmx: cannot be read as XML \(.*line 8.*\); export .* again, in UTF-8"),
        (MEMORY.replace("?>", " encoding='GB2312'?>"), r"text\.tmx: cannot be read as XML \(multi-byte .*UTF-8"),
        (MEMORY.replace("?>", " encoding='UCS-2'?>"), r"text\.tmx: cannot be read as XML \(unknown encod.* in UTF-8"),
        ("", r"text\.tmx: cannot be read as XML"),
        ("<html><body/></html>", r"text\.tmx: is not TMX; export the translation memory again"),
    ],
)
def test_what_is_wrong_with_a_translation_memory_is_said(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "text.tmx").write_text(content)
    with pytest.raises(UserError, match=message):
        list(read_lines(f"{tmp_path}/text.tmx:fr"))


JSON = r"""{"translation": {"fr": "Un & \u0064eux.\n", "fon": "Ɖokpó\tkpó"}}

{"id": 7, "score": 0.5, "fr_BE": "Trois.", "fon": null}
{"fr": "Quatre \ud83d.", "translation": "no object", "fon": "Ɛnɛ."}"""


@pytest.mark.parametrize(("name", "pack"), PACKED)
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_json_lines_are_a_text_in_each_language(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], suffix: str
) -> None:
    """As of a translation memory; a lone surrogate, which is not text, is a question mark."""
    path = tmp_path / name.replace("text", f"text{suffix}")
    path.write_bytes(pack(JSON.encode()))
    assert list(read_lines(f"{path}:fr")) == ["Un & deux. ", "", "Trois.", "Quatre ?."]
    assert list(read_lines(f"{path}:fon")) == ["Ɖokpó kpó", "", "", "Ɛnɛ."]


@in_one_folder
@given(texts=st.lists(st.tuples(st.text(), st.text())))
def test_the_texts_of_json_lines_come_back(tmp_path: Path, texts: list[tuple[str, str]]) -> None:
    rows = [{"en": "a", "fr": "b"}, *({"translation": {"en": en, "fr": fr}} for en, fr in texts)]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for side, language in enumerate(("en", "fr")):
        expected = [re.sub("[ \t\r\n]+", " ", text[side]) for text in texts]
        assert list(read_lines(f"{tmp_path}/text.jsonl:{language}"))[1:] == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (JSON.encode(), r"text\.jsonl: has no text in en; it has fon, fr, fr-be, translation"),
        (b"", r"text\.jsonl: has no text in en; it has no line"),
        (
            b'{"en": "a"}\n{"en": \n',
            r'text\.jsonl:2: is not a JSON object such as \{"tr.*; write one object on each',
        ),
        (b'{"en": "a"}\n["b"]\n', r"text\.jsonl:2: is not a JSON object"),
        (b"[" * 100_000, r"text\.jsonl:1: is not a JSON object"),
        (b'{"en": 1' + b"0" * 5000 + b"}", r"text\.jsonl:1: is not a JSON object"),
        (b'{"en": "\xe9"}', r"text\.jsonl:1: byte 0xE9 is not UTF-8; convert the file"),
    ],
)
def test_what_is_wrong_with_json_lines_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "text.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(read_lines(f"{tmp_path}/text.jsonl:en"))


@pytest.mark.parametrize("language", ["spanish", "1"])
def test_what_follows_the_name_of_a_translation_memory_is_a_language(tmp_path: Path, language: str) -> None:
    (tmp_path / "text.TMX").write_text(MEMORY)
    assert list(read_lines(f"{tmp_path}/text.TMX:es-ES")) == ["", "Tres.", ""]
    with pytest.raises(UserError, match=rf"text\.TMX: has no text in {language}; it has es, "):
        list(read_lines(f"{tmp_path}/text.TMX:{language}"))


def test_one_carriage_return_is_part_of_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "dos").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\r\nthree")
    assert list(read_lines(tmp_path / "dos")) == ["one", "two\r", "three"]


def test_a_minus_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntw\xc3\xb6")))
    assert list(read_lines("-")) == ["one", "twö"]


def test_compressed_files_may_have_several_parts(tmp_path: Path) -> None:
    for name, pack in PACKED:
        (tmp_path / name).write_bytes(pack(b"one\ntw") + pack(b"o\nthree\n"))
        assert list(read_lines(tmp_path / name)) == ["one", "two", "three"]


def test_zstd_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    line = bytes(range(65, 91)) * 20_000
    (tmp_path / "text.zst").write_bytes(zstandard.ZstdCompressor().compress(line + b"\nend\n"))
    assert [len(line) for line in read_lines(tmp_path / "text.zst")] == [len(line), 3]


def test_bytes_that_are_not_utf8_are_reported_with_file_line_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"good\ncaf\xe9 noir\n")
    with pytest.raises(UserError, match=r"latin:2: byte 0xE9 is not UTF-8; convert .*iconv -f cp1252 -t utf-8 "):
        list(read_lines(tmp_path / "latin"))
    (tmp_path / "chinese").write_bytes("你好\n".encode("gb18030"))
    with pytest.raises(UserError, match=r"chinese:1: byte 0xC4 is not UTF-8; .*Chinese: gb18030"):
        list(read_lines(tmp_path / "chinese"))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress, lzma.compress, bz2.compress])
def test_a_compressed_file_without_its_suffix_is_not_taken_for_text_in_another_encoding(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "text.en").write_bytes(pack(b"good\n" * 100))
    with pytest.raises(UserError, match=r"text\.en:1: byte 0x.. is not UTF-8; it is a compressed file or a document"):
        list(read_lines(tmp_path / "text.en"))


def test_errors_name_standard_input_that_is_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n")))
    with pytest.raises(UserError, match="standard input:1: byte 0xFF"):
        list(read_lines("-"))


@pytest.mark.parametrize("name", ["no", "no.gz", "no.zst"])
def test_a_missing_file_is_a_user_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"{name}: cannot be read: No such file"):
        list(read_lines(tmp_path / name))


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(("name", "pack"), PACKED[1:])
def test_a_truncated_compressed_file_is_an_error(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / name).write_bytes(pack(os.urandom(300_000))[:-9])
    with pytest.raises(UserError, match=r"damaged or truncated .* download or compress it again"):
        count_lines(tmp_path / name)


@pytest.mark.parametrize("name", ["text.gz", "text.zst"])
def test_a_file_not_compressed_according_to_its_name_is_damaged(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"plain text\n")
    with pytest.raises(UserError, match="damaged"):
        count_lines(tmp_path / name)


@given(st.binary())
def test_every_line_can_be_decoded_for_a_filter(raw: bytes) -> None:
    assert "\n" not in decode_line(raw.replace(b"\n", b""), 1)


def test_decoding_for_a_filter_replaces_what_is_not_utf8() -> None:
    assert decode_line(b"caf\xe9\r\n", 1) == "caf\ufffd"
    assert decode_line("naïve\u2028".encode(), 1) == "naïve\u2028"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_for_text_in_utf_16_the_conversion_is_suggested(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "text").write_bytes("one\ntwo\ncafé\n".encode(encoding))
    with pytest.raises(UserError, match=r"text:\d: byte 0x.. is not UTF-8; convert .*iconv -f utf-16 -t utf-8"):
        list(read_lines(tmp_path / "text"))
