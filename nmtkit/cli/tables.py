"""Tables: drawn by rich on a terminal, plain columns in a pipe."""

import re
import sys
from collections.abc import Sequence

_FIGURE = re.compile(r"[-+<>]?[\d.,]*(e[-+]\d+)?")  # or a dash, or nothing


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; columns of numbers are aligned on the right, whatever their heading."""
    numeric = [all(map(_FIGURE.fullmatch, cells)) for _, *cells in zip(header, *rows, strict=True)]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        print(title)
        for row in (header, *rows):
            aligned = zip(row, widths, numeric, strict=True)
            cells = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in aligned]
            print("  ".join(cells).rstrip())
        return
    # Imported here, because a pipe does without rich.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # As Text, because rich would take the brackets in a name of a file for markup.
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    for name, right in zip(header, numeric, strict=True):
        # On a narrow terminal, long words continue on the next line; by default, rich would cut them.
        table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
