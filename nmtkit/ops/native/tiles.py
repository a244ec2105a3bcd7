"""Products in bfloat16 by a processor's tiles (AMX of Intel), for a weight that many products in turn have in common.

oneDNN, which multiplies for PyTorch, lays the weight out anew in every product, which takes it twice as long as the
product itself if there are no more rows than a batch has sentences. A ``Tiled`` weight is laid out once, for all steps
of a loop. With hundreds of rows oneDNN is as fast.

Letters: N rows, D inputs, E outputs.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.ops.native import library
from nmtkit.ops.native.library import parts, run

EVEN = 32  # D and E are multiples of it: what two tiles have in columns, and one in depth


class Tiled(NamedTuple):
    """A weight (D, E), a ``Converted`` matrix (``ops/matrix.py``)."""

    tiles: Tensor  # (E / 32, D, 32)

    def product(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """Rows (N, D) times this weight, plus bias (E,) -> (N, E) in bfloat16."""
        rows = rows.bfloat16()
        rows = rows if rows.stride(1) == 1 else rows.contiguous()
        bias = None if bias is None else bias.float().contiguous()
        (strips, depth, columns), count = self.tiles.shape, len(rows)
        result = rows.new_empty(count, strips * columns)
        several = parts(strips, count * self.tiles.numel() >> 8)  # a tile multiplies so much faster than it is read
        given = rows, self.tiles, bias, result, count, rows.stride(0), depth, strips * columns
        run("tiles_multiply", strips, several, *given)
        return result


def takes(weight: Tensor) -> bool:
    """Whether this processor multiplies such a weight (D, E), in float32 or bfloat16, by tiles."""
    given = weight.is_cpu and weight.ndim == 2 and weight.dtype in library.BOTH and 1 in weight.stride()
    return given and not any(size % EVEN for size in weight.shape) and _are_there()


def lay_out(weight: Tensor) -> Tiled:
    """A weight (D, E), of which ``takes`` is true, for many products."""
    depth, width = weight.shape
    tiles = weight.new_empty(width // EVEN, depth, EVEN, dtype=torch.bfloat16)
    several, (down, right) = parts(len(tiles), weight.numel()), weight.stride()
    run("tiles_lay_out", len(tiles), several, weight, tiles, down, right, depth, weight.dtype)
    return Tiled(tiles)


@cache
def _are_there() -> bool:
    """Whether there are tiles that the kernels know, and a product by them was right."""
    if not library.has_tiles():
        return False
    rows, weight = (torch.linspace(-1, 1, n * EVEN).view(n, EVEN).bfloat16() for n in (5, EVEN))
    return torch.allclose(lay_out(weight).product(rows), rows @ weight, rtol=0, atol=0.1)
