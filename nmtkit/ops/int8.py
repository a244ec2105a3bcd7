"""Products with weights in 8-bit integers, for search: twice as fast as float32 with AVX2, more with VNNI.

A weight has a scale per output, computed once. The activations have a scale per row, computed for every product, so
that a row's result does not depend on the rest of the batch. Processors without VNNI accumulate pairs of products in 16
bits; a kernel of nmtkit does so (``kernels/pairs.py``). Without it, or for weights that it does not support, oneDNN
multiplies there, too, with integers so small that no pair overflows.

A packed weight is a ``Converted`` matrix (``matrix.py``): ``product(rows, pack(weight, None))``.

Letters: N rows, D inputs, E outputs.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.kernels import pairs
from nmtkit.kernels.door import kernel
from nmtkit.ops.bfloat16 import MOST_ROWS, by_blocks

NARROW, WIDE = pairs.MAX_INTEGER, 127  # the largest integer of either factor; 2 * (90 + 90) * 90 < 2 ** 15


class Packed(NamedTuple):
    """A quantised weight (D, E) in oneDNN's format, and the bias of its products."""

    weight: Tensor  # int8, packed by oneDNN
    scales: Tensor  # (E,)
    zeros: Tensor  # (E,)
    largest: int  # absolute value of the integers
    bias: Tensor | None  # (E,) float32
    results: torch.dtype = torch.float32

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) in float32 or bfloat16 times this weight -> (..., E) in the dtype of ``results``."""
        return by_blocks(self._multiply, rows, len(self.scales), self.results)

    def _multiply(self, rows: Tensor, place: Tensor) -> None:
        """Writes the products of the first R of the rows (P, D) to ``place`` (R, E)."""
        unsigned, scale = kernel("quantise", quantise, rows)(rows, self.largest)
        # oneDNN takes the input unsigned and subtracts ``largest`` again. Its one scale is 1: those of the rows are
        # applied afterwards.
        result = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, self.largest, self.weight, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        kernel("dequantise", dequantise, place)(result, scale, self.bias, place)


def quantise(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Rows (N, D) in float32 or bfloat16 as integers from 0 to 2 ``largest``, the latter being 0; and scales (N, 1)."""
    rows = rows.float()  # mixed dtypes are slow
    scale = (rows.abs().amax(dim=1, keepdim=True) / largest).clamp_(min=pairs.TINY)
    rounded = (rows * scale.reciprocal()).round_().to(torch.int8)
    # int8 viewed as uint8 adds up to the same bits; PyTorch converts float to uint8 slowly.
    return rounded.view(torch.uint8).add_(largest), scale


def dequantise(sums: Tensor, scales: Tensor, bias: Tensor | None, place: Tensor) -> None:
    """Writes sums (at least N, E) times scales (at least N, 1), plus bias (E,), to ``place`` (N, E) in its dtype."""
    sums, scales = sums[: len(place)], scales[: len(place)]
    if bias is None:
        torch.mul(sums, scales, out=place)
    else:
        torch.addcmul(bias, sums, scales, out=place)


def pack(weight: Tensor, bias: Tensor | None, results: torch.dtype = torch.float32) -> Packed | pairs.Paired:
    """A weight (D, E) and a bias (E,) of any floating dtype, packed once for many products."""
    if largest() == WIDE:
        return _pack(weight, bias, WIDE, results)
    lay_out = kernel("pairs", pack_narrow, weight) if pairs.fits(weight) else pack_narrow
    return lay_out(weight, bias, results)


def pack_narrow(weight: Tensor, bias: Tensor | None, results: torch.dtype) -> Packed | pairs.Paired:
    """``pack`` of a weight (D, E) and a bias (E,) by oneDNN for a processor that accumulates pairs."""
    return _pack(weight, bias, NARROW, results)


def _pack(weight: Tensor, bias: Tensor | None, largest: int, results: torch.dtype = torch.float32) -> Packed:
    """``pack`` with integers from -largest to largest."""
    weight = weight.detach().float()
    scales = (weight.abs().amax(dim=0) / largest).clamp(min=pairs.TINY)
    rounded = (weight / scales).round().to(torch.int8).t().contiguous()
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    packed = torch.ops.onednn.qlinear_prepack(rounded, [MOST_ROWS, rounded.shape[1]])
    return Packed(packed, scales, zeros, largest, None if bias is None else bias.detach().float(), results)


@cache
def largest() -> int:
    """The largest integer that this processor can multiply: WIDE if it accumulates in 32 bits (VNNI), or NARROW.

    Found by a test product whose pairs overflow 16 bits.
    """
    ones = torch.ones(64, 64)
    return WIDE if torch.allclose(_pack(ones, None, WIDE).product(ones), 64 * ones) else NARROW


def check_int8(device: torch.device) -> None:
    """Raises UserError unless this device, processor and PyTorch can multiply in int8."""
    if device.type != "cpu":
        raise UserError(f"`precision` int8: is for the cpu, not {device}; use float32, or the cpu")
    try:
        pack(torch.ones(2, 2), None).product(torch.ones(1, 2))
    except (AttributeError, RuntimeError):
        raise UserError(
            "`precision` int8: PyTorch cannot multiply 8-bit integers on this processor; use float32"
        ) from None
