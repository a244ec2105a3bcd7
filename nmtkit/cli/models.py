"""``nmtkit models``: every preset beside what its paper reports."""

import json
import textwrap
from typing import Any

from nmtkit.cli.options import AsJson
from nmtkit.cli.tables import print_table
from nmtkit.workflow.models import ModelsOptions, describe_presets, millions, trained_here

HEADER = ("preset", "BLEU", "M", "defined in", "trained here")


def models(options: ModelsOptions, as_json: AsJson = False) -> None:
    """List every preset with the BLEU, parameters and table of its paper, or show one preset in full.

    A preset is shown as a complete configuration with the section that each value comes from; "(base: VALUE)" marks
    what differs from the paper's base system. Save it to a file, edit it, and train it with nmtkit train --config. In
    the list, "trained here" names the model folders in the current folder that were trained with the preset.
    The JSON also has the number of parameters of each preset as nmtkit builds it.

    Every preset has a small form, such as deep-att-small, for 10,000 to 200,000 sentence pairs: narrower, with more
    dropout and a learning rate for few updates. The list leaves these out.

      nmtkit models
      nmtkit models dtmt2
      nmtkit models dtmt2-small
      nmtkit models dtmt2 > mine.yaml
      nmtkit models --json
    """
    from nmtkit.experiment.presets import describe_preset, find_preset, preset_names

    name = options.preset
    if as_json:
        print(json.dumps(describe_presets(options), indent=2, ensure_ascii=False))
    elif name:
        # A preset that does not exist is noticed by ``find_preset``, which names its neighbours.
        print(f"# {name}, from nmtkit/presets/{find_preset(name).file}; {_size(name)}")
        print(describe_preset(name), end="")
    else:
        _print_list({each: find_preset(each).paper for each in preset_names()})


def _print_list(papers: dict[str, dict[str, Any]]) -> None:
    """Print a table for each task of each paper. ``papers`` has the block ``paper`` of each preset by its name."""
    trained = trained_here()
    tables: dict[tuple[str, str], list[list[str]]] = {}
    for name, paper in papers.items():
        # Scores of different tasks, or kinds of BLEU, must not stand in one column.
        tables.setdefault((paper["title"], paper["task"]), []).append(_cells(name, paper, trained))
    for heading, rows in tables.items():
        print_table("\n".join(textwrap.fill(text, 100) for text in heading), HEADER, rows)
        print()
    print("BLEU and millions of parameters (M) are the paper's; `nmtkit models NAME` shows one with ours.")
    print("Each has a form for 10,000 to 200,000 pairs, of 5 to 16 M parameters: `nmtkit models NAME-small`.")


def _cells(name: str, paper: dict[str, Any], trained: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """The row of a preset in the list; a dash is for what its paper does not say."""
    return [
        name,
        "-" if paper["score"] is None else f"{paper['score']:.2f}".removesuffix("0"),
        "-" if paper["parameters"] is None else f"{paper['parameters']:g}",
        paper["section"],
        ", ".join(folder for folder, config in trained if config.get("paper") == paper) or "-",
    ]


def _size(name: str) -> str:
    """The size of the preset's model, beside what the paper says it is; with a small form's BLEU."""
    from nmtkit.experiment.presets import find_preset

    preset = find_preset(name)
    stated, score = preset.paper["parameters"], preset.paper["score"]
    size = f"{millions(name):.2f} M parameters"
    if preset.small is not None:
        return f"{size}, the paper says " + ("nothing" if stated is None else f"{stated:g} M")
    # A small form is in no paper, and its score, if any, was measured here.
    return f"{size}; " + ("not trained here" if score is None else f"{score:.2f} BLEU here, recipes/multi30k/README.md")
