"""Tables (csv, tsv): the given columns are translated, all others are not changed."""

import csv
import io
from collections.abc import Sequence
from functools import partial

from nmtkit.documents.places import Places
from nmtkit.documents.text import decoded, encoded
from nmtkit.errors import UserError


def read(data: bytes, columns: Sequence[str]) -> Places:
    """Read a table. ``columns`` are translated: names in its first row, which is not translated, or numbers from 1.

    Raises UserError if ``columns`` is empty or names a missing column, or if the table is not valid.
    """
    text = decoded(data)
    if not columns:
        raise UserError("is a table; give `columns`, the names or numbers (from 1) of the columns to translate")
    first = text.partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise UserError(f"is not a valid table: {error}") from None
    named = [column for column in columns if not column.isdecimal()]
    header = rows[0] if rows and named else []
    if missing := [column for column in named if column not in header]:
        raise UserError(f"has no column {missing[0]!r}; its first row has {', '.join(header[:20])}")
    numbers = [header.index(column) if column in named else int(column) - 1 for column in columns]
    width = max(map(len, rows), default=0)
    if wrong := [number + 1 for number in numbers if not 0 <= number < width]:
        raise UserError(f"has {width} columns, but no column {wrong[0]}")

    def save() -> bytes:
        written = io.StringIO(newline="")
        all_quoted = f'"{delimiter}"' in first
        end = "\r\n" if first.endswith("\r") else "\n"
        csv.writer(
            written, delimiter=delimiter, quoting=csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL, lineterminator=end
        ).writerows(rows)
        return encoded(written.getvalue(), data)

    places = Places(save)
    for row in rows[bool(header) :]:
        for number in numbers:
            if number < len(row):
                places.add_string(row[number], partial(row.__setitem__, number))
    return places
