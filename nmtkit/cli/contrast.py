"""``nmtkit contrast``: how often a model prefers the right translation to one with a known error."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from nmtkit.cli.options import AS_JSON
from nmtkit.cli.tables import print_table
from nmtkit.workflow.contrast import ContrastOptions, accuracies

if TYPE_CHECKING:
    from nmtkit.evaluation.contrast import Accuracy


def contrast(options: ContrastOptions, as_json: Annotated[bool, replace(AS_JSON, before="model")] = False) -> None:
    """Measure contrastive accuracy: how often the model prefers the correct translation to one with an error.

    A model prefers the translation with the higher probability; a tie counts as wrong. Accuracy is shown by type of
    error, and by distance in words and by frequency in the training text where the test set gives them. A folder has
    src.LANG, tgt.correct.LANG and tgt.incorrect.LANG (.gz too), and its name is the type of error.

      nmtkit contrast lingeval97.json
      nmtkit contrast lingeval97.json --type subj_verb_agreement
      nmtkit contrast np_agreement.mt placeholder_ding.human -m run
      nmtkit contrast --source in.en --correct good.de --incorrect bad.de
    """
    tables = accuracies(options)
    if as_json:
        print(json.dumps({name: list(map(_as_json, rows)) for name, rows in tables.items()}, indent=2))
    else:
        # JSON has empty tables, too, so that scripts can rely on every key.
        _print({name: rows for name, rows in tables.items() if rows})


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
