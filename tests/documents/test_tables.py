import pytest

from nmtkit.documents.formats import read_document
from nmtkit.errors import UserError
from tests.documents.files import upper


def translated(data: bytes, *columns: str) -> bytes:
    file = read_document("a.csv", data, columns, "fr")
    return file.write([upper(segment) for segment in file.segments])


def test_a_column_is_named_by_its_header_which_stays() -> None:
    assert translated(b"id,text\n1,text\n2,\n", "text") == b"id,text\n1,TEXT\n2,\n"


def test_a_column_has_a_number_where_there_is_no_header() -> None:
    assert translated(b"a;b;c\na;b;c\n", "2", "3") == b"a;B;C\na;B;C\n"


def test_quotation_marks_lines_and_line_ends_stay() -> None:
    assert translated(b'"a","b, c"\r\n"d","e ""f""\r\ng"\r\n', "2") == b'"a","B, C"\r\n"d","E ""F""\r\nG"\r\n'
    assert translated(b"\xef\xbb\xbfa\tb\n", "1") == b"\xef\xbb\xbfA\tb\n"


def test_what_is_not_said_or_not_there_is_refused() -> None:
    for columns, reason in (
        ((), "is a table; give `columns`, the names or numbers"),
        (("name",), "has no column 'name'; its first row has id, text"),
        (("3",), "has 2 columns, but no column 3"),
        (("0",), "has 2 columns, but no column 0"),
    ):
        with pytest.raises(UserError, match=f"^a.csv: {reason}"):
            translated(b"id,text\n1,text\n", *columns)
    with pytest.raises(UserError, match=r"^a\.csv: is not a valid table: unexpected end of data"):
        translated(b'a,"b\n', "1")
    with pytest.raises(UserError, match=r"^a\.csv: byte 0xE9 is not utf-8; convert the file"):
        translated(b"caf\xe9,b\n", "1")
    with pytest.raises(UserError, match=r"^a\.csv: contains zero bytes, so it is not text"):
        translated(b"a\0,b\n", "1")
