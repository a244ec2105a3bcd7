"""The GRU of Nematus for a processor, the twin of ``ops/nematus.py``'s ``Plain``: made as ``gated.py`` is."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels.library import parts, run, taken


def step(x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
    """See ``nematus.step``: x (N, 3H) or (3H,), s (N, 3H), h (N, H), bias (3H,) -> the next state (N, H)."""
    given = norms if norms else [None] * 4
    new: Tensor = _Step.apply(x, s, h.float(), bias, *given)
    return new.to(torch.promote_types(h.dtype, new.dtype))  # float64 is given back


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, *norms: Tensor | None
    ) -> Tensor:  # fmt: skip
        wide = [None if y is None else y.float().contiguous() for y in (h, bias, *norms)]
        given = [taken(x), taken(s), *wide]
        ctx.save_for_backward(*given)
        rows, width = h.shape
        count = parts(rows, s.numel())
        new = torch.empty_like(h, memory_format=torch.contiguous_format)
        run("nematus", rows, count, *given, new, new.new_empty(count, 9, width), width, *_kind(given[0]), s.dtype)
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        x, s, h, bias, *norms = ctx.saved_tensors
        rows, width = h.shape
        one_row, count = x is not None and x.ndim == 1, parts(rows, s.numel())
        dx = None if x is None or one_row else torch.empty_like(x)
        ds, old_dh = torch.empty_like(s), torch.empty_like(h)
        # Three parts of a state's width for each of: shifts and gains of the norms, the bias, an x that all rows share.
        shared, room = h.new_zeros(count, 4, 3 * width), h.new_empty(count, 17, width)
        gradients = dh.contiguous(), dx, ds, old_dh, shared
        run("nematus_back", rows, count, *ctx.saved_tensors, *gradients, room, width, *_kind(x), s.dtype)
        shifts, gains, d_bias, d_row = shared.sum(0)
        d_norms: tuple[Tensor | None, ...] = (None,) * 4
        if norms[0] is not None:
            d_norms = gains[: 2 * width], shifts[: 2 * width], gains[2 * width :], shifts[2 * width :]
        return (
            d_row if one_row else dx, ds, old_dh, None if bias is None else d_bias, *d_norms,
        )  # fmt: skip


def _kind(x: Tensor | None) -> tuple[int, torch.dtype]:
    """By how many numbers its rows are apart, x (N, 3H) or (3H,), and its dtype; without it any."""
    return (0, torch.float32) if x is None else (0 if x.ndim == 1 else x.shape[1], x.dtype)
