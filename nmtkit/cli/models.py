"""``nmtkit models``: the zoo beside its papers."""

import json
from typing import Annotated, Any

import typer


def models(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts: one JSON list.")] = False,
) -> None:
    """List every preset with the paper and table it comes from, the published score, and parameter counts.

    Parameters are in millions, counted by building the model at the paper's vocabulary sizes; the paper's own
    figure stands beside ours where it prints one.

      nmtkit models
      nmtkit models --json
    """
    from nmtkit import experiment

    rows = []
    for name in experiment.preset_names():
        rows.append(_row(name, experiment.build_experiment(experiment.load_preset(name), f"{name}.yaml")))
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    header = ("preset", "BLEU", "ours M", "paper M", "defined in")
    lines = [
        (
            row["preset"],
            "-" if row["score"] is None else f"{row['score']:.2f}".rstrip("0").rstrip("."),
            f"{row['parameters_ours']:.1f}",
            "-" if row["parameters_paper"] is None else f"{row['parameters_paper']:.1f}",
            f"{row['table']}; {row['task'].partition(';')[0]}",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header) - 1)]
    for title in dict.fromkeys(row["paper"] for row in rows):
        print(f"\n{title}")
        print("  " + _columns(header, widths))
        for row, line in zip(rows, lines, strict=True):
            if row["paper"] == title:
                print("  " + _columns(line, widths))
    print("\nBLEU is what the paper reports, on its own data; '-': not reported.")


def _row(name: str, preset: Any) -> dict[str, Any]:
    import torch

    from nmtkit.models.base import count_parameters

    with torch.device("meta"):
        model = preset.build(preset.data.src_vocab, preset.data.tgt_vocab)
    return {
        "preset": name,
        "architecture": preset.architecture,
        "paper": preset.paper.title,
        "table": preset.paper.section,
        "task": preset.paper.task,
        "score": preset.paper.score,
        "parameters_ours": count_parameters(model) / 1e6,
        "parameters_paper": preset.paper.parameters,
    }


def _columns(cells: tuple[str, ...], widths: list[int]) -> str:
    """The first column to the left, figures to the right, the last as long as it likes."""
    figures = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:], strict=True)]
    return "  ".join([cells[0].ljust(widths[0]), *figures, cells[-1]])
