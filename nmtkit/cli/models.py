"""``nmtkit models``: the zoo beside its papers."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nmtkit.cli.tables import print_table
from nmtkit.config import load_yaml
from nmtkit.errors import UserError
from nmtkit.training.folder import ModelFolder


def models(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts: one JSON list.")] = False,
) -> None:
    """List every preset with the paper and table it comes from, the published score, and parameter counts.

    Parameters are in millions, counted by building the model at the paper's vocabulary sizes; the paper's own
    figure stands beside ours where it prints one. Trained here: the model folders in this folder that come from it.

      nmtkit models
      nmtkit models --json
    """
    from nmtkit.experiment.presets import load_preset, preset_names
    from nmtkit.experiment.schema import build_experiment

    trained = _trained_here()
    rows = []
    for name in preset_names():
        preset = build_experiment(load_preset(name), f"{name}.yaml")
        rows.append(_row(name, preset, trained))
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    header = ("preset", "architecture", "BLEU", "ours M", "paper M", "defined in", "trained here")
    for title in dict.fromkeys(row["paper"] for row in rows):
        lines = [_cells(row) for row in rows if row["paper"] == title]
        print_table(title, header, lines)
        print()
    print("BLEU is what the paper reports, on its own data; -: not reported.")


def _trained_here() -> list[tuple[str, dict[str, Any]]]:
    """The names and configurations of the model folders in the current folder."""
    found = []
    for path in sorted(Path().glob(f"*/{ModelFolder(Path()).config.name}")):
        try:
            found.append((path.parent.name, load_yaml(path)))
        except UserError:  # somebody else's config.yaml
            continue
    return found


def _row(name: str, preset: Any, trained: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    from nmtkit.config import to_dict
    from nmtkit.experiment.size import parameters_by_part

    paper = to_dict(preset.paper)
    count = parameters_by_part(preset, preset.data.src_vocab, preset.data.tgt_vocab)["total"]
    return {
        "preset": name,
        "architecture": preset.architecture,
        "paper": preset.paper.title,
        "table": preset.paper.section,
        "task": preset.paper.task,
        "score": preset.paper.score,
        "parameters_ours": count / 1e6,
        "parameters_paper": preset.paper.parameters,
        "trained_here": [folder for folder, config in trained if config.get("paper") == paper],
    }


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["preset"],
        row["architecture"],
        "-" if row["score"] is None else f"{row['score']:.2f}".rstrip("0").rstrip("."),
        f"{row['parameters_ours']:.1f}",
        "-" if row["parameters_paper"] is None else f"{row['parameters_paper']:.1f}",
        f"{row['table']}; {row['task'].partition(';')[0]}",
        ", ".join(row["trained_here"]) or "-",
    ]
