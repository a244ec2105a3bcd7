"""Products of 8-bit integers for processors that accumulate pairs of them in 16 bits, by a kernel (``pairs.h``).

One instruction multiplies integers from 0 to 255 by signed ones and adds pairs of products in 16 bits; a second one
adds pairs of these sums in 32 bits. oneDNN uses both for every pair of products. This kernel adds two results of the
first before the second, which accumulates four products in 16 bits and is 1.5 times as fast. They cannot overflow: the
scale of each weight column is chosen so that the largest possible sum of four products fits.

Letters: N rows, D inputs, E outputs, S strips of 16 outputs.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.kernels import search
from nmtkit.kernels.library import parts, run

STRIP, DEEP = 16, 8  # columns and rows of the weight, as in pairs.h
MAX_INTEGER = 90  # the largest magnitude of the integers of a row; 127 for those of a weight
SUM = (2**15 - 1) // (2 * MAX_INTEGER) - 2  # of four integers of one sign; rounding may add a half to each
TINY = 1e-30  # the smallest scale, for rows and columns of zeros


class Paired(NamedTuple):
    """A weight (D, E) in integers, and the bias of its products; a ``Converted`` matrix (``ops/matrix.py``)."""

    strips: Tensor  # (S, D / 8, 2, 2, 8, 4) int8
    first: Tensor  # (16 S,) int32: corrects for the offset that makes the rows' integers unsigned
    scales: Tensor  # (16 S,)
    bias: Tensor  # (16 S,)
    width: int  # E
    results: torch.dtype  # float32 or bfloat16

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) in float32 or bfloat16 times this weight -> (..., E) in the dtype of ``results``."""
        integers, scales = search.quantise(rows.reshape(-1, rows.shape[-1]), MAX_INTEGER)
        result = torch.empty(*rows.shape[:-1], self.width, dtype=self.results)
        (count, depth), strips = integers.shape, len(self.strips)
        several = parts(strips, count * self.strips.numel() >> 6)
        run(
            "pairs_multiply", strips, several, x=integers, strips=self.strips, first=self.first, scales=self.scales,
            bias=self.bias, x_scales=scales, result=result, count=count, depth=depth, width=self.width,
        )  # fmt: skip
        return result


def fits(weight: Tensor) -> bool:
    """Whether the kernel supports the shape of a weight (D, E)."""
    return weight.ndim == 2 and not weight.shape[0] % DEEP


def lay_out(weight: Tensor, bias: Tensor | None, results: torch.dtype = torch.float32) -> Paired:
    """A weight (D, E), which ``fits``, and a bias (E,) of any floating dtype, packed once for many products."""
    depth, width = weight.shape
    missing = -width % STRIP
    weight = functional.pad(weight.detach().float(), (0, missing))
    scales = torch.maximum(weight.abs().amax(dim=0) / 127, _greatest_sum(weight) / SUM).clamp_(min=TINY)
    integers = (weight / scales).round().to(torch.int8)
    first = -MAX_INTEGER * integers.sum(dim=0, dtype=torch.int32)
    strips = integers.view(depth // DEEP, 2, 4, -1, 2, 8).permute(3, 0, 4, 1, 5, 2).contiguous()
    padded = weight.new_zeros(width) if bias is None else bias.detach().float()
    return Paired(strips, first, scales, functional.pad(padded, (0, missing)), width, results)


def _greatest_sum(weight: Tensor) -> Tensor:
    """The largest sum (E,) of only the positive, or only the negative, of the four numbers in a 16-bit sum."""
    fours = weight.view(len(weight) // DEEP, 2, 2, 2, -1)  # of eight rows 0, 1, 4 and 5; 2, 3, 6 and 7
    sums = [part.sum(dim=(1, 3)).amax(dim=(0, 1)) for part in (fours.clamp(min=0), fours.neg().clamp(min=0))]
    return torch.maximum(*sums)
