"""``nmtkit contrast``: how often a model prefers the right translation to one with a known error."""

from dataclasses import replace
from typing import Annotated

from nmtkit.cli.options import AS_JSON, print_json
from nmtkit.cli.tables import print_table
from nmtkit.workflow.contrast import ContrastOptions, accuracies

TITLES = {"type": "by type of error", "distance": "by distance in words", "frequency": "by frequency in training"}


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
        # With empty tables, so that scripts can rely on every key.
        print_json({name: [{**row._asdict(), "accuracy": row.share} for row in rows] for name, rows in tables.items()})
        return
    for name, rows in tables.items():
        if rows:
            print(end="" if name == "type" else "\n")
            cells = [[row.name, f"{100 * row.share:.1f}", f"{row.right:,}", f"{row.total:,}"] for row in rows]
            print_table(f"accuracy {TITLES[name]}", [name, "%", "right", "of"], cells)
