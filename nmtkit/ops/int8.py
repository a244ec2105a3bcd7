"""Products with weights in 8-bit integers, for search: twice as fast as float32 with AVX2, more with VNNI.

A weight has a scale for each of its outputs, computed once. The other factor has one for each of its rows, computed in
every product, so that a row's result does not depend on the rows beside it. Processors without VNNI add the products
up in pairs, in 16 bits: they have a kernel of ours (``kernels/pairs.py``); where there is none, or for weights that it
does not take, oneDNN multiplies there as well, with the largest integers such that no pair overflows.

A packed weight is a ``Converted`` matrix (``matrix.py``): ``product(rows, pack(weight, None))``.

Letters: N rows, D inputs, E outputs.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.kernels import library, pairs, search
from nmtkit.ops.blocks import LARGEST, by_blocks

NARROW, WIDE = pairs.LARGEST, 127  # the largest integer of either factor; 2 * (90 + 90) * 90 < 2 ** 15


class Packed(NamedTuple):
    """A weight (D, E) as the processor multiplies it fastest, and what is added to its products."""

    weight: Tensor  # int8, in a layout of oneDNN's own
    scales: Tensor  # (E,)
    zeros: Tensor  # (E,)
    largest: int  # integer, with either sign
    bias: Tensor | None  # (E,) float32
    results: torch.dtype = torch.float32

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) in float32 or bfloat16 times this weight -> (..., E) in the dtype of ``results``."""
        return by_blocks(self._multiply, rows, len(self.scales), self.results)

    def _multiply(self, rows: Tensor, place: Tensor) -> None:
        """Writes the products of the first R of the rows (P, D) to ``place`` (R, E)."""
        quick = library.helps(rows, place, dtypes=library.BOTH)
        unsigned, scale = search.quantise(rows, self.largest) if quick else self._rounded(rows)
        # oneDNN takes the input unsigned and subtracts ``largest`` again. Its one scale is 1: each row's comes after.
        result = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, self.largest, self.weight, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        if quick:
            search.dequantise(result, scale, self.bias, place)
        elif self.bias is None:
            torch.mul(result[: len(place)], scale[: len(place)], out=place)
        else:
            torch.addcmul(self.bias, result[: len(place)], scale[: len(place)], out=place)

    def _rounded(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """``search.quantise`` in plain operations: integers (P, D) and scales (P, 1) of rows (P, D)."""
        rows = rows.float()  # mixed dtypes take far longer
        scale = (rows.abs().amax(dim=1, keepdim=True) / self.largest).clamp_(min=pairs.TINY)
        rounded = (rows * scale.reciprocal()).round_().to(torch.int8)
        # An unsigned sum is that of a signed number; PyTorch is slow at making unsigned numbers of floating ones.
        return rounded.view(torch.uint8).add_(self.largest), scale


def pack(weight: Tensor, bias: Tensor | None, results: torch.dtype = torch.float32) -> Packed | pairs.Paired:
    """A weight (D, E) and a bias (E,) of any floating dtype, packed once for many products."""
    if largest() == NARROW and pairs.takes(weight):
        return pairs.lay_out(weight, bias, results)
    return _pack(weight, bias, largest(), results)


def _pack(weight: Tensor, bias: Tensor | None, largest: int, results: torch.dtype = torch.float32) -> Packed:
    """``pack`` with integers from -largest to largest."""
    weight = weight.detach().float()
    scales = (weight.abs().amax(dim=0) / largest).clamp(min=pairs.TINY)
    rounded = (weight / scales).round().to(torch.int8).t().contiguous()
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    packed = torch.ops.onednn.qlinear_prepack(rounded, [LARGEST, rounded.shape[1]])
    return Packed(packed, scales, zeros, largest, None if bias is None else bias.detach().float(), results)


@cache
def largest() -> int:
    """The largest integer that this processor can multiply: WIDE if it adds products up in 32 bits (VNNI), or NARROW.

    It is asked by a product whose pairs do not fit into 16 bits.
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
            "`precision` int8: PyTorch has no products of 8-bit integers for this processor; use float32"
        ) from None
