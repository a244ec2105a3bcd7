import csv
import io
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.documents.formats import read_document
from nmtkit.errors import UserError
from tests.documents.files import upper


def translated(data: bytes, *columns: str, name: str = "a.csv") -> bytes:
    file = read_document(name, data, columns, ("en", "fr"))
    return file.write([upper(segment) for segment in file.segments])


def test_a_column_is_named_by_its_header_which_stays() -> None:
    assert translated(b"id,text\n1,text\n2,\n", "text") == b"id,text\n1,TEXT\n2,\n"


def test_a_column_has_a_number_where_there_is_no_header() -> None:
    assert translated(b"a;b;c\na;b;c\n", "2", "3") == b"a;B;C\na;B;C\n"
    assert translated(b"\r\n\r\na;b\r\n", "2") == b"\r\n\r\na;B\r\n"


def test_quotation_marks_lines_and_line_ends_stay() -> None:
    assert translated(b'"a","b, c"\r\n"d","e ""f""\r\ng"\r\n', "2") == b'"a","B, C"\r\n"d","E ""F""\r\nG"\r\n'
    assert translated(b"\xef\xbb\xbfa\tb\n", "1") == b"\xef\xbb\xbfA\tb\n"


def test_a_number_that_no_column_has_may_be_a_name_and_a_name_is_of_all_columns_that_have_it() -> None:
    assert translated(b"a,2024\nb,c\n", "2024") == b"a,2024\nb,C\n"
    assert translated(b"1,3,a\n1,4,b\n", "3") == b"1,3,A\n1,4,B\n"
    assert translated(b"\na,b,a\n\nc,d,e\n", "a") == b"\na,b,a\n\nC,d,E\n"


def test_delimiters_in_quoted_cells_and_in_tsv_any_but_tabs_are_text() -> None:
    assert translated(b'1;"a, b, c"\n', "2") == b'1;"A, B, C"\n'
    assert translated(b'"a,\n,";b\nc;d\n', "2") == b'"a,\n,";B\nc;D\n'
    assert translated(b"a, b, c\td\n", "1", name="a.TSV") == b"A, B, C\td\n"


@pytest.mark.parametrize("line", [b"sep=;\r\n", b'"sep=;"\n', b"sep=;\r"])
def test_a_first_line_with_the_delimiter_for_excel_is_no_row(line: bytes) -> None:
    table = line + b"id;text, a, b\n1;text\n"
    assert translated(table, "text, a, b") == line + b"id;text, a, b\n1;TEXT\n"
    assert translated(table, "2") == line + b"id;TEXT, A, B\n1;TEXT\n"
    with pytest.raises(UserError, match=r"^a\.csv: is not a valid table: line 2: "):
        translated(b'sep=;\na;"b\n', "1")


def test_spaces_before_quotation_marks_around_all_of_a_cell_stay_outside() -> None:
    assert translated(b'"a", "b, c", "d"\n1, "e ""f""", g\n', "2") == b'"a", "B, C", "d"\n1, "E ""F""", g\n'
    assert translated(b'a; "b" c\n', "2") == b'a; "B" C\n'


def test_cells_of_other_columns_are_written_as_they_were() -> None:
    assert translated(b'a,b "c"\nd,5" e\rf,"g"\n', "1") == b'A,b "c"\nD,5" e\rF,"g"\n'
    assert translated(b'a\t"b" c\nd\t"e\n', "1", name="a.tsv") == b'A\t"b" c\nD\t"e\n'


def test_a_tsv_has_quoted_cells_if_its_lines_are_uneven_without_them() -> None:
    assert translated(b'a\t"b\tc\nd"\n"e"\tf\n', "2", name="a.tsv") == b'a\t"B\tC\nD"\n"e"\tF\n'
    assert translated(b'"a\tb\n"c ""d"""\te"\n', "1", name="a.tsv") == b'"A\tb\n"C ""D"""\te"\n'


@given(
    st.lists(st.tuples(*[st.text('a", ;\t|\n')] * 2), max_size=4),
    st.sampled_from(",;\t|"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(['"', "{0}", '"{0}', '{0}"']),
)
def test_a_table_is_read_as_by_python_and_quoted_where_it_must_be(
    rows: list[tuple[str, str]], delimiter: str, quoting: Literal[0, 1], odd: str
) -> None:
    table, odd = io.StringIO(newline=""), odd.format(delimiter)
    csv.writer(table, quoting=quoting, delimiter=delimiter).writerows([("id", "text"), *rows])
    file = read_document("a.csv", table.getvalue().encode(), ["text"], ("en", "fr"))
    written = file.write([replace(segment, text=segment.text.replace("a", odd)) for segment in file.segments]).decode()
    found = list(csv.reader(io.StringIO(written, newline=""), delimiter=delimiter, strict=True))
    assert found == [["id", "text"], *([cell, text.replace("a", odd)] for cell, text in rows)]


def test_what_is_not_said_or_not_there_is_refused() -> None:
    for columns, reason in (
        ((), "is a table; give `columns`, the names or numbers"),
        (("name",), "has no column 'name'; its first row has id, text"),
        (("1,2",), "has no column '1,2'; its first row has id, text; give `columns` once for each column$"),
        (("3",), "has 2 columns, but no column 3"),
        (("0",), "has 2 columns, but no column 0"),
        (("9" * 5_000,), "has 2 columns, but no column 99999999999999999999$"),
    ):
        with pytest.raises(UserError, match=f"^a.csv: {reason}"):
            translated(b"id,text\n1,text\n", *columns)
    with pytest.raises(UserError, match=r"^a\.csv: is empty$"):
        translated(b"\n", "text")
    for damaged in (b'a,b\na,"b\n', b'a,b\n"a" b,c\n'):
        with pytest.raises(
            UserError, match=r"^a\.csv: is not a valid table: line 2: a cell's quotation marks do not enclose"
        ):
            translated(damaged, "1")
    for mark in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(UserError, match=r"^a\.csv: byte 0xE9 is not utf-8; convert the file"):
            translated(mark + b"caf\xe9,b\n", "1")
    with pytest.raises(UserError, match=r"^a\.csv: contains zero bytes, so it is not text"):
        translated(b"a\0,b\n", "1")
