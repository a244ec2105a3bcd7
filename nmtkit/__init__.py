"""Neural machine translation with recurrent and convolutional models.

From Python: ``for text in nmtkit.load("run").translate(["Hello!"]): print(text)``. Whatever else is wanted is said by a
``Request``: ``nmtkit.load("run").translate(lines, nmtkit.Request(beam_size=10, replace_unk=True))``.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmtkit.translation.request import Request
from nmtkit.version import __version__
from nmtkit.workflow.prep import prep
from nmtkit.workflow.score import score
from nmtkit.workflow.train import train
from nmtkit.workflow.vocab import vocab

if TYPE_CHECKING:
    from nmtkit.translation.translator import Translator

__all__ = ["Request", "__version__", "load", "prep", "score", "train", "vocab"]

# oneDNN, which multiplies for PyTorch, keeps a program of a megabyte or two for each shape of a product in bfloat16: up
# to 1,024 in either of two caches, and hardly any batch has the shape of another. With 128, the programs of one update
# are made once and memory stays flat. oneDNN reads this at its first product, so it is set here, where every process
# comes by in time; a value that the user gave stays.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", os.environ.get("DNNL_PRIMITIVE_CACHE_CAPACITY", "128"))
os.environ.setdefault("LRU_CACHE_CAPACITY", "128")
# PyTorch then asks Linux for large pages for tensors of 2 MB and more: fewer faults and less searching for addresses.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def load(
    folder: Path | str | Sequence[Path | str] = "run",
    device: str = "auto",
    *,
    combine: Literal["prob", "logprob"] | None = None,
    weights: Sequence[float] | None = None,
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "auto",
    lexicon: Path | str | None = None,
    checkpoint: str | int | None = None,
) -> "Translator":
    """The translator in a model or ensemble folder, or the ensemble of several folders.

    device: auto (a GPU if there is one), cpu, cuda, cuda:1, ... combine, weights: of an ensemble, see ``Ensemble``.
    precision: of the products in search; auto is bfloat16 where the device multiplies that faster, else float32.
    Translations that are given are scored in float32, unless another precision is named. lexicon: a file of nmtkit
    align, for unknown words and shortlists, instead of the model's own. checkpoint: best, last or the number of an
    update; the best one is that of a folder, and a folder as run/checkpoints/step-876 is that checkpoint.
    """
    from nmtkit.training.folder import at_checkpoint
    from nmtkit.translation import loading  # torch takes seconds to import; `nmtkit --help` does without

    folders = [folder] if isinstance(folder, Path | str) else folder
    chosen = at_checkpoint(folders, None if checkpoint is None else str(checkpoint))
    return loading.load(chosen, device, combine, weights, precision, lexicon)
