"""``nmtkit ensemble``: several models in one folder."""

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.options import Combine, Weights, log, parse_weights, say_next_of_model


def ensemble(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", show_default=False,
        help="Model folders to combine, or checkpoint folders such as run/checkpoints/step-876.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Ensemble folder to write.")] = Path("ensemble"),
    combine: Combine = None,
    weights: Weights = None,
) -> None:  # fmt: skip
    """Bundle models into one folder that translates with all of them.

      nmtkit ensemble one two three
      nmtkit translate -m ensemble < in.txt

    The folder is self-contained. The models may have different architectures, source vocabularies and source
    segmentations, but must share the target vocabulary. At every step, the probability of the next word is the mean of
    the models' probabilities; --combine and --weights are kept in the folder, and nmtkit translate can replace them.
    Every command that translates, scores or reports takes the folder as a model folder; nmtkit average and nmtkit
    inspect are for single models.
    """
    # Imports torch, for which ``nmtkit --help`` must not wait.
    from nmtkit.translation.loading import write_ensemble

    # The option's default is None because ``translate`` shares it, where an ensemble folder has a say.
    write_ensemble(models, output, combine or "prob", parse_weights(weights))
    log.info(f"{output}: {', '.join(map(str, models))}")
    say_next_of_model(output)
