"""Contrastive evaluation: does a model assign a higher probability to the correct translation than to a wrong one?

A contrastive set is JSON as in LingEval97 (Sennrich 2017): a list of entries with ``source``, ``reference`` and
``errors``. Each error has ``type`` and ``contrastive``, and may have ``distance`` (in words, between the two words that
must agree) and ``frequency`` (in the training text). A set may also be three line-aligned files.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmtkit.errors import UserError, check_lines
from nmtkit.lines import raw_lines, read_lines

# LingEval97's bins of distance and frequency.
FARTHEST = 15
FREQUENCIES = (10_000, 5000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2)


class Error(NamedTuple):
    """A wrong translation of the source of an entry."""

    type: str
    contrastive: str  # the reference with the error
    distance: int | None = None
    frequency: int | None = None


class Entry(NamedTuple):
    """A source sentence, its correct translation, and wrong translations that differ from it in one place."""

    source: str
    reference: str
    errors: list[Error]


class Accuracy(NamedTuple):
    """The contrastive accuracy for one type, distance or frequency of errors."""

    name: str  # the type, or the bin
    right: int
    total: int

    @property
    def share(self) -> float:
        """The accuracy, from 0 to 1."""
        return self.right / self.total


def read_json(path: Path) -> list[Entry]:
    """The entries of a JSON file, also .gz or .zst. Raises UserError that names an invalid entry."""
    try:
        values = json.loads(b"".join(raw_lines(path)))
    except RecursionError:
        raise UserError(f"{path}: not JSON: nested too deeply") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(values, list) or not values:
        raise UserError(f"{path}: expected a JSON list of entries, as in LingEval97")
    return [_entry(value, f"{path}: entry {number}") for number, value in enumerate(values, 1)]


def _entry(value: Any, where: str) -> Entry:
    """An entry of the JSON list. Raises UserError for a key that is missing or has a value of the wrong type."""
    errors = value.get("errors") if isinstance(value, dict) else None
    if not isinstance(errors, list):
        raise UserError(f"{where}: expected source, reference and a list of errors")
    checked = []
    for number, error in enumerate(errors, 1):
        place = f"{where}, error {number}"
        if not isinstance(error, dict):
            raise UserError(f"{place}: expected type and contrastive")
        kind, contrastive = _text(error, "type", place), _text(error, "contrastive", place)
        checked.append(Error(kind, contrastive, _number(error, "distance", place), _number(error, "frequency", place)))
    return Entry(_text(value, "source", where), _text(value, "reference", where), checked)


def _text(value: dict[str, Any], key: str, where: str) -> str:
    """The string at a key. Raises UserError for any other value."""
    if not isinstance(value.get(key), str):
        raise UserError(f"{where}: {key} is {value.get(key)!r}; expected text")
    return str(value[key])


def _number(value: dict[str, Any], key: str, where: str) -> int | None:
    """The integer at a key, or None without the key. Raises UserError for any other value."""
    number = value.get(key)
    if number is None or (type(number) is int and number >= 0):
        return number
    if isinstance(number, str) and re.fullmatch("[0-9]{1,18}", number):  # LingEval97 has some zeros as text
        return int(number)
    raise UserError(f"{where}: {key} is {number!r}; expected a whole number, not below 0")


def read_line_aligned(source: Path, correct: Path, incorrect: Path, type: str) -> list[Entry]:
    """The entries of three line-aligned files, with an error of this type in each line.

    Adjacent lines with the same source and reference become one entry. Raises UserError for files of different lengths.
    """
    files = [list(read_lines(path)) for path in (source, correct, incorrect)]
    for path, lines in zip((correct, incorrect), files[1:], strict=True):
        check_lines(path, len(lines), source, len(files[0]), "align them line by line")
    if not files[0]:
        raise UserError(f"{source} is empty: there is nothing to compare")
    entries: list[Entry] = []
    for src, reference, contrastive in zip(*files, strict=True):
        # The reference is then scored once for all of its errors, as with JSON.
        if not entries or entries[-1][:2] != (src, reference):
            entries.append(Entry(src, reference, []))
        entries[-1].errors.append(Error(type, contrastive))
    return entries


def by_kind(entries: Iterable[Entry], scores: Iterable[Sequence[float]]) -> dict[str, list[Accuracy]]:
    """The accuracy by ``type`` of error, with the total at the end, by ``distance`` and by ``frequency``.

    scores: for each entry, the log-probabilities of its reference and of its errors; a tie counts as wrong. Types are
    in order of first occurrence, distances 0, 1, ..., 15, >15, and frequencies >10000, >5000, ..., >2, 2, 1, 0. Errors
    without a distance or a frequency are left out there.
    """
    outcomes = [
        (error, reference > score)
        for entry, (reference, *others) in zip(entries, scores, strict=True)
        for error, score in zip(entry.errors, others, strict=True)
    ]
    types = dict.fromkeys(error.type for error, _ in outcomes)
    distances = [*map(str, range(FARTHEST + 1)), f">{FARTHEST}"]
    frequencies = [*(f">{least}" for least in FREQUENCIES), "2", "1", "0"]
    edges = (*FREQUENCIES, 1, 0)
    near = [(error.distance, right) for error, right in outcomes if error.distance is not None]
    known = [(error.frequency, right) for error, right in outcomes if error.frequency is not None]
    total = Accuracy("all", sum(right for _, right in outcomes), len(outcomes))
    return {
        "type": [*_accuracies(((error.type, right) for error, right in outcomes), types), total],
        "distance": _accuracies(((distances[min(far, FARTHEST + 1)], right) for far, right in near), distances),
        "frequency": _accuracies(
            ((frequencies[sum(count <= edge for edge in edges)], right) for count, right in known), frequencies
        ),
    }


def _accuracies(named: Iterable[tuple[str, bool]], names: Iterable[str]) -> list[Accuracy]:
    """The accuracy for each of ``names`` that occurs; named: for each error its name, and whether it was right."""
    right: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for name, preferred in named:
        every[name] += 1
        right[name] += preferred
    return [Accuracy(name, right[name], every[name]) for name in names if every[name]]
