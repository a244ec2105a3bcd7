"""``nmtkit average``: the mean of several checkpoints, as a model folder."""

from pathlib import Path

from nmtkit.cli.options import log, say_next_of_model
from nmtkit.workflow.average import AverageOptions, write_average


def average(options: AverageOptions) -> None:
    """Average the weights of checkpoints of one run: by default, all of the best ones that were kept.

    nmtkit average
    nmtkit average --last 3 -o last3
    nmtkit average run/checkpoints/step-900 run/checkpoints/step-1000
    """
    used = write_average(options)
    log.info(f"{options.output}: mean of {', '.join(path.name for path in used)}")
    say_next_of_model(Path(options.output))
