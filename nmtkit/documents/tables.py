"""Tables (csv, tsv): the given columns are translated, all other cells stay as they are written."""

import re
from collections.abc import Sequence
from functools import partial

from nmtkit.documents.places import Places, without_forms
from nmtkit.documents.text import decoded, encoded
from nmtkit.errors import UserError, counted
from nmtkit.lines import SEPARATOR, delimiter_of

_QUOTED = r'"[^"]*(?:""[^"]*)*"'


def read_csv(data: bytes, columns: Sequence[str]) -> Places:
    """Read a table, whose delimiter ``delimiter_of`` finds.

    A first line that names the delimiter to Excel, ``sep=;``, is not a row. Raises UserError as ``_places``, or if a
    quoted cell has no end.
    """
    text = decoded(data)
    named = SEPARATOR.match(text)
    delimiter = named[2] if named else delimiter_of(text)
    before = named[0] if named else ""
    pieces, end = _split(text[len(before) :], delimiter, quoting=True)
    end += len(before)
    if end < len(text):
        line = text.count("\n", 0, end) + 1
        raise UserError(f"is not a valid table: line {line}: a cell's quotation marks do not enclose all of it")
    return _places(data, columns, ["", before, *pieces] if before else pieces, delimiter, quoting=True)


def read_tsv(data: bytes, columns: Sequence[str]) -> Places:
    """Read a table with tabs; raises UserError as ``_places`` does.

    It uses quoting, so that a cell may contain tabs and line breaks, if its lines would otherwise have different
    numbers of columns, and if all its quoted cells have an end.
    """
    text = decoded(data)
    pieces, end = _split(text, "\t", quoting=True)
    quoting = end == len(text) and len({line.count("\t") for line in text.split("\n") if line.strip()}) > 1
    return _places(data, columns, pieces if quoting else _split(text, "\t", quoting=False)[0], "\t", quoting)


def _split(text: str, delimiter: str, quoting: bool) -> tuple[list[str], int]:
    """The cells of a table, each with the delimiter or the line end after it, and where in the text they end.

    Spaces between a delimiter and a quoted cell belong to the delimiter.
    """
    begin = rf'{_QUOTED}|(?!")' if quoting else ""
    spaces = rf"(?: +(?={_QUOTED}(?:[{delimiter}\r\n]|\Z)))?" if quoting else ""
    cell = re.compile(rf"({begin}[^{delimiter}\r\n]*)([{delimiter}]{spaces}|\r\n?|\n|\Z)")
    pieces, end = list[str](), 0
    while end < len(text) and (found := cell.match(text, end)):
        pieces += found.groups()
        end = found.end()
    return pieces, end


def _places(data: bytes, columns: Sequence[str], pieces: list[str], delimiter: str, quoting: bool) -> Places:
    """The cells of ``columns``: numbers from 1, or names in the first row, which is then not translated.

    The number of a missing column may be a name. Raises UserError if the table is empty, or if ``columns`` is empty or
    names a missing column.
    """
    rows: list[list[int]] = [[]]  # the places in ``pieces`` of the cells
    for place in range(0, len(pieces), 2):
        rows[-1].append(place)
        if pieces[place + 1][:1] != delimiter:
            rows.append([])
    rows = [row for row in rows if any(pieces[place].strip() for place in row)]
    if not columns:
        raise UserError("is a table; give `columns`, the names or numbers (from 1) of the columns to translate")
    if not rows:
        raise UserError("is empty")
    width, header = max(map(len, rows)), [_text(pieces[place]) for place in rows[0]]
    numbers, named = set[int](), False
    for column in columns:
        number = int(column) if column.isdecimal() and len(column) < 10 else 0
        if 0 < number <= width:
            numbers.add(number - 1)
        elif column in header:
            numbers |= {number for number, name in enumerate(header) if name == column}
            named = True
        elif column.isdecimal():
            raise UserError(f"has {counted(width, 'column')}, but no column {column[:20]}")
        else:
            each = "; give `columns` once for each column" if "," in column else ""
            raise UserError(f"has no column {column[:80]!r}; its first row has {', '.join(header[:20])}{each}")
    places = Places(lambda: encoded("".join(pieces), data))

    def put(place: int, translated: str) -> None:
        quoted = _text(pieces[place]) != pieces[place]
        if quoted or (quoting and re.search(rf'^"|[{delimiter}]', translated)):
            translated = '"' + translated.replace('"', '""') + '"'
        pieces[place] = translated

    chosen = (row[number] for row in rows[named:] for number in sorted(numbers) if number < len(row))
    for text, place in without_forms((_text(pieces[place]), place) for place in chosen):
        places.add_string(text, partial(put, place))
    return places


def _text(cell: str) -> str:
    """The text of a cell as it is written."""
    return cell[1:-1].replace('""', '"') if re.fullmatch(_QUOTED, cell) else cell
