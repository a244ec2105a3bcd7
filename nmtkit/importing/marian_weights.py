"""The tensors and options of Marian's weights (``.npz``)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmtkit.config import parse_yaml
from nmtkit.errors import UserError
from nmtkit.importing.found import NEVER
from nmtkit.importing.marian_text import Words
from nmtkit.importing.npz import Array, read_npz
from nmtkit.importing.tensors import Tensors

OPTIONS = "special:model.yml"  # the array of bytes that holds the options which decide about the architecture


class Weights(Tensors[Array]):
    """The tensors and options of a file, and the parameters that the tensors become."""

    def __init__(self, path: Path):
        super().__init__(path, read_npz(path))
        if OPTIONS not in self.left:
            raise UserError(f"{path}: has no {OPTIONS}, which Marian writes into its models")
        text = self.pop(OPTIONS).tobytes().rstrip(b"\0").decode("utf-8", "replace")
        self.options = parse_yaml(text, f"{path}: {OPTIONS}")
        if not isinstance(self.options, dict):
            raise UserError(f"{path}: {OPTIONS}: expected options, found {text[:40]!r}")

    @property
    def version(self) -> str:
        """The version of Marian, v1.12.43; "" if it is not known."""
        return str(self.options.get("version", "")).partition(" ")[0]

    def require(self, option: str, *values: Any, default: Any = None) -> Any:
        """The value of an option, which must be one of these; ``default`` in a file of a Marian that lacked it."""
        value = self.options.get(option, default)
        if value not in values:
            only = " or ".join(map(repr, values))
            raise UserError(f"{self.path}: option {option}: {value!r} cannot be imported, only {only}")
        return value

    def size(self, option: str) -> int:
        """The value of an option that is a count."""
        value = self.options.get(option)
        if type(value) is not int or value < 1:
            raise UserError(f"{self.path}: option {option}: {value!r} is not a number of at least 1")
        return value

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor of this name in float32, which must have this shape (...); one of shape (1, E) becomes (E,)."""
        array = self.pop(name)
        if array.shape != shape or array.dtype not in (np.float32, np.float16):
            raise UserError(
                f"{self.path}: tensor {name}: {array.dtype} of shape {array.shape}, where the options ask for numbers "
                f"of shape {shape}"
            )
        tensor = torch.from_numpy(array.astype(np.float32))
        return tensor[0] if shape[0] == 1 else tensor

    def rename(self, new: Callable[[str], str | None]) -> None:
        """Give the tensors other names and leave out those that have none; one of shape (E,) becomes (1, E)."""
        named = ((new(name), np.atleast_2d(array)) for name, array in self.left.items())
        self.left = {name: array for name, array in named if name is not None}

    def take_words(self, tied: str, width: int, src: Words, tgt: Words, output: str) -> None:
        """The embeddings and the output layer, whose matrix and bias have names that begin with ``output``."""
        take, found = self.take, self.found
        if tied == "all":
            found["embedding.tgt.weight"] = tgt.table(take("Wemb", len(tgt.marian), width), 0)
        else:
            found["embedding.src.weight"] = src.table(take("encoder_Wemb", len(src.marian), width), 0)
            found["embedding.tgt.weight"] = tgt.table(take("decoder_Wemb", len(tgt.marian), width), 0)
        if tied == "none" and f"{output}_Wt" in self.left:
            found["output.weight"] = tgt.table(take(f"{output}_Wt", len(tgt.marian), width), 0)
        elif tied == "none":  # as older versions have it
            found["output.weight"] = tgt.table(take(f"{output}_W", width, len(tgt.marian)).t(), 0)
        found["output.bias"] = tgt.table(take(f"{output}_b", 1, len(tgt.marian)), NEVER)
