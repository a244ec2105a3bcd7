"""``nmtkit ensemble``: several models in one folder."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmtkit.cli.options import parse_weights


def ensemble(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", show_default=False, help="Model folders.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")] = Path("ensemble"),
    combine: Annotated[
        Literal["prob", "logprob"],
        typer.Option(help="The mean of the members' probabilities, or of their logarithms."),
    ] = "prob",
    weights: Annotated[str | None, typer.Option(help="One number for each model, as 2,1,1.")] = None,
) -> None:
    """Bundle models into a folder that translates with all of them, anywhere.

      nmtkit ensemble one two three
      nmtkit translate -m ensemble < in.txt

    Models may be of different architectures and read different vocabularies and segmentations of the source, but
    they must share the target vocabulary. What translates, scores or reports takes the folder like one model's; average
    and inspect are for single models. At every step the next word has the mean of the members' probabilities.
    """
    from nmtkit.translation.loading import write_ensemble

    write_ensemble(models, output, combine, parse_weights(weights))
    print(f"{output}: {', '.join(map(str, models))}", file=sys.stderr)
