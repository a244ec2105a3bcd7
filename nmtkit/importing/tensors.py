"""The tensors of a model of another toolkit, on their way to nmtkit's parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

from torch import Tensor

from nmtkit.errors import UserError

T = TypeVar("T")  # NumPy's arrays or PyTorch's tensors


class Tensors(Generic[T]):
    """The tensors ``left`` in a file, each of which must be used, and the parameters ``found`` so far."""

    def __init__(self, path: Path, tensors: Mapping[str, T]):
        self.path, self.left, self.found = path, dict(tensors), dict[str, Tensor]()

    def pop(self, name: str) -> T:
        """Remove the tensor of this name. Raises UserError if there is none."""
        if name not in self.left:
            raise UserError(f"{self.path}: tensor {name}: missing")
        return self.left.pop(name)

    def check_all_used(self) -> None:
        """Raise UserError if a tensor is left: the model would not be the same without it."""
        if self.left:
            raise UserError(f"{self.path}: tensor {min(self.left)}: has no place in nmtkit's architecture")
