"""``nmtkit models``: the presets and the figures of their papers."""

import re
import textwrap
from typing import TYPE_CHECKING

from nmtkit.cli.options import AsJson, print_json
from nmtkit.cli.tables import print_table
from nmtkit.workflow.models import ModelsOptions, describe_presets, millions, trained_here

if TYPE_CHECKING:
    from nmtkit.experiment.presets import Preset


def models(options: ModelsOptions, as_json: AsJson = False) -> None:
    """List every preset with the BLEU, parameter count and table in its paper, or show one preset in full.

    A preset is shown as a complete configuration with the section that each value comes from; "(base: VALUE)" marks
    values that differ from the paper's base system. Save it to a file, edit it, and train it with nmtkit train
    --config. In the list, "trained here" names the model folders in the current folder that were trained with the
    preset or its small version. --json also gives the parameter count of each preset as nmtkit builds it.

    Every preset has a small version, such as deep-att-small, for 10,000 to 200,000 sentence pairs: narrower, with more
    dropout and a learning rate for few updates. The list leaves these out.

      nmtkit models
      nmtkit models dtmt2
      nmtkit models dtmt2-small
      nmtkit models dtmt2 > mine.yaml
      nmtkit models --json
    """
    from nmtkit.experiment.presets import describe_preset, find_preset

    name = options.preset
    if as_json:
        print_json(describe_presets(options))
    elif name:
        preset = find_preset(name, "preset")
        print(f"# {name}, from nmtkit/presets/{preset.file}; {_size(name, preset)}")
        print(describe_preset(name), end="")
    else:
        _print_list()


def _print_list() -> None:
    """Print a table of presets for each task of each paper; a dash where the paper reports nothing."""
    from nmtkit.experiment.presets import find_preset, preset_names

    trained = trained_here()
    tables: dict[tuple[str, str], list[list[str]]] = {}
    for name in preset_names():
        preset = find_preset(name)
        paper, small = preset.paper, preset.small and preset.small.paper
        folders = [folder + " (small)" * (own == small) for folder, own in trained if own in (paper, small)]
        row = [
            name,
            "-" if paper["score"] is None else f"{paper['score']:.2f}".removesuffix("0"),
            "-" if paper["parameters"] is None else f"{paper['parameters']:g}",
            paper["section"],
            ", ".join(folders) or "-",
        ]
        # By task, because scores of different test sets or kinds of BLEU must not share a column.
        tables.setdefault((paper["title"], paper["task"]), []).append(row)
    for heading, rows in tables.items():
        title = "\n".join(textwrap.fill(text, 100) for text in heading)
        print_table(title, ("preset", "BLEU", "M", "defined in", "trained here"), rows)
        print()
    print("BLEU and millions of parameters (M) are the paper's; `nmtkit models NAME` also shows nmtkit's.")
    print("Small versions for 10,000 to 200,000 pairs, with 5 to 16 M parameters: `nmtkit models NAME-small`.")


def _size(name: str, preset: "Preset") -> str:
    """The number of parameters, beside the paper's or, for a small version, with the BLEU measured here and where."""
    stated, score, task = (preset.paper[key] for key in ("parameters", "score", "task"))
    size = f"{millions(name):.2f} M parameters"
    if preset.small is not None:
        return f"{size}, " + ("not stated in the paper" if stated is None else f"{stated:g} M in the paper")
    if score is None:
        return f"{size}; no BLEU measured here"
    return f"{size}; {score:.2f} BLEU here, {re.findall(r'recipes/[^)]+', task)[0]}"
