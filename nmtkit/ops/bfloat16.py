"""Products with weights in bfloat16, for search: up to seven times as fast as float32 if the processor supports it.

A weight is converted once and, on a CPU, packed once: for AMX tiles if the processor has them (``kernels/tiles.py``),
or else in oneDNN's format, to which oneDNN would otherwise convert it for every product. Rows in another dtype are
converted for every product. Results are rounded to bfloat16, except those of tiles, and returned in float32, or in
bfloat16 if they are inputs of another product only.

oneDNN generates code for every number of rows, which takes 1 to 20 ms in bfloat16, longer than many products, and in
search that number changes from step to step. So rows are multiplied in blocks of a few sizes, also in int8
(``by_blocks``); the results of a block also stay in the processor's cache until they are converted.

A ``Low`` weight is a ``Converted`` matrix (``matrix.py``): ``product(rows, pack(weight, None))``.

Letters: N rows, D inputs, E outputs.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.kernels import tiles
from nmtkit.kernels.door import kernel

SIZES = (8, 16, 32, 64, 128, 192, 256)  # rows of a block; larger ones are hardly faster with AMX
MOST_ROWS = SIZES[-1]


class Low(NamedTuple):
    """A weight (D, E) in bfloat16, and the bias of its products."""

    weight: Tensor  # (E, D)
    bias: Tensor | None  # (E,)
    results: torch.dtype = torch.float32

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this weight -> (..., E) in the dtype of ``results``."""
        return functional.linear(rows.bfloat16(), self.weight, self.bias).to(self.results)


class LaidOut(NamedTuple):
    """A weight (D, E) in bfloat16, packed by oneDNN, and the bias of its products."""

    weight: Tensor  # (E, D) in PyTorch's view
    bias: Tensor | None  # (E,)
    results: torch.dtype = torch.float32

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this weight -> (..., E) in the dtype of ``results``."""
        return by_blocks(self._multiply, rows, self.weight.shape[0], self.results)

    def _multiply(self, rows: Tensor, place: Tensor) -> None:
        """Writes the products of the first R of the rows (P, D) to ``place`` (R, E)."""
        result = torch.ops.mkldnn._linear_pointwise(rows.bfloat16(), self.weight, self.bias, "none", [], "")
        place.copy_(result[: len(place)])


def pack(weight: Tensor, bias: Tensor | None, results: torch.dtype = torch.float32) -> Low | LaidOut | tiles.Tiled:
    """A weight (D, E) and a bias (E,) of any floating dtype, converted once for many products."""
    weight = weight.detach()
    return tiled(weight, bias, results) or pack_plain(weight, bias, results)


def tiled(weight: Tensor, bias: Tensor | None, results: torch.dtype) -> tiles.Tiled | None:
    """``pack`` of a weight (D, E) and a bias (E,) for AMX tiles; None without AMX or if the shape does not fit."""
    if not tiles.fits(weight) or kernel("tiles", pack_plain, weight) is pack_plain:
        return None
    return tiles.lay_out(weight, bias, results)


def pack_plain(weight: Tensor, bias: Tensor | None, results: torch.dtype) -> Low | LaidOut | tiles.Tiled:
    """``pack`` of a weight (D, E) and a bias (E,) without tiles."""
    low = weight.t().bfloat16().contiguous()
    bias = None if bias is None else bias.detach().bfloat16()
    if weight.device.type == "cpu":
        try:
            return LaidOut(torch.ops.mkldnn._reorder_linear_weight(low, MOST_ROWS), bias, results)
        except (AttributeError, RuntimeError):
            pass  # a processor without bfloat16, or PyTorch without oneDNN: slow but correct
    return Low(low, bias, results)


def by_blocks(
    multiply: Callable[[Tensor, Tensor], None], rows: Tensor, outputs: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Rows (..., D) multiplied in blocks by ``multiply`` -> (..., E) in ``dtype``, where E is ``outputs``.

    ``multiply`` takes the rows of a block (P, D), where P is one of ``SIZES``, and the place (R, E) for the results of
    the first R rows; the others are zeros.
    """
    x = rows.reshape(-1, rows.shape[-1])
    result = x.new_empty(len(x), outputs, dtype=dtype)
    for part, place in zip(x.split(MOST_ROWS), result.split(MOST_ROWS), strict=True):
        missing = next(size for size in SIZES if size >= len(part)) - len(part)
        multiply(functional.pad(part, (0, 0, 0, missing)) if missing else part, place)
    return result.view(*rows.shape[:-1], outputs)
