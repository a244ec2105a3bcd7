"""``nmtkit average``: the mean of several checkpoints, as a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.options import OneModel, log, say_next_of_model


def average(
    checkpoints: Annotated[list[Path] | None, typer.Argument(metavar="CHECKPOINT", show_default=False,
        help="Checkpoints to average: folders such as run/checkpoints/step-900.")] = None,
    model: OneModel = Path("run"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder to write.")] = Path("averaged"),
    best: Annotated[int | None, typer.Option(min=1, help="Average the N best checkpoints that were kept.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Average the N newest checkpoints that were kept.")] = None,
) -> None:  # fmt: skip
    """Average the weights of checkpoints of one run: by default, all of the best ones that were kept.

    nmtkit average
    nmtkit average --last 3 -o last3
    nmtkit average run/checkpoints/step-900 run/checkpoints/step-1000
    """
    # Here and not above: this imports torch, for which ``nmtkit --help`` must not wait.
    from nmtkit.folders import ModelFolder
    from nmtkit.training import averaging

    used = averaging.average(ModelFolder(model), ModelFolder(output), checkpoints or [], best, last)
    log.info(f"{output}: mean of {', '.join(path.name for path in used)}")
    say_next_of_model(output)
