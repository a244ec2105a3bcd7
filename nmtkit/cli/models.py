"""``nmtkit models``: every preset beside what its paper reports."""

import json
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from nmtkit.cli.options import AsJson
from nmtkit.cli.tables import print_table
from nmtkit.config import load_yaml
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder, check_regular
from nmtkit.workflow.shared import presets

HEADER = ("preset", "BLEU", "M", "defined in", "trained here")


def models(
    preset: Annotated[str | None, typer.Argument(metavar="PRESET", autocompletion=presets,
        help="Preset to show in full, instead of the list.")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
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

    # A preset that does not exist is noticed by ``find_preset`` below, which names its neighbours.
    names = [preset] if preset else preset_names()
    if as_json:
        trained = _trained_here()
        print(json.dumps([_record(name, trained) for name in sorted(names)], indent=2, ensure_ascii=False))
    elif preset:
        print(f"# {preset}, from nmtkit/presets/{find_preset(preset).file}; {_size(preset)}")
        print(describe_preset(preset), end="")
    else:
        _print_list({name: find_preset(name).paper for name in names})


def _print_list(papers: dict[str, dict[str, Any]]) -> None:
    """Print a table for each task of each paper. ``papers`` has the block ``paper`` of each preset by its name."""
    trained = _trained_here()
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


def _trained_here() -> list[tuple[str, dict[str, Any]]]:
    """The names and configurations of the model folders in the current folder."""
    folders = []
    for path in sorted(Path().glob(f"*/{ModelFolder(Path()).config.name}")):
        try:
            check_regular(path.parent)
            # The block ``paper`` says which preset it was: a folder may have any name.
            folders.append((path.parent.name, load_yaml(path)))
        except UserError:  # somebody else's config.yaml
            continue
    return folders


def _record(name: str, trained: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The preset for scripts. Its model is built to be counted, which takes torch and a moment."""
    from nmtkit.experiment.presets import find_preset

    preset = find_preset(name)
    # The names of the keys are an interface: scripts read them.
    return {
        "preset": name,
        "architecture": preset.base["architecture"],
        "paper": preset.paper["title"],
        "table": preset.paper["section"],
        "task": preset.paper["task"],
        "score": preset.paper["score"],
        "parameters_ours": _millions(name),
        "parameters_paper": preset.paper["parameters"],
        "trained_here": [folder for folder, config in trained if config.get("paper") == preset.paper],
    }


def _size(name: str) -> str:
    """The size of the preset's model, beside what the paper says it is; with a small form's BLEU."""
    from nmtkit.experiment.presets import find_preset

    preset = find_preset(name)
    stated, score = preset.paper["parameters"], preset.paper["score"]
    size = f"{_millions(name):.2f} M parameters"
    if preset.small is not None:
        return f"{size}, the paper says " + ("nothing" if stated is None else f"{stated:g} M")
    # A small form is in no paper, and its score, if any, was measured here.
    return f"{size}; " + ("not trained here" if score is None else f"{score:.2f} BLEU here, recipes/multi30k/README.md")


def _millions(name: str) -> float:
    """The parameters of the preset's model in millions, with the paper's vocabularies."""
    from nmtkit.experiment.presets import load_preset
    from nmtkit.experiment.schema import build_experiment
    from nmtkit.experiment.size import parameters_by_part

    planned = build_experiment(load_preset(name), name)
    return parameters_by_part(planned, *planned.data.words)["total"] / 1e6
