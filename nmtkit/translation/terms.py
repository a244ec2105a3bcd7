"""Reading glossaries: tab-separated text, CSV, TBX."""

import csv
from collections.abc import Iterator
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.lines import delimiter_of, raw_lines, read_lines
from nmtkit.translation.request import EMPTY_FORM, FORMS, Terms


def read_terms(path: Path) -> Terms:
    """The terms of a file: source term, tab, translation, with "|" between alternative forms of the translation.

    A third column is a comment, as in OmegaT's glossaries, and so is a line without a tab that begins with "#". A .csv
    file has commas instead of tabs, or semicolons if its first line has them, as Excel writes where 1.5 is 1,5; .tbx is
    TBX, where several translations of a term are alternative forms. Raises UserError for any other line, for a file
    without terms, and for TBX that is not XML or without lxml.
    """
    kind = path.suffix.lower()
    terms = tuple(_tbx(path) if kind == ".tbx" else _rows(path, "," if kind == ".csv" else "\t"))
    if not terms:
        raise UserError(f"{path}: has no terms; a line is a source term, a tab and its translation")
    return terms


def _rows(path: Path, separator: str) -> Iterator[tuple[str, str]]:
    """The terms of a text file."""
    for number, line in enumerate(read_lines(path), 1):
        if number == 1 and separator == ",":
            separator = delimiter_of(line, ",;")
        try:
            read = csv.reader([line], delimiter=separator, skipinitialspace=True)
            cells = line.split("\t") if separator == "\t" else next(read, [])
        except csv.Error as error:  # a very long field
            raise UserError(f"{path}:{number}: not valid CSV: {error}") from None
        if not line.strip() or (line.startswith("#") and len(cells) == 1):
            continue
        source, target, *_ = [cell.strip() for cell in cells] + ["", ""]
        if not source or not target:
            name = {",": "comma", ";": "semicolon", "\t": "tab"}[separator]
            raise UserError(f"{path}:{number}: expected a source term, a {name} and its translation; found {line!r}")
        if not all(map(str.strip, target.split(FORMS))):
            raise UserError(f"{path}:{number}: {target!r} {EMPTY_FORM}")
        yield source, target


def _tbx(path: Path) -> Iterator[tuple[str, str]]:
    """The terms of a TBX file, whose entries have the source language first."""
    try:
        from lxml import etree
    except ImportError:
        raise UserError(f"{path}: reading TBX needs lxml: pip install 'nmtkit[files]'") from None
    try:
        root = etree.fromstring(b"".join(raw_lines(path)), etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise UserError(f"{path}: not TBX: {error.msg}") from None
    # The versions of 2008 and 2019 have different names for entries and languages.
    for entry in root.iter("{*}termEntry", "{*}conceptEntry"):
        sides = [*entry.iter("{*}langSet", "{*}langSec")]
        if len(sides) > 2:
            raise UserError(f"{path}:{entry.sourceline}: an entry in {len(sides)} languages; keep source and target")
        terms = [["".join(term.itertext()).strip() for term in side.iter("{*}term")] for side in sides]
        if len(terms) == 2:
            yield from ((source, FORMS.join(terms[1])) for source in terms[0])
