"""The tensors and options of Marian's weights (``.npz``)."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from nmtkit.config import parse_yaml
from nmtkit.errors import UserError
from nmtkit.importing.found import NEVER, Options
from nmtkit.importing.marian_text import Words
from nmtkit.importing.npz import read_npz
from nmtkit.importing.tensors import Tensors

OPTIONS = "special:model.yml"  # the array of bytes that holds the options which decide about the architecture


_HISTORY = ("uidx", "history_errs")  # arrays of models of type nematus that are no parameters


class Weights(Tensors):
    """The tensors and options of a file, and the parameters that the tensors become."""

    def __init__(self, path: Path):
        arrays = read_npz(path, lambda name: name not in _HISTORY)
        if OPTIONS not in arrays:
            raise UserError(f"{path}: has no {OPTIONS}, which Marian writes into its models")
        text = arrays.pop(OPTIONS).tobytes().rstrip(b"\0").decode("utf-8", "replace")
        options = parse_yaml(text, f"{path}: {OPTIONS}")
        if not isinstance(options, dict):
            raise UserError(f"{path}: {OPTIONS}: expected options, found {text[:40]!r}")
        super().__init__(path, arrays)
        self.options = Options(f"{path}: option", options)

    @property
    def version(self) -> str:
        """The version of Marian, v1.12.43; "" if it is not known."""
        return str(self.options.values.get("version", "")).partition(" ")[0]

    def take(self, name: str, *shape: int) -> Tensor:
        """As in ``Tensors``; a tensor of shape (1, E) becomes (E,)."""
        tensor = super().take(name, *shape)
        return tensor[0] if shape[0] == 1 else tensor

    def rename(self, new: Callable[[str], str | None]) -> None:
        """Give the tensors other names and leave out those that have none; one of shape (E,) becomes (1, E)."""
        named = ((new(name), torch.atleast_2d(tensor)) for name, tensor in self.left.items())
        self.left = {name: tensor for name, tensor in named if name is not None}

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
