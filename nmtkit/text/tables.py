"""Tables of parallel text: rows that are probably not a sentence pair, or not as it was meant."""

import logging
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from nmtkit import naming
from nmtkit.lines import at_line, file_of, rows
from nmtkit.text.scripts import base_language

_HEADER = "looks like a header, which would be read as a sentence pair; remove it"
_QUOTED = (
    "quoted as in CSV, but quotes are read as text; "
    "export the table as tab-separated text without quotes, or rename it .csv"
)

# Words that name a column, among them the languages that small ones are most often translated from.
_HEADERS = (
    "source target src tgt translation traducción traduction tradução english inglés anglais inglês spanish español "
    "castellano espagnol espanhol french francés français francês portuguese portugués portugais português"
).split()
_FIRST_ROWS = 10_000  # of a table, among which prep looks for odd ones
_MANY = 10  # cells, not all of which are quotations

log = logging.getLogger(__name__)


def warn_of_odd_rows(sides: Iterable[tuple[str, Path]]) -> None:
    """Warn of odd rows among the first of each table, once for each oddity; ``sides``: as for ``columns_of``."""
    for table, columns in columns_of(sides).items():
        first = dict[str, str]()
        for path, number, what in odd_rows(table, columns, _FIRST_ROWS):
            first.setdefault(what, at_line(path, number))
        for what, place in first.items():
            log.warning(f"{place}: {what}")


def columns_of(sides: Iterable[tuple[str, Path]]) -> dict[Path, dict[str, int]]:
    """The tables among texts, each of which is given with its language, and the column of each language in them."""
    tables = dict[Path, dict[str, int]]()
    for language, (file, column) in ((language, file_of(path)) for language, path in sides):
        if isinstance(column, int):
            tables.setdefault(file, {}).setdefault(language, column)
    return tables


def odd_rows(table: Path, columns: Mapping[str, int], limit: int | None) -> Iterator[tuple[Path, int, str]]:
    """The odd rows among the first ``limit`` of a table: the table or a column of it, the row, and what is odd.

    They are longer than the first, in quotes, or a header. columns: those that are read, by language.
    """
    usual, quotes = 0, None if naming.kind(table) == "csv" else _Quotes(columns.values())
    why = "a tab in a sentence" if quotes else "a delimiter outside quotation marks"
    for number, cells in enumerate(islice(rows(table), limit), 1):
        if cells and not usual:
            usual = max(len(cells), *columns.values())
        if len(cells) > usual:
            yield table, number, f"has more columns than the first line, {usual}; is there {why}?"
        if number == 1 and (header := _header(cells, columns)):
            yield table, number, header
        if quotes and (place := quotes.found(cells)) is not None:
            yield Path(f"{table}{place}"), number, _QUOTED


class _Quotes:
    """Finds cells in quotes as in CSV in the rows of a table with tabs, where quotes are text."""

    def __init__(self, columns: Collection[int]) -> None:
        self.columns = columns
        # By column: its cells, and those with a comma, which Excel puts in quotes; negative if one has no quotes.
        self.cells = defaultdict[tuple[int, bytes], float](int)

    def found(self, cells: Sequence[bytes]) -> str | None:
        """Where the quotes are: ":COLUMN", or "" for a row that is cut by a line break in a cell."""
        if 0 < len(cells) < max(self.columns) and b"".join(cells).count(b'"') % 2:
            return ""
        for column in self.columns:
            cell = cells[column - 1].strip() if column <= len(cells) else b""
            quoted = len(cell) > 1 and cell[:1] == cell[-1:] == b'"'
            parts = [part for part in (b"", b",") if cell and part in cell]
            for part in parts:
                self.cells[column, part] += 1 if quoted else -math.inf
            if (quoted and b'""' in cell[1:-1]) or _MANY in [self.cells[column, part] for part in parts]:
                return f":{column}"
        return None


def _header(cells: Sequence[bytes], columns: Mapping[str, int]) -> str | None:
    """What is wrong with the first row of a table if it names columns, perhaps not those that are read."""
    names = [cell.decode(errors="ignore").strip().lower() for cell in cells]
    headed = any(name in _HEADERS for name in names)
    for language, column in columns.items():
        code = base_language(language)  # that of eng is en
        named = [
            number
            for number, name in enumerate(names, 1)
            if name == language.lower() or (len(name) in (2, 3) and base_language(name) == code)
        ]
        if named and column not in named:
            found = f"names column {named[0]} {language}, which is read from column {column}"
            return f"{found}; correct the columns or the name of the table, and remove this row"
        headed |= named != []
    return _HEADER if headed else None
