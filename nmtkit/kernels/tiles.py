"""Products in bfloat16 by a processor's tiles (AMX of Intel), with a weight that is laid out for them once.

oneDNN, which multiplies for PyTorch, lays a weight out anew in every product, which takes it twice as long as the
product itself if there are no more rows than a batch has sentences; or once, and is then as fast, but only in shapes
that it knows, and with results in bfloat16.

Letters: N rows, D inputs, E outputs.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.kernels import library, trusted
from nmtkit.kernels.library import parts, run

DEPTH = COLUMNS = 32  # of a tile, and of two side by side, as in tiles.h


class Tiled(NamedTuple):
    """A weight (D, E), and what is added to its products; a ``Converted`` matrix (``ops/matrix.py``)."""

    tiles: Tensor  # (E / 32 rounded up, D, 32)
    width: int  # E
    bias: Tensor | None  # (E,) float32
    results: torch.dtype  # float32 or bfloat16

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this weight -> (..., E) in the dtype of ``results``."""
        (strips, depth, _), x = self.tiles.shape, rows.reshape(-1, rows.shape[-1]).bfloat16()
        x = x if x.stride(1) == 1 else x.contiguous()
        result = x.new_empty(*rows.shape[:-1], self.width, dtype=self.results)
        several = parts(strips, len(x) * self.tiles.numel() >> 8)  # a tile multiplies so much faster than it is read
        given = x, self.tiles, self.bias, result, len(x), x.stride(0), depth, self.width
        run("tiles_multiply", strips, several, *given, self.results)
        return result


def takes(weight: Tensor) -> bool:
    """Whether this processor multiplies such a weight (D, E), in float32 or bfloat16, by tiles."""
    given = weight.is_cpu and weight.ndim == 2 and weight.dtype in library.BOTH and 1 in weight.stride()
    return given and not weight.shape[0] % DEPTH and _are_there()


def lay_out(weight: Tensor, bias: Tensor | None = None, results: torch.dtype = torch.bfloat16) -> Tiled:
    """A weight (D, E), of which ``takes`` is true, and a bias (E,) of any floating dtype, for many products."""
    (depth, width), (down, right) = weight.shape, weight.stride()
    tiles = weight.new_empty(-(-width // COLUMNS), depth, COLUMNS, dtype=torch.bfloat16)
    several = parts(len(tiles), weight.numel())
    run("tiles_lay_out", len(tiles), several, weight, tiles, down, right, depth, width, weight.dtype)
    return Tiled(tiles, width, None if bias is None else bias.detach().float().contiguous(), results)


@cache
def _are_there() -> bool:
    """Whether there are tiles that the kernels know, and a product by them was right."""
    return library.has_tiles() and trusted.sound(_native, _compare, torch.device("cpu"), torch.bfloat16)


def _native() -> Callable[[Tensor], Tiled]:
    return lay_out


def _compare(fused: Callable[[Tensor], Tiled], device: torch.device, dtype: torch.dtype) -> None:
    """Raises ArithmeticError where a product is not PyTorch's."""
    rows, weight = (torch.linspace(-1, 1, n * DEPTH).view(n, DEPTH).to(device, dtype) for n in (5, COLUMNS))
    if not torch.allclose(fused(weight).product(rows), rows @ weight, rtol=0, atol=0.1):
        raise ArithmeticError("other products by tiles")
