"""The tensors of a model of another toolkit."""

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.importing.npz import Array

_BROKEN = (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, LookupError, TypeError, AttributeError)


def load_pickle(path: Path, classes: Sequence[type] = ()) -> Any:
    """Load a file of ``torch.save``: tensors, plain values and objects of these ``classes``.

    Raises UserError for other content, so that no file can run code.
    """
    try:
        with torch.serialization.safe_globals([*classes]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except _BROKEN as error:
        reason = re.sub(r"\s+", " ", str(error))[:100] or type(error).__name__
        raise UserError(f"{path}: is damaged or not a checkpoint of tensors and plain values ({reason})") from None


class Tensors:
    """The tensors of a file that are ``left``, and the parameters ``found`` so far.

    Raises UserError for tensors that are not floating-point.
    """

    def __init__(self, path: Path, tensors: Mapping[str, Tensor | Array]):
        self.path, self.left, self.found = path, dict[str, Tensor](), dict[str, Tensor]()
        for name, each in tensors.items():
            known = isinstance(each, np.ndarray) and each.dtype in (np.float16, np.float32, np.float64)
            tensor = torch.from_numpy(each) if known else each
            if (
                not isinstance(tensor, Tensor)
                or tensor.layout != torch.strided  # sparse
                or tensor.is_meta  # without values
                or not tensor.is_floating_point()
                or not tensor.ndim
            ):
                raise UserError(f"{path}: tensor {str(name)[:80]}: expected floating-point numbers")
            self.left[str(name)] = tensor

    def take(self, name: str, *shape: int) -> Tensor:
        """Take a tensor of this shape (R, C, ...) out of those left, in float32. Raises UserError if there is none."""
        if name not in self.left:
            raise UserError(f"{self.path}: tensor {name}: missing")
        tensor = self.left.pop(name)
        if tensor.shape != shape:
            raise UserError(f"{self.path}: tensor {name}: shape {tuple(tensor.shape)}, expected {shape}")
        return tensor.float().contiguous()

    def check_all_used(self) -> None:
        """Raise UserError if a tensor is left over, because the imported model would differ."""
        if self.left:
            raise UserError(f"{self.path}: tensor {min(self.left)}: has no place in nmtkit's architecture")
