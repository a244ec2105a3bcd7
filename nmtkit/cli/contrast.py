"""``nmtkit contrast``: how often a model prefers the right translation to one with a known error."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmtkit.cli.options import AsJson, Checkpoint, Device, ErrorTypes, ModelFolders
from nmtkit.cli.tables import print_table
from nmtkit.errors import UserError
from nmtkit.folders import at_checkpoint

if TYPE_CHECKING:
    from nmtkit.evaluation.contrast import Accuracy, Entry
    from nmtkit.translation.translator import Translator

SHOWN_TOGETHER = 500  # entries that are scored between two movements of the progress bar


def contrast(
    sets: Annotated[list[Path] | None, typer.Argument(metavar="SET", show_default=False,
        help="Test sets: JSON as in LingEval97, or folders as in DistilLingEval.")] = None,
    source: Annotated[Path | None, typer.Option(
        help="Source sentences of --correct and --incorrect, one per line.")] = None,
    correct: Annotated[Path | None, typer.Option(help="Correct translations, one per line.")] = None,
    incorrect: Annotated[Path | None, typer.Option(help="Translations with an error in each, one per line.")] = None,
    types: ErrorTypes = None,
    as_json: AsJson = False,
    model: ModelFolders = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
) -> None:  # fmt: skip
    """Measure contrastive accuracy: how often the model prefers the correct translation to one with an error.

    A model prefers the translation with the higher probability; a tie counts as wrong. Accuracy is shown by type of
    error, and by distance in words and by frequency in the training text where the test set gives them. A folder has
    src.LANG, tgt.correct.LANG and tgt.incorrect.LANG (.gz too), and its name is the type of error.

      nmtkit contrast lingeval97.json
      nmtkit contrast lingeval97.json --type subj_verb_agreement
      nmtkit contrast np_agreement.mt placeholder_ding.human -m run
      nmtkit contrast --source in.en --correct good.de --incorrect bad.de
    """
    entries = read_entries(sets or [], (source, correct, incorrect), types or [])

    from nmtkit.translation import loading

    # The sets are read before the models are loaded: a wrong name of a file is found at once.
    tables = measure(
        loading.load(at_checkpoint(model or [Path("run")], checkpoint), device, precision="float32"), entries
    )
    if as_json:
        print(json.dumps({name: list(map(_as_json, rows)) for name, rows in tables.items()}, indent=2))
    else:
        # JSON has the empty tables, too: a script can rely on every key.
        _print({name: rows for name, rows in tables.items() if rows})


def read_entries(
    sets: list[Path], files: tuple[Path | None, Path | None, Path | None], types: list[str]
) -> "list[Entry]":
    """The entries of all sets and of the three files, with the errors of these types; an empty list means all types.

    Raises UserError where there is nothing, or a type that has no error.
    """
    from nmtkit.evaluation.contrast import read_json, read_line_aligned

    # JSON, folders and the three files may all be given: their entries are one test set.
    source, correct, incorrect = files
    entries = []
    if source and correct and incorrect:
        entries += read_line_aligned(source, correct, incorrect, incorrect.name)
    elif any(files) or not sets:
        raise UserError("give a set (JSON, or a folder), or all of --source, --correct and --incorrect")
    for path in sets:
        if path.is_dir():
            src, right, wrong = (_only(path, name) for name in ("src", "tgt.correct", "tgt.incorrect"))
            # Not path.name: "." has none, and ".." another one.
            entries += read_line_aligned(src, right, wrong, Path(os.path.abspath(path)).name)
        else:
            entries += read_json(path)
    if types:
        # A dict and not a set, so that the message names the types in the order of the files.
        known = dict.fromkeys(error.type for entry in entries for error in entry.errors)
        for wanted in types:
            if wanted not in known:
                raise UserError(f"--type {wanted}: no such errors; there are {', '.join(known)}")
        entries = [entry._replace(errors=[e for e in entry.errors if e.type in types]) for entry in entries]
    entries = [entry for entry in entries if entry.errors]  # without one there is nothing to prefer
    if not entries:
        raise UserError(f"{', '.join(map(str, sets))}: has no errors: there is nothing to compare")
    return entries


def measure(translator: "Translator", entries: "list[Entry]") -> "dict[str, list[Accuracy]]":
    """The accuracy by type, with that of all of them below, by distance and by frequency; with a progress bar."""
    from nmtkit.evaluation.contrast import by_distance, by_frequency, by_type, judge, total
    from nmtkit.machine.progress import progress

    scores: list[list[float]] = []
    # In windows, not in one call: the bar moves, and only one window's scores of tokens are held at once.
    with progress("scoring", len(entries)) as advance:
        for start in range(0, len(entries), SHOWN_TOGETHER):
            window = entries[start : start + SHOWN_TOGETHER]
            candidates = [[entry.reference, *(error.contrastive for error in entry.errors)] for entry in window]
            scored = translator.score_candidates([entry.source for entry in window], candidates)
            scores += [[float(log_probs.sum(dtype=float)) for log_probs in group] for group in scored]
            advance(len(window))
    outcomes = judge(entries, scores)
    return {
        "type": [*by_type(outcomes), total(outcomes)],
        "distance": by_distance(outcomes),
        "frequency": by_frequency(outcomes),
    }


def _only(folder: Path, name: str) -> Path:
    """The one file with that name, whatever the language behind it. Raises UserError if there is none, or several."""
    files = sorted(folder.glob(f"{name}.*"))
    if len(files) != 1:
        raise UserError(f"{folder}: has {len(files)} files {name}.*; expected one, as in {name}.de")
    return files[0]


def _as_json(accuracy: "Accuracy") -> dict[str, object]:
    """An accuracy with its counts and its share, as the values of a JSON object."""
    return {**accuracy._asdict(), "accuracy": accuracy.share}


def _print(tables: "dict[str, list[Accuracy]]") -> None:
    """Print a table for each way to group the errors, with a blank line between two."""
    titles = {"type": "by type of error", "distance": "by distance in words", "frequency": "by frequency in training"}
    for number, (name, rows) in enumerate(tables.items()):
        print(end="\n" if number else "")
        cells = [[row.name, f"{100 * row.share:.1f}", f"{row.right:,}", f"{row.total:,}"] for row in rows]
        print_table(f"accuracy {titles[name]}", [name, "%", "right", "of"], cells)
