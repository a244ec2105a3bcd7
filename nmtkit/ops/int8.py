"""Products with weights in 8-bit integers: nearly twice as fast as float32 on a CPU with AVX2.

A weight has a scale for each of its outputs, computed once. The other factor has one for each of its rows, computed in
every product, so that a row's result does not depend on the rows beside it. Processors without VNNI add the products
up in pairs, in 16 bits: the largest integers are such that no pair overflows.

A packed weight is a ``Converted`` matrix (``matrix.py``): ``product(rows, pack(weight))``.

Letters: N rows, D inputs, E outputs.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.errors import UserError

LARGEST = 90  # integer of either factor; 2 * (90 + ZERO) * 90 < 2 ** 15
ZERO = 90  # stands for 0 in an input, whose integers must not be negative
TINY = 1e-30  # the least scale: a row or column of zeros has one, too


class Packed(NamedTuple):
    """A weight (D, E) as the processor multiplies it fastest."""

    weight: Tensor  # int8, in a layout of oneDNN's own
    scales: Tensor  # (E,)
    zeros: Tensor  # (E,)

    def product(self, rows: Tensor) -> Tensor:
        """Rows (..., D) times this weight -> (..., E) in float32."""
        x = rows.reshape(-1, rows.shape[-1])
        scale = (x.abs().amax(dim=1, keepdim=True) / LARGEST).clamp_(min=TINY)
        # oneDNN takes the input unsigned and subtracts ZERO again. Its one scale is 1: each row's comes afterwards.
        rounded = (x / scale).round_().add_(ZERO).to(torch.uint8)
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded, 1.0, ZERO, self.weight, self.scales, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return result.mul_(scale).view(*rows.shape[:-1], -1)


def pack(weight: Tensor) -> Packed:
    """A weight (D, E) of any floating dtype, packed once for many products."""
    weight = weight.float()
    scales = (weight.abs().amax(dim=0) / LARGEST).clamp(min=TINY)
    rounded = (weight / scales).round().to(torch.int8).t().contiguous()
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return Packed(torch.ops.onednn.qlinear_prepack(rounded, None), scales, zeros)


def check_int8(device: torch.device) -> None:
    """Raises UserError unless this device, processor and PyTorch can multiply in int8."""
    if device.type != "cpu":
        raise UserError(f"`precision` int8: is for the cpu, not {device}; use float32, or the cpu")
    try:
        pack(torch.ones(2, 2)).product(torch.ones(1, 2))
    except (AttributeError, RuntimeError):
        raise UserError(
            "`precision` int8: PyTorch has no products of 8-bit integers for this processor; use float32"
        ) from None
