"""Contrastive pairs: does a model find the right translation more probable than one with a known error?

The format is that of LingEval97 (Sennrich 2017): a JSON list of entries with ``source``, ``reference`` and
``errors``, each with ``type``, ``contrastive`` and, where they are known, ``distance`` (in words, between the two
that the error is about) and ``frequency`` (in training text). Three files that correspond line by line do too.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmtkit.errors import UserError
from nmtkit.lines import raw_lines, read_lines

FARTHEST = 15  # LingEval97's last distance with a bin of its own
FREQUENCIES = (10_000, 5000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2)  # LingEval97's bins: more than these


class Error(NamedTuple):
    """One wrong translation of an entry's source."""

    type: str
    contrastive: str  # the reference with an error in it
    distance: int | None = None
    frequency: int | None = None


class Entry(NamedTuple):
    """A source sentence, its right translation, and wrong ones that differ from it in one place."""

    source: str
    reference: str
    errors: list[Error]


class Outcome(NamedTuple):
    """The outcome for one error: did the model prefer the right translation?"""

    error: Error
    right: bool  # the reference was more probable; a tie is wrong


class Accuracy(NamedTuple):
    """The number of errors of one kind that a model recognised."""

    name: str  # of the kind: a type, a distance or a frequency
    right: int
    total: int

    @property
    def share(self) -> float:
        """The share of the errors that were recognised, from 0 to 1."""
        return self.right / self.total


def read_json(path: Path) -> list[Entry]:
    """Entries of LingEval97's JSON (.gz and .zst too). Raises UserError naming an invalid entry."""
    try:
        values = json.loads(b"".join(raw_lines(path)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    # An empty list would be an accuracy of nothing, which no table can show.
    if not isinstance(values, list) or not values:
        raise UserError(f"{path}: expected a JSON list of entries, as LingEval97 has it")
    return [_entry(value, f"{path}: entry {number}") for number, value in enumerate(values, 1)]


def _entry(value: Any, where: str) -> Entry:
    """One entry of the JSON list. Raises UserError that names the place of what is missing or of another type."""
    errors = value.get("errors") if isinstance(value, dict) else None
    if not isinstance(errors, list):
        raise UserError(f"{where}: expected source, reference and a list of errors")
    checked = []
    for number, error in enumerate(errors, 1):
        place = f"{where}, error {number}"
        if not isinstance(error, dict):
            raise UserError(f"{place}: expected type and contrastive")
        checked.append(
            Error(
                _text(error, "type", place),
                _text(error, "contrastive", place),
                _number(error, "distance", place),
                _number(error, "frequency", place),
            )
        )
    return Entry(_text(value, "source", where), _text(value, "reference", where), checked)


def _text(value: dict[str, Any], key: str, where: str) -> str:
    """The text under a key. Raises UserError for anything else."""
    if not isinstance(value.get(key), str):
        raise UserError(f"{where}: {key} is {value.get(key)!r}; expected text")
    return str(value[key])


def _number(value: dict[str, Any], key: str, where: str) -> int | None:
    """The whole number under a key, which may be missing. Raises UserError for anything else."""
    number = value.get(key)
    if number is None or (type(number) is int and number >= 0):
        return number
    if isinstance(number, str) and re.fullmatch("[0-9]{1,18}", number):  # LingEval97 has some zeros as text
        return int(number)
    raise UserError(f"{where}: {key} is {number!r}; expected a whole number, not below 0")


def read_line_aligned(source: Path, correct: Path, incorrect: Path, type: str) -> list[Entry]:
    """One error per line. Lines that follow each other with one source and reference are one entry."""
    files = [list(read_lines(path)) for path in (source, correct, incorrect)]
    for path, lines in zip((correct, incorrect), files[1:], strict=True):
        if len(lines) != len(files[0]):
            raise UserError(f"{path} has {len(lines)} lines but {source} has {len(files[0])}; make them correspond")
    if not files[0]:
        raise UserError(f"{source} is empty: there is nothing to compare")
    entries: list[Entry] = []
    for src, reference, contrastive in zip(*files, strict=True):
        # The reference is then scored once for all of its errors, as in the JSON form.
        if not entries or entries[-1][:2] != (src, reference):
            entries.append(Entry(src, reference, []))
        entries[-1].errors.append(Error(type, contrastive))
    return entries


def judge(entries: Iterable[Entry], scores: Iterable[Sequence[float]]) -> list[Outcome]:
    """The outcome for each error of each entry: is the reference more probable?

    scores: for each entry the log-probability of its reference, then of each of its errors.
    """
    return [
        Outcome(error, reference > score)
        for entry, (reference, *others) in zip(entries, scores, strict=True)
        for error, score in zip(entry.errors, others, strict=True)
    ]


def by_type(outcomes: Iterable[Outcome]) -> list[Accuracy]:
    """The accuracy of each type of error, in the order in which the types first occur."""
    return _accuracies(outcomes, lambda error: error.type)


def by_distance(outcomes: Iterable[Outcome]) -> list[Accuracy]:
    """The accuracy at each distance, 0, 1, ..., 15, >15; without the errors that have no distance."""
    names = [*map(str, range(FARTHEST + 1)), f">{FARTHEST}"]
    accuracies = _accuracies(
        outcomes, lambda error: None if error.distance is None else names[min(error.distance, FARTHEST + 1)]
    )
    return sorted(accuracies, key=lambda accuracy: names.index(accuracy.name))


def by_frequency(outcomes: Iterable[Outcome]) -> list[Accuracy]:
    """The accuracy in the bins of frequency >10000, >5000, ..., >2, 2, 1, 0; without the errors that have none."""
    # The order of the table; the smallest numbers have bins of their own.
    names = [*(f">{least}" for least in FREQUENCIES), "2", "1", "0"]

    def name(error: Error) -> str | None:
        if error.frequency is None:
            return None
        return next((f">{least}" for least in FREQUENCIES if error.frequency > least), str(error.frequency))

    return sorted(_accuracies(outcomes, name), key=lambda accuracy: names.index(accuracy.name))


def total(outcomes: Sequence[Outcome]) -> Accuracy:
    """The accuracy over all errors together."""
    return Accuracy("all", sum(outcome.right for outcome in outcomes), len(outcomes))


def _accuracies(outcomes: Iterable[Outcome], name: Callable[[Error], str | None]) -> list[Accuracy]:
    """The accuracy of every kind of error, as ``name`` calls them; without those that it gives no name."""
    right: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for outcome in outcomes:
        key = name(outcome.error)
        # The set does not say it of every error.
        if key is not None:
            every[key] += 1
            right[key] += outcome.right
    return [Accuracy(key, right[key], count) for key, count in every.items()]
