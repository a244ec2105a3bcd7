"""Rows times a matrix, computed by the matrix's own method.

The equations of cells and decoders say ``product(h, u)``, and the type of ``u`` decides how that is computed. A tensor
is multiplied by PyTorch, in autocast's dtype where that is on. Any other matrix is ``Converted`` and has its own
method: ``loop.Shared`` in training loops, whose gradient is one product after the loop; in a hand-written backward,
what ``loop.Shared.matrix`` returns; in search, the result of ``convert``, in bfloat16 or 8-bit integers.
"""

from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from nmtkit.errors import check_choice
from nmtkit.ops import bfloat16, int8
from nmtkit.ops.precision import Precision, Products, resolve

SMALL = 2**14  # elements of a weight


class Converted(Protocol):
    """A matrix (D, E) in a special format."""

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this matrix -> (..., E), and the bias that it was converted with, if any."""


# A union, not a protocol that tensors follow too: for `tensor @ object` PyTorch first builds an error message (30 us).
Matrix: TypeAlias = Tensor | Converted


def product(rows: Tensor, matrix: Matrix) -> Tensor:
    """Rows (..., D) times a matrix (D, E) -> (..., E)."""
    return rows @ matrix if isinstance(matrix, Tensor) else matrix.product(rows)


def usable(precision: Precision, device: torch.device) -> Products:
    """The number format of a precision on this device. Raises UserError for one that the device does not support."""
    check_choice("precision", precision, Precision)
    products = resolve(precision, device)
    if products == "int8":
        int8.check_int8(device)
    return products


def convert(weight: Tensor, bias: Tensor | None, precision: Products, results: torch.dtype = torch.float32) -> Matrix:
    """A weight (D, E) prepared for many products in this precision, to which ``bias`` (E,) is added.

    A small weight stays a float32 tensor, without the bias: converting the rows would cost more than it saves.
    """
    if precision == "float32" or weight.numel() < SMALL:
        return weight
    pack = bfloat16.pack if precision == "bfloat16" else int8.pack
    return pack(weight, bias, results)
