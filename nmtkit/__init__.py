"""Neural machine translation with recurrent and convolutional models.

``for text in nmtkit.load("run").translate(["Hello!"]): print(text)`` translates; options go into a ``Request``:
``nmtkit.load("run").translate(lines, nmtkit.Request(beam_size=10, replace_unk=True))``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.errors import UserError
from nmtkit.search.settings import Combine
from nmtkit.translation.request import Request
from nmtkit.version import __version__
from nmtkit.workflow.align import align
from nmtkit.workflow.average import average
from nmtkit.workflow.contrast import contrast
from nmtkit.workflow.doctor import doctor
from nmtkit.workflow.document import translate_document
from nmtkit.workflow.ensemble import ensemble
from nmtkit.workflow.import_model import import_model
from nmtkit.workflow.inspect import gradient_flows, inspect
from nmtkit.workflow.models import list_presets
from nmtkit.workflow.posunk import posunk
from nmtkit.workflow.prep import prep
from nmtkit.workflow.report import report
from nmtkit.workflow.score import score
from nmtkit.workflow.shared import Precision, models_at, weights_of
from nmtkit.workflow.train import train
from nmtkit.workflow.translate import translate
from nmtkit.workflow.tune import tune
from nmtkit.workflow.vocab import vocab

if TYPE_CHECKING:
    from nmtkit.translation.translator import Translator

__all__ = [
    "Request", "UserError", "__version__", "align", "average", "contrast", "doctor", "ensemble", "gradient_flows",
    "import_model", "inspect", "list_presets", "load", "posunk", "prep", "report", "score", "train", "translate",
    "translate_document",
    "tune", "vocab",
]  # fmt: skip


def load(
    folder: Path | str | Sequence[Path | str] = "run",
    device: str = "auto",
    *,
    combine: Combine | None = None,
    weights: str | Sequence[float] | None = None,
    precision: Precision = "auto",
    lexicon: Path | str | None = None,
    checkpoint: str | int | None = None,
) -> "Translator":
    """Load a model or ensemble folder, or an ensemble of several folders.

    device: auto (a GPU if there is one), cpu, cuda, cuda:1, ... combine, weights: see ``Ensemble``. precision: of
    matrix products in search; auto is bfloat16 if the device multiplies it faster than float32. References are
    scored in float32 unless a precision is given. lexicon: a file made by nmtkit align for unknown words and
    shortlists, instead of the model's own. checkpoint: best (the default), last or the number of an update; a folder
    such as run/checkpoints/step-876 also selects one. Raises UserError if the folders cannot be loaded or combined, or
    if the device or precision is not available.
    """
    from nmtkit.translation import loading  # imports torch, which takes seconds and `nmtkit --help` does not need

    return loading.load(models_at(folder, checkpoint), device, combine, weights_of(weights), precision, lexicon)
