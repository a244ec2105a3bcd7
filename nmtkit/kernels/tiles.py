"""Products in bfloat16 by tiles (Intel AMX), with weights that are packed only once.

oneDNN, PyTorch's backend, packs a weight again for every product, which takes twice as long as the product itself if
there are only as many rows as sentences in a batch. It can also pack a weight once, and is then as fast, but it
generates code for every shape and rounds results to bfloat16.

Letters: N rows, D inputs, E outputs.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run

DEPTH = COLUMNS = 32  # rows of a weight tile, and columns of two tiles, as in tiles.h


class Tiled(NamedTuple):
    """A weight (D, E) and the bias of its products; a ``Converted`` matrix (``ops/matrix.py``)."""

    tiles: Tensor  # (E / 32 rounded up, D, 32)
    width: int  # E
    bias: Tensor | None  # (E,) float32
    results: torch.dtype  # float32 or bfloat16

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this weight -> (..., E) in the dtype of ``results``."""
        (strips, depth, _), x = self.tiles.shape, rows.reshape(-1, rows.shape[-1]).bfloat16()
        x = x if x.stride(1) == 1 else x.contiguous()
        result = x.new_empty(*rows.shape[:-1], self.width, dtype=self.results)
        several = parts(strips, len(x) * self.tiles.numel() >> 8)  # multiplying is much faster than loading a tile
        run(
            "tiles_multiply", strips, several, x=x, tiles=self.tiles, bias=self.bias, result=result, count=len(x),
            stride=x.stride(0), depth=depth, width=self.width,
        )  # fmt: skip
        return result


def fits(weight: Tensor) -> bool:
    """Whether tiles support the shape of a weight (D, E), and its rows or columns are contiguous."""
    return weight.ndim == 2 and not weight.shape[0] % DEPTH and 1 in weight.stride()


def lay_out(weight: Tensor, bias: Tensor | None, results: torch.dtype) -> Tiled:
    """A weight (D, E), which ``fits``, and a bias (E,) of any floating dtype, packed once for many products."""
    (depth, width), (down, right) = weight.shape, weight.stride()
    tiles = weight.new_empty(-(-width // COLUMNS), depth, COLUMNS, dtype=torch.bfloat16)
    several = parts(len(tiles), weight.numel())
    run(
        "tiles_lay_out", len(tiles), several, matrix=weight, tiles=tiles, down=down, right=right, depth=depth,
        width=width,
    )  # fmt: skip
    return Tiled(tiles, width, None if bias is None else bias.detach().float().contiguous(), results)
