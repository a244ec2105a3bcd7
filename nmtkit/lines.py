"""Reading lines of text files, tables, translation memories, JSON lines and folders. A line ends only at \\n."""

import codecs
import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

import zstandard

from nmtkit import naming
from nmtkit.errors import UserError, counted

_BLOCK = 1 << 17
_COLUMN = re.compile(r"(.+?(\.(?i:tsv|csv)(?:\.gz|\.zst)?)?):([1-9][0-9]{0,8})")
SEPARATOR = re.compile(r'("?)sep=([,;\t|])\1(?:\r\n?|\n)')  # tells Excel the delimiter; not a row
_CODE = {"bpt", "ept", "it", "ph", "ut"}  # the inline elements of TMX whose content is code
_UNITS = re.compile(r"(.+\.(?i:tmx|jsonl?)(?:\.gz|\.zst)?):([^:/]+)")
_FOLDER = re.compile(rf"(.+?)/?:({naming.LANGUAGE})")
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"

# Excel still writes such lines, as "CSV (Macintosh)" and "Text (Macintosh)".
CARRIAGE_RETURN = "has \\r, which does not end a line; convert old Mac line ends, for example with: tr '\\r' '\\n'"

T = TypeVar("T")

# The first bytes of files that are not text: zip, pdf, doc, gz, zst, xz, bz2.
BINARY = (b"PK\3\4", b"%PDF-", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh91AY&SY")


def raw_lines(path: Path | str) -> Iterator[bytes]:
    """The lines of a file as bytes, \\n included. "-" is standard input; .gz and .zst files are decompressed.

    FILE.tsv:2 is the second column of FILE.tsv, FILE.tmx:es the Spanish text of a translation memory, FILE.jsonl:es
    that of JSON lines, and FOLDER:es that of all texts in a folder, one after the other. Raises UserError if the file
    cannot be read, is damaged, or lacks the column in a line or the language in all units, and as ``texts_of`` does.
    """
    file, side = file_of(path)
    if isinstance(side, str):
        return _joined(texts_of(path)) if file.is_dir() else _memory(file, side)
    return _lines_of_file(file) if side is None else _column(file, side)


def check_read_once(paths: Iterable[Path | str]) -> None:
    """Raise UserError if standard input is given more than once, or a file has an empty name."""
    names = list(map(str, paths))
    if "" in names:
        raise UserError("the name of an input file is empty; name a file, or - for standard input")
    if names.count("-") > 1:
        raise UserError("-: standard input can be read only once; name a file instead of the other -")


def file_of(path: Path | str) -> tuple[Path, int | str | None]:
    """The file or folder in a path of ``raw_lines``, and the column (from 1) or language of one side; None for none.

    Raises UserError for a column of a file that is not named like a table.
    """
    if memory := _UNITS.fullmatch(str(path)):
        return Path(memory[1]), memory[2]
    if (folder := _FOLDER.fullmatch(str(path))) and os.path.isdir(folder[1]):
        return Path(folder[1]), folder[2]
    match = _COLUMN.fullmatch(str(path))
    if match and match[2]:
        return Path(match[1]), int(match[3])
    if match and os.path.isfile(match[1]) and not os.path.exists(path):
        raise UserError(f"{path}: a column of a table, which must be named .tsv or .csv (.gz, .zst); rename {match[1]}")
    return Path(path), None


def texts_of(path: Path | str) -> list[Path]:
    """The texts that ``path`` consists of: those in a folder in one language, by name (``text_in``), or ``path`` alone.

    Raises UserError for a folder without texts, with a text that lacks the language, or with any other file.
    """
    file, language = file_of(path)
    if not isinstance(language, str) or not file.is_dir():
        return [Path(path)]
    usual = f"NAME.{language}, NAME.SRC-TGT.tsv, NAME.SRC-TGT.csv, NAME.tmx or NAME.jsonl"
    texts = dict[str, dict[str, Path]]()
    for each in files_in(file):
        name, found = naming.sides(each)
        if not found and naming.kind(each) in naming.BY_LANGUAGE:
            found = {language: Path(f"{each}:{language}")}
        if not found:
            raise UserError(f"{each}: not named as a text ({usual}); rename it, or move it to another folder")
        for side, of_side in found.items():
            if other := texts.setdefault(name, {}).get(side):
                raise UserError(f"{each}: {file_of(other)[0].name} is there too; keep one of them")
            texts[name][side] = of_side
    chosen = list[Path]()
    for name, by_language in texts.items():
        text = text_in(by_language, language)
        if text is None:
            there, _ = file_of(next(iter(by_language.values())))
            missing = f"there is no {name}.{language} beside it"
            raise UserError(f"{there}: {missing}; add it, or move {there.name} to another folder")
        chosen.append(text)
    if not texts:
        raise UserError(f"{file}: a folder without texts; put texts there, named {usual}")
    return chosen


def files_in(folder: Path) -> list[Path]:
    """The files in a folder by name, without hidden ones. Raises UserError if it cannot be read."""
    try:
        return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None


def numbers_in_texts(path: Path | str, numbers: Sequence[int]) -> dict[Path, list[int]]:
    """Lines ``numbers`` (ascending) of ``path`` as numbers in the texts of ``texts_of(path)`` that have them."""
    *texts, last = texts_of(path)
    found, left = dict[Path, list[int]](), list(numbers)
    for text in texts:
        if not left:
            break
        lines = count_lines(text)
        found[text] = [number for number in left if number <= lines]
        left = [number - lines for number in left if number > lines]
    found[last] = left
    return {text: of_text for text, of_text in found.items() if of_text}


def _joined(texts: Iterable[Path]) -> Iterator[bytes]:
    """The lines of texts one after the other, without byte order marks, each with its end."""
    for text in texts:
        for number, line in enumerate(raw_lines(text), 1):
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            yield line if line.endswith(b"\n") else line + b"\n"


def _column(path: Path, column: int) -> Iterator[bytes]:
    """A column (from 1) of a table as lines; blank lines are empty rows.

    Raises UserError for a row that has too few columns, or for the first line if that is because it is not UTF-8.
    """
    for number, cells in enumerate(rows(path), 1):
        if cells and len(cells) < column:
            parse_line(next(_lines_of_file(path)), path, 1)  # in UTF-16, lines end within a character
            noun = noun_of(path)
            found = f"{noun} {number} has {counted(len(cells), 'column')}, so no column {column}"
            raise UserError(f"{path}: {found}; fix the {noun}, or name another column")
        yield (cells[column - 1] if cells else b"") + b"\n"


def rows(path: Path) -> Iterator[list[bytes]]:
    """The cells of each row of a table (tsv, csv); a blank line is a row without cells.

    A line break in a cell of CSV is a space. Raises UserError if the file cannot be read or, naming the line in which
    the row begins, is not valid CSV.
    """
    if naming.kind(path) != "csv":
        for line in _joined([path]):
            yield _content(line).split(b"\t") if line.strip() else []
        return
    lines = (line.decode("utf-8", "surrogateescape") for line in _joined([path]))
    head = list(islice(lines, 20))
    named = SEPARATOR.match(head[0]) if head else None
    delimiter = named[2] if named else delimiter_of("".join(head))
    every = chain(head[1:] if named else head, lines)
    reader = csv.reader(every, delimiter=delimiter, skipinitialspace=True, strict=True)  # a, "b"
    end = 0  # of the row before
    try:
        for cells in reader:
            end = reader.line_num
            yield [re.sub(r"[\r\n]+", " ", cell).encode("utf-8", "surrogateescape") for cell in cells]
    except csv.Error as error:
        parse_line(next(_lines_of_file(path)), path, 1)  # in UTF-16, lines end within a character
        whole = ", or quote the whole cell and double its own marks" if "expected after" in str(error) else ""
        remedy = f"not valid CSV: {error}; export it again{whole}"
        if "new-line character" in str(error):
            remedy = CARRIAGE_RETURN
        raise UserError(f"{path}:{end + 1 + bool(named)}: {remedy}") from None


def delimiter_of(text: str, among: str = ",;\t|") -> str:
    """The delimiter of a CSV text: the one that is equally often in most of its first rows, outside quoted cells.

    Of several, as where each sentence has one comma, the most frequent one that is not before a space.
    """
    unquoted = re.sub(rf'(?<![^{among}\n]) *"[^"]*(?:""[^"]*)*"', "", text)
    first = unquoted.split("\n")[:20]

    def fitness(delimiter: str) -> tuple[int, int]:
        counts = Counter(row.count(delimiter) for row in first if delimiter in row)
        return max(counts.values(), default=0), sum(len(re.findall(f"[{delimiter}](?! )", row)) for row in first)

    return max(among, key=fitness)


def noun_of(file: Path) -> str:
    """What messages call an entry of a file with both sides: row (of CSV), unit (of a translation memory) or line."""
    return {"csv": "row", "tmx": "unit"}.get(naming.kind(file), "line")


def _memory(path: Path, language: str) -> Iterator[bytes]:
    """The text in a language of each unit of a translation memory or JSON line, as a line; empty if there is none.

    Raises UserError if the file has another format, or no text in the language (see ``text_in``).
    """
    seen, found = set[str](), False
    for texts in _tmx(path) if naming.kind(path) == "tmx" else _json(path):
        seen.update(texts)
        text = text_in(texts, language)
        found |= text is not None
        yield re.sub("[ \t\r\n]+", " ", text or "").encode(errors="replace") + b"\n"
    if not found:
        raise UserError(f"{path}: has no text in {language}; it has {', '.join(sorted(seen)) or f'no {noun_of(path)}'}")


def _json(path: Path) -> Iterator[dict[str, str]]:
    """The texts of each line by language: {"translation": {"en": ..., "fr": ...}} or {"en": ..., "fr": ..., "id": ...}.

    A blank line has none. Raises UserError for a line that is no such object.
    """
    for number, line in enumerate(read_lines(path), 1):
        try:
            row = json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            wanted = 'a JSON object such as {"translation": {"en": "...", "fr": "..."}}'
            raise UserError(f"{path}:{number}: is not {wanted}; write one object on each line")
        texts = row["translation"] if isinstance(row.get("translation"), dict) else row
        yield {_tag(language): text for language, text in texts.items() if isinstance(text, str)}


def _tmx(path: Path) -> Iterator[dict[str, str]]:
    """The texts of each unit of a translation memory by language."""
    for unit in _units(path):
        texts = {_tag(text.get(XML_LANG, text.get("lang", ""))): text.find("seg") for text in unit.iter("tuv")}
        yield {language: _without_code(segment) for language, segment in texts.items() if segment is not None}


def _units(path: Path) -> Iterator[Element]:
    """The units of a translation memory, without namespaces. Raises UserError if it is not TMX."""
    parser: Any = XMLPullParser(["start", "end"])
    root = body = None
    try:
        for number, line in enumerate(_lines_of_file(path)):
            if number == 0:  # the parser would take UTF8 for an encoding of one byte per character
                line = re.sub(rb"""(<\?xml[^>]*encoding=["'])utf_?8(?=["'])""", rb"\1UTF-8", line, flags=re.IGNORECASE)
            for start in range(0, len(line), _BLOCK):  # because all units may be on one line
                parser.feed(line[start : start + _BLOCK])
                for event, element in parser.read_events():
                    if event == "start":
                        element.tag = element.tag.rpartition("}")[2]
                        root = element if root is None else root
                        body = element if element.tag == "body" else body
                    elif element.tag == "tu":
                        yield element
                        if body is not None:
                            body.clear()  # or all units would be in memory
        parser.close()
    except (ParseError, LookupError, ValueError) as error:  # the last two for an encoding that the parser does not know
        remedy = "export the translation memory again, in UTF-8"
        raise UserError(f"{path}: cannot be read as XML ({error}); {remedy}") from None
    if root is None or root.tag != "tmx":
        raise UserError(f"{path}: is not TMX; export the translation memory again")


def text_in(texts: Mapping[str, T], language: str) -> T | None:
    """The text in a language, of texts by language: of several, that of the same region, or else the first.

    A language without a region matches any region (es: es-ES, es-MX), and vice versa; es-ES does not match es-MX.
    """
    wanted = _tag(language)
    tags = sorted(texts, key=lambda tag: _tag(tag) != wanted)  # the language itself first
    similar = (tag for tag in tags if f"{_tag(tag)}-".startswith(f"{wanted}-") or wanted.startswith(f"{_tag(tag)}-"))
    tag = next(similar, None)
    return None if tag is None else texts[tag]


def _tag(language: str) -> str:
    """A language for comparison: pt-br for pt_BR."""
    return language.lower().replace("_", "-")


def _without_code(element: Element) -> str:
    """The text of a segment of TMX without code, and with spaces for line breaks; XLIFF's ``g`` is not code."""
    parts = [element.text or ""]
    for child in element:
        text = "" if child.tag in _CODE else _without_code(child)
        parts += [text or " " * (child.get("type") == "lb"), child.tail or ""]
    return "".join(parts)


def _lines_of_file(path: Path) -> Iterator[bytes]:
    """The lines of a file, decompressed by suffix. Raises UserError if it cannot be read or is damaged."""
    try:
        if str(path) == "-":
            if sys.stdin is None:
                raise UserError("standard input is closed; name a file")
            yield from sys.stdin.buffer
        elif path.suffix == ".zst":
            yield from _zstd_lines(path)
        elif path.suffix == ".gz":
            with gzip.open(path) as unpacked, io.BufferedReader(cast(io.RawIOBase, unpacked), _BLOCK) as file:
                yield from file
        else:
            with open(path, "rb") as file:
                yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise UserError(f"{path}: damaged or truncated ({error}); download or compress it again") from None
    except IsADirectoryError as error:
        remedy = f"name a file in it, or a language of its texts, as {path}:en"
        raise UserError(f"{path}: cannot be read: {error.strerror}; {remedy}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _zstd_lines(path: Path) -> Iterator[bytes]:
    """The lines of a .zst file, read frame by frame, because zstandard's file object accepts truncated files."""
    frame, tail = None, list[bytes]()  # tail: the parts of an unfinished line, joined once, because it may be very long
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            while block:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                first, *others = frame.decompress(block).split(b"\n")
                tail.append(first)
                for other in others:
                    yield b"".join(tail) + b"\n"
                    tail = [other]
                block = frame.unused_data
                if frame.eof:
                    frame = None
    if frame is not None:
        raise EOFError("the last frame is incomplete")
    if rest := b"".join(tail):
        yield rest


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a UTF-8 file, without \\n or \\r\\n, and without a byte order mark; a last line needs no \\n.

    Raises UserError if the file cannot be read or is not UTF-8.
    """
    for number, raw in enumerate(raw_lines(path), 1):
        yield parse_line(raw, path, number)


def parse_line(raw: bytes, path: Path | str, number: int) -> str:
    """Line ``number`` of ``path`` as text. Raises UserError if it is not UTF-8."""
    content = _content(raw)
    try:
        line = content.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"byte 0x{content[error.start]:02X} is not UTF-8"
        raise UserError(f"{at_line(path, number)}: {problem}; {conversion(content)}") from None
    return _without_mark(line, number)


def at_line(path: Path | str, number: int) -> str:
    """Line ``number`` of ``path`` for messages: file.tsv:23, column 1."""
    file, side = file_of(path)
    if file.is_dir() and side is not None:
        [(text, [number])] = numbers_in_texts(path, [number]).items()
        return at_line(text, number)
    if side is not None:
        place = f"{file}:{number}" if (noun := noun_of(file)) == "line" else f"{file}: {noun} {number}"
        return f"{place}, {side}" if isinstance(side, str) else f"{place}, column {side}"
    return f"{'standard input' if str(path) == '-' else path}:{number}"


def conversion(line: bytes) -> str:
    """Advice on how to convert a file to UTF-8, given one of its lines, preferably the first.

    A byte order mark, or more than a quarter of zero bytes, means UTF-16. Otherwise the advice names common encodings;
    Windows-1252 contains Latin-1.
    """
    if line.startswith(BINARY):
        return "it is a compressed file or a document; give .gz and .zst files their suffix, and unpack others"
    advice = "convert the file, for example with: iconv -f"
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or 4 * line.count(0) > len(line):
        return f"{advice} utf-16 -t utf-8"
    return f"{advice} cp1252 -t utf-8 (Cyrillic: cp1251, Chinese: gb18030, Japanese: cp932)"


def beside_lines(lines: Iterable[T], path: Path, place: str) -> Iterator[tuple[T, str]]:
    """Each of ``lines`` (``place`` in messages) with its line of ``path``. Raises UserError if one has more lines."""
    # Not zip(strict=True), because the message names file and line, and interactive input is answered line by line.
    others, number = read_lines(path), 0
    for line in lines:
        other = next(others, None)
        if other is None:
            raise UserError(f"{path}: has only {counted(number, 'line')}, fewer than {place}; align them line by line")
        number += 1
        yield line, other
    if next(others, None) is not None:
        raise UserError(f"{path}: has more lines than the {number} of {place}; align them line by line")


def decode_line(raw: bytes, number: int) -> str:
    """Line ``number`` as text, with U+FFFD for invalid UTF-8, because filters must answer every line."""
    return _without_mark(_content(raw).decode("utf-8", errors="replace"), number)


def _without_mark(line: str, number: int) -> str:
    """The line without the byte order mark of the first line."""
    return line.removeprefix("\ufeff") if number == 1 else line


def _content(raw: bytes) -> bytes:
    """A line without its line end."""
    return raw.removesuffix(b"\n").removesuffix(b"\r")


def given_lines(name: str, lines: Iterable[Any]) -> Iterator[str]:
    """Lines given in Python, without the line ends that those of an open file have.

    Raises UserError with ``name`` and the number of a line that is not text, such as the NaN of an empty cell.
    """
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise UserError(f"{name}: number {number} is {line!r}, not text")
        yield line.removesuffix("\n")


def tokens_of(line: str) -> list[str]:
    """The tokens of a tokenised line; unlike ``split()`` it splits at spaces only, and not at U+00A0, for example."""
    return [token for token in line.split(" ") if token]


def count_lines(path: Path | str) -> int:
    """The number of lines in a file; a last line without \\n counts."""
    return sum(1 for _ in raw_lines(path))
