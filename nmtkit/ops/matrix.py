"""Which product is this? Rows times a matrix, done as the matrix asks.

The equations of cells and decoders say ``product(h, u)``; what ``u`` is decides how that is computed. A tensor is
multiplied by PyTorch, in autocast's dtype where that is on. Any other ``Converted`` matrix brings its own way:
``loop.Shared`` in training's loops, whose gradient is one product after the loop; in a backward by hand what
``repeated`` makes of a weight; in search what ``convert`` makes of it once, in bfloat16 or 8-bit integers.
"""

from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from nmtkit.ops import bfloat16, int8
from nmtkit.ops.native import pairs, tiles
from nmtkit.ops.precision import Precision, Products, resolve

SMALL = 2**14  # elements of a weight


class Converted(Protocol):
    """A matrix (D, E) that is no tensor any more."""

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this matrix -> (..., E), and the bias that it was converted with, if any."""


# A union, not a protocol that tensors obey too: for `tensor @ object` PyTorch first builds an error message (30 us).
Matrix: TypeAlias = Tensor | Converted


def is_packed(matrix: Matrix) -> bool:
    """Whether this matrix was converted for search in low precision on a CPU, where nothing needs a gradient."""
    return isinstance(matrix, bfloat16.LaidOut | tiles.Tiled | int8.Packed | pairs.Paired)


def product(rows: Tensor, matrix: Matrix) -> Tensor:
    """Rows (..., D) times a matrix (D, E) -> (..., E)."""
    return rows @ matrix if isinstance(matrix, Tensor) else matrix.product(rows)


def repeated(weight: Tensor) -> Matrix:
    """A weight (D, E) as the steps of a loop multiply by it, without gradients: laid out once, if that is of use."""
    return tiles.lay_out(weight) if weight.dtype == torch.bfloat16 and tiles.takes(weight) else weight


def usable(precision: Precision, device: torch.device) -> Products:
    """What a precision comes to on this device. Raises UserError for one that it does not have."""
    products = resolve(precision, device)
    if products == "int8":
        int8.check_int8(device)
    return products


def convert(weight: Tensor, bias: Tensor | None, precision: Products, results: torch.dtype = torch.float32) -> Matrix:
    """A weight (D, E) as it is multiplied many times in this precision; to the results ``bias`` (E,) is added.

    A small weight stays as it is, a float32 tensor and without a bias: converting the rows would cost more than it
    saves.
    """
    if precision == "float32" or weight.numel() < SMALL:
        return weight
    pack = bfloat16.pack if precision == "bfloat16" else int8.pack
    return pack(weight, bias, results)
