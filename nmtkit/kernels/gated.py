"""The layer-normalised cells for a processor, the twin of ``ops/gated.py``'s ``Plain``: a kernel each way.

Only the arguments are kept for backward, which computes the gates again.
Arithmetic is in float32; inputs and products may be bfloat16.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels.library import parts, run, taken


def gru(
    x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """See ``gated.gru``: x (N, (G+1) H), s (N, (G+1) H), h and keep (N, H), gain and bias (G, H), state_bias (H,)."""
    new: Tensor = _Cell.apply(False, x, s, h.float(), gain, bias, state_bias, keep)
    return new.to(torch.promote_types(h.dtype, new.dtype))  # float64 is given back


def lau(
    x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """See ``gated.lau``: x (N, 5H), s (N, 4H), h and keep (N, H), gain and bias (3, H), candidate_bias (H,)."""
    new: Tensor = _Cell.apply(True, x, s, h.float(), gain, bias, candidate_bias, keep)
    return new.to(torch.promote_types(h.dtype, new.dtype))  # float64 is given back


class _Cell(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, is_lau: bool, x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor,
        other_bias: Tensor, keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        wide = [None if y is None else y.float().contiguous() for y in (h, gain, bias, other_bias, keep)]
        given = [taken(x), taken(s), *wide]
        ctx.save_for_backward(*given)
        ctx.is_lau, (rows, width), gates = is_lau, h.shape, len(bias)
        count = parts(rows, s.numel())
        new = torch.empty_like(h, memory_format=torch.contiguous_format)
        room, dtypes = new.new_empty(count, 4 * gates + 1, width), (None if x is None else x.dtype, s.dtype)
        run("gated", rows, count, *given, new, room, is_lau, gates, width, *dtypes)
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        x, s, h, gain, bias, _, _ = given = ctx.saved_tensors
        (rows, width), gates = h.shape, len(bias)
        count = parts(rows, s.numel())
        dx, ds, old_dh = None if x is None else torch.empty_like(x), torch.empty_like(s), torch.empty_like(h)
        # A row of each: the G biases, that of the candidate, the G gains.
        shared, room = h.new_zeros(count, 2 * gates + 1, width), h.new_empty(count, 8 * gates + 2, width)
        gradients, dtypes = (dh.contiguous(), dx, ds, old_dh, shared), (None if x is None else x.dtype, s.dtype)
        run("gated_back", rows, count, *given, *gradients, room, ctx.is_lau, gates, width, *dtypes)
        d_bias, d_other, d_gain = shared.sum(0).tensor_split([gates, gates + 1])
        return None, dx, ds, old_dh, None if gain is None else d_gain, d_bias, d_other[0], None
