"""``average``: the mean of several checkpoints, as a model folder."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from nmtkit.folders import ModelFolder
from nmtkit.options import Option, by_keyword, option
from nmtkit.workflow.shared import MODEL, OUTPUT, paths


# fmt: off
@dataclass(frozen=True)
class AverageOptions:
    """The options of ``average``, in the order of its help."""

    checkpoints: Sequence[Path | str] = option((), Option(
        "Checkpoints to average: folders such as run/checkpoints/step-900.", metavar="CHECKPOINT", argument=True))
    _: KW_ONLY
    model: Path | str = option("run", MODEL)
    output: Path | str = option("averaged", OUTPUT)
    best: int | None = option(None, Option("Average the N best checkpoints that were kept.", at_least=1))
    last: int | None = option(None, Option("Average the N newest checkpoints that were kept.", at_least=1))
# fmt: on


def write_average(options: AverageOptions) -> list[Path]:
    """Write the mean of checkpoints of the run ``model``, or of the run of ``checkpoints``: ``nmtkit average``.

    By default it is the mean of all the best checkpoints that were kept. Returns the folders of the checkpoints. Raises
    UserError for checkpoints that are missing or of different runs.
    """
    from nmtkit.training import averaging

    given, run, output = paths(options.checkpoints), Path(options.model), ModelFolder(Path(options.output))
    if given and options.model == AverageOptions.model:
        run = ModelFolder.at(given[0]).path
    return averaging.average(ModelFolder(run), output, given, options.best, options.last)


average = by_keyword(AverageOptions, write_average)
