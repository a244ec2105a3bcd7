"""Reading of terms: text with tabs, CSV, TBX."""

import csv
from collections.abc import Iterator
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.translation.request import FORMS, Terms


def read_terms(path: Path) -> Terms:
    """The terms of a file: a source term, a tab, its translation, with "|" between forms that it may have.

    A third column is a comment, as in OmegaT's glossaries, and so is a line without a tab that begins with "#". A file
    .csv has commas in place of tabs, and .tbx is TBX, in which several translations of a term are forms of it. Raises
    UserError for any other line, a file without terms, and without translate-toolkit for TBX.
    """
    kind = path.suffix.lower()
    terms = tuple(_tbx(path) if kind == ".tbx" else _rows(path, "," if kind == ".csv" else "\t"))
    if not terms:
        raise UserError(f"{path}: has no terms; a line is a source term, a tab and its translation")
    return terms


def _rows(path: Path, separator: str) -> Iterator[tuple[str, str]]:
    """The terms of a text file."""
    for number, line in enumerate(read_lines(path), 1):
        cells = next(csv.reader([line]), []) if separator == "," else line.split(separator)
        if not line.strip() or (line.startswith("#") and len(cells) == 1):
            continue
        source, target, *_ = [cell.strip() for cell in cells] + ["", ""]
        if not source or not all(form.strip() for form in target.split(FORMS)):
            name = "comma" if separator == "," else "tab"
            raise UserError(f"{path}:{number}: expected a source term, a {name} and its translation; found {line!r}")
        yield source, target


def _tbx(path: Path) -> Iterator[tuple[str, str]]:
    """The terms of a TBX file."""
    try:
        from translate.storage.tbx import tbxfile
    except ImportError:
        raise UserError(f"{path}: reading TBX needs translate-toolkit: pip install 'nmtkit[files]'") from None
    try:
        units = tbxfile.parsefile(str(path)).units
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except Exception as error:  # whatever its XML parser has
        raise UserError(f"{path}: not TBX: {error}") from None
    for unit in units:
        if unit.source and unit.target:
            yield str(unit.source).strip(), str(unit.target).strip()
