"""``average``: the mean of several checkpoints, as a model folder."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
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
    model: Path | str | None = option(None, replace(
        MODEL, help=f"{MODEL.help}  [default: run, or the folder of the checkpoints' run]"))
    output: Path | str = option("averaged", OUTPUT)
    best: int | None = option(None, Option("Average the N best checkpoints that were kept.", at_least=1))
    last: int | None = option(None, Option("Average the N newest checkpoints that were kept.", at_least=1))
# fmt: on


def write_average(options: AverageOptions) -> list[Path]:
    """Write the mean of checkpoints of the run ``model`` to the folder ``output``: ``nmtkit average``.

    By default it is the mean of all the best checkpoints that were kept. Returns the folders of the checkpoints. Raises
    UserError for checkpoints that are missing or of different runs, and if ``output`` has a model of another run.
    """
    from nmtkit.experiment.run import check_same_run
    from nmtkit.training import averaging

    given, output = paths(options.checkpoints), ModelFolder(Path(options.output))
    run = ModelFolder(ModelFolder.at(Path(options.model) if options.model else given[0] if given else Path("run")).path)
    if run.config.exists():
        check_same_run(output, run)
    return averaging.average(run, output, given, options.best, options.last)


average = by_keyword(AverageOptions, write_average, "average")
