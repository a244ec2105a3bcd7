"""The tensors and options of Marian's weights (``.npz``)."""

from pathlib import Path

import torch
from torch import Tensor

from nmtkit.config import parse_yaml
from nmtkit.errors import UserError
from nmtkit.importing.found import Options
from nmtkit.importing.npz import read_npz
from nmtkit.importing.tensors import Tensors

OPTIONS = "special:model.yml"  # the array of bytes with the options of the architecture
_HISTORY = ("uidx", "history_errs")  # arrays of models of type nematus that are not parameters


class Weights(Tensors):
    """The tensors and options of a file."""

    def __init__(self, path: Path):
        arrays = read_npz(path, lambda name: name not in _HISTORY)
        if OPTIONS not in arrays:
            raise UserError(f"{path}: has no {OPTIONS}, which Marian writes into its models")
        text = arrays.pop(OPTIONS).tobytes().rstrip(b"\0").decode("utf-8", "replace")
        options = parse_yaml(text, f"{path}: {OPTIONS}")
        if not isinstance(options, dict):
            raise UserError(f"{path}: {OPTIONS}: expected options, found {text[:40]!r}")
        super().__init__(path, arrays)
        self.left = {name: torch.atleast_2d(tensor) for name, tensor in self.left.items()}  # Nematus has vectors
        self.options = Options(f"{path}: option", options)

    def words(self) -> list[int | None]:
        """The numbers of source and target words by dim-vocabs; Marian reads no more of a vocabulary. None: unknown."""
        sizes = self.options.values.get("dim-vocabs")
        if not isinstance(sizes, list) or len(sizes) != 2 or not all(type(size) is int for size in sizes):
            return [None, None]  # refused later
        return [max(1, size) for size in sizes]

    def take(self, name: str, *shape: int) -> Tensor:
        """As in ``Tensors``; in the file, vectors (E,) are matrices (1, E)."""
        return super().take(name, *shape) if len(shape) > 1 else super().take(name, 1, *shape)[0]
