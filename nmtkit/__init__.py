"""Neural machine translation with recurrent and convolutional models.

From Python: ``for text in nmtkit.load("run").translate(["Hello!"]): print(text)``.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmtkit.translation.translator import Translator

__version__ = "0.1.0"


def load(folder: Path | str = "run", device: str = "auto") -> "Translator":
    """The translator in a model or ensemble folder. device: auto (a GPU if there is one), cpu, cuda, cuda:1, ..."""
    from nmtkit.translation import loading  # torch takes seconds to import; `nmtkit --help` does without

    return loading.load(folder, device)
