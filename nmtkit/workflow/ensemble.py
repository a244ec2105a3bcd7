"""``ensemble``: several models in one folder."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from nmtkit.options import Option, by_keyword, option
from nmtkit.search.settings import Combine
from nmtkit.workflow.shared import COMBINE, WEIGHTS, paths, weights_of


# fmt: off
@dataclass(frozen=True)
class EnsembleOptions:
    """The options of ``ensemble``, in the order of its help."""

    models: Sequence[Path | str] = field(metadata={"option": Option(
        "Model folders to combine, or checkpoint folders such as run/checkpoints/step-876.", metavar="MODEL",
        argument=True)})
    _: KW_ONLY
    output: Path | str = option("ensemble", Option("Ensemble folder to write.", names="--output -o"))
    combine: Combine | None = option(None, COMBINE)
    weights: str | Sequence[float] | None = option(None, WEIGHTS)
# fmt: on


def bundle(options: EnsembleOptions) -> None:
    """Write an ensemble folder, which is used like a model folder: ``nmtkit ensemble``.

    Raises UserError for models that cannot be combined, and for a folder ``output`` that is not empty.
    """
    from nmtkit.translation.loading import write_ensemble

    weights = weights_of(options.weights)
    write_ensemble(paths(options.models), Path(options.output), options.combine or "prob", weights)


ensemble = by_keyword(EnsembleOptions, bundle, "ensemble")
