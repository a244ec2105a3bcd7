"""Tables: drawn by rich on a terminal, plain columns in a pipe."""

import re
import sys
from collections.abc import Sequence

_FIGURE = re.compile(r"[-+<>]?[\d.,]*(e[-+]\d+)?")  # or a dash, or nothing


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output, with figures on the right of their columns and words on the left."""
    # A column of nothing but figures is aligned on the right, whatever its heading says.
    figures = [all(map(_FIGURE.fullmatch, cells)) for _, *cells in zip(header, *rows, strict=True)]
    if not sys.stdout.isatty():
        print("\n".join([title, *_plain(header, rows, figures)]))
        return
    # Here, because a pipe, and whatever prints no table, does without.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name, figure in zip(header, figures, strict=True):
        table.add_column(Text(name), justify="right" if figure else "left")
    for row in rows:
        # As Text, because rich would take the brackets in a name of a file for markup.
        table.add_row(*map(Text, row))
    Console().print(table)


def _plain(header: Sequence[str], rows: Sequence[Sequence[str]], figures: Sequence[bool]) -> list[str]:
    """The lines of a table as plain text, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if figure else cell.ljust(width)
            for cell, width, figure in zip(row, widths, figures, strict=True)
        ).rstrip()
        for row in (header, *rows)
    ]
