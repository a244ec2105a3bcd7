"""Which product is this? Rows times a matrix, done as the matrix asks.

The equations of cells and decoders say ``product(h, u)``; what ``u`` is decides how that is computed. A tensor is
multiplied by PyTorch, in autocast's dtype where that is on. Any other ``Converted`` matrix brings its own way:
``loop.Shared`` in training's loops, whose gradient is one product after the loop; ``int8.Packed`` in search.
"""

from typing import Literal, Protocol, TypeAlias

from torch import Tensor

Precision = Literal["float32", "int8"]  # of the output layer in search


class Converted(Protocol):
    """A matrix (D, E) that is no tensor any more."""

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this matrix -> (..., E)."""


# A union, not a protocol that tensors obey too: for `tensor @ object` PyTorch first builds an error message (30 us).
Matrix: TypeAlias = Tensor | Converted


def product(rows: Tensor, matrix: Matrix) -> Tensor:
    """Rows (..., D) times a matrix (D, E) -> (..., E)."""
    return rows @ matrix if isinstance(matrix, Tensor) else matrix.product(rows)
