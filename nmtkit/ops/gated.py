"""GRU, T-GRU, L-GRU and LAU with a layer normalisation for each gate, one step each with a backward by hand.

Every gate is normalised by itself, gate_k = sigma(LN_k(x_k + s_k)); without normalisation it is sigma(x_k + s_k + b_k).

The GRU, T-GRU (no x) and L-GRU (a third gate l) of Meng and Zhang 2019, eqs. 6 to 16:

    c = tanh(x_c + r * (s_c + b)), in an L-GRU with l * H(x) added
    h' = (1 - z) * h + z * dropout(c)

The LAU of Wang et al. 2017, eqs. 6 to 8, whose third gate is g and whose bias stands outside the reset product:

    c = tanh((1 - r) * x_c + r * s_c + b)
    h' = (1 - g) * ((1 - z) * h + z * dropout(c)) + g * H(x)

The product with the state, s = h U, is left to the caller, so that a loop can share its weights (``loop.py``). The rest
is computed by ``Plain``, in few passes over memory and in the dtype of the state h, or in float32 by kernels that
replace it on a CPU, ``native/gated.py``.

Letters: N rows, H hidden, G gates.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import trusted
from nmtkit.ops import recurrence
from nmtkit.ops.pointwise import layer_norm_backward, sigmoid_backward, tanh_, tanh_backward

EPSILON = 1e-6  # of the layer normalisations


def gru(
    x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """The next state (N, H) of a GRU, of a T-GRU (x is None), or of an L-GRU (three gates).

    x (N, (G+1) H) and s (N, (G+1) H): the terms of the gates r, z, in an L-GRU also l, and of the candidate, from input
    and state; in an L-GRU, x ends with H(x). h (N, H) state. gain and bias (G, H) of the gates' layer normalisation;
    gain is None without it. state_bias (H,), inside the reset product. keep (N, H): the factors by which dropout
    multiplies the candidate, or None.
    """
    return trusted.choose(PLAIN, _native, _compare, s).gru(x, s, h, gain, bias, state_bias, keep)


def lau(
    x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """The next state (N, H) of a LAU.

    As ``gru`` with the gates r, z, g: x (N, 5H) ends with H(x), s (N, 4H), h (N, H), gain and bias (3, H),
    candidate_bias (H,), outside the reset product, keep (N, H).
    """
    return trusted.choose(PLAIN, _native, _compare, s).lau(x, s, h, gain, bias, candidate_bias, keep)


class Cells(Protocol):
    """Both functions above with their backward, in plain operations or by kernels."""

    def gru(
        self, x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """See ``gru``: the next state (N, H)."""

    def lau(
        self, x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """See ``lau``: the next state (N, H)."""


class Plain:
    """``Cells`` in plain operations."""

    def gru(
        self, x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """See ``Cells``: x, s (N, (G+1) H), h and keep (N, H)."""
        new: Tensor = _GRU.apply(x, s, h, gain, bias, state_bias, keep)
        return new

    def lau(
        self, x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """See ``Cells``: x (N, 5H), s (N, 4H), h and keep (N, H)."""
        new: Tensor = _LAU.apply(x, s, h, gain, bias, candidate_bias, keep)
        return new


PLAIN: Cells = Plain()


def _native() -> Cells:
    from nmtkit.kernels import gated

    return gated


def _compare(fused: Cells, device: torch.device, dtype: torch.dtype) -> None:
    """Every cell, with and without what may be left out; inputs and products in ``dtype``, the rest in float32."""
    random = torch.Generator().manual_seed(1)
    rows, width = recurrence.TRIED[1:]

    def drawn(*shape: int) -> Tensor:
        """Normally distributed numbers of that shape."""
        return torch.randn(shape, generator=random).to(device)

    cells: list[tuple[str, Callable[..., Tensor], Callable[..., Tensor], int, int]] = [
        ("GRU", fused.gru, PLAIN.gru, 2, 3), ("T-GRU", fused.gru, PLAIN.gru, 2, 0),
        ("L-GRU", fused.gru, PLAIN.gru, 3, 5), ("LAU", fused.lau, PLAIN.lau, 3, 5),
    ]  # fmt: skip
    for name, ours, theirs, gates, parts in cells:  # the parts of x, each of the state's width
        x = drawn(rows, parts * width).to(dtype) if parts else None
        s, h = drawn(rows, (gates + 1) * width).to(dtype), drawn(rows, width)
        gain, bias, other, keep = drawn(gates, width), drawn(gates, width), drawn(width), drawn(rows, width)
        for given in ([x, s, h, gain, bias, other, keep], [x, s, h, None, bias, other, None]):
            recurrence.require_same(f"the {name} with normalised gates", ours, theirs, given)


def _gates(x: Tensor | None, s: Tensor, gain: Tensor | None, bias: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The G gates (N, H), whose terms come first in x and s, and what ``_gates_backward`` needs."""
    width = bias.numel()
    terms = s[:, :width] if x is None else x[:, :width] + s[:, :width]
    # Gate by gate in memory, because PyTorch normalises over what lies side by side.
    pre = terms.unflatten(-1, bias.shape).transpose(0, 1).contiguous()  # (G, N, H)
    if gain is None:
        return list((pre + bias.unsqueeze(1)).sigmoid_().unbind()), []
    gates, kept = [], [pre]
    for part, g, b in zip(pre, gain, bias, strict=True):
        # The native operation gives mean and deviation, too, which its backward needs.
        gate, *statistics = torch.native_layer_norm(part, part.shape[-1:], g, b, EPSILON)
        gates.append(gate.sigmoid_())
        kept += statistics
    return gates, kept


def _gates_backward(
    d_gates: list[Tensor], gates: list[Tensor], kept: list[Tensor], gain: Tensor | None, bias: Tensor, ds: Tensor
) -> tuple[Tensor | None, Tensor]:
    """Writes the gradient of x + s into the first columns of ``ds``; gives those of gain and bias."""
    d_pre = [sigmoid_backward(d, gate) for d, gate in zip(d_gates, gates, strict=True)]
    width = bias.shape[1]
    out = ds[:, : bias.numel()].split(width, dim=-1)
    if gain is None:
        for d, place in zip(d_pre, out, strict=True):
            place.copy_(d)
        return None, torch.stack([d.sum(0) for d in d_pre])
    d_gain, d_bias = torch.empty_like(gain), torch.empty_like(bias)
    pre, statistics = kept[0], kept[1:]
    for k, d in enumerate(d_pre):
        mean, rstd = statistics[2 * k : 2 * k + 2]
        d, d_gain[k], d_bias[k] = layer_norm_backward(
            d, pre[k], [width], mean, rstd, gain[k], bias[k], [True, True, True]
        )
        out[k].copy_(d)
    return d_gain, d_bias


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        s, width, place = s.to(h.dtype), h.shape[-1], bias.numel()
        (r, z, *linear_gate), kept = _gates(x, s, gain, bias)  # a list of l in an L-GRU, else of nothing
        state = s[:, place:] + state_bias
        inner = r * state
        if x is not None:
            inner += x[:, place : place + width]
        candidate = tanh_(inner)
        linear = x[:, place + width :] if x is not None and linear_gate else None
        change = candidate if linear is None else torch.addcmul(candidate, linear_gate[0], linear)
        # h' = h + change z: without dropout change is c - h, with it c keep - h, in one pass.
        change = change - h if keep is None else torch.addcmul(-h, change, keep)
        ctx.save_for_backward(gain, bias, keep, state, candidate, linear, change, r, z, *linear_gate, *kept)
        ctx.gates, ctx.inputs = len(bias), 0 if x is None else x.shape[-1]
        return torch.addcmul(h, z, change)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        gain, bias, keep, state, candidate, linear, change, *rest = ctx.saved_tensors
        (r, z, *linear_gate), kept = rest[: ctx.gates], rest[ctx.gates :]
        rows, width, place = *dh.shape, bias.numel()
        # All gradients are written where they belong: gates first, then the candidate, then H(x).
        ds = dh.new_empty(rows, place + width)
        dx = dh.new_empty(rows, ctx.inputs) if ctx.inputs else None
        d_gates = [torch.empty_like(r), dh * change]
        d_change = dh * z  # -h is a part of the change: what z lets through of it is taken from dh below
        dh = dh - d_change
        if keep is not None:
            d_change *= keep
        if linear is not None and dx is not None:
            d_gates.append(d_change * linear)
            torch.mul(d_change, linear_gate[0], out=dx[:, place + width :])
        d_inner = tanh_backward(d_change, candidate)
        torch.mul(d_inner, state, out=d_gates[0])
        d_state = torch.mul(d_inner, r, out=ds[:, place:])
        d_gain, d_bias = _gates_backward(d_gates, [r, z, *linear_gate], kept, gain, bias, ds)
        # x and s are added up before every gate, so they have one gradient there; in the candidate r stands between.
        if dx is not None:
            dx[:, :place] = ds[:, :place]
            dx[:, place : place + width] = d_inner
        return dx, ds, dh, d_gain, d_bias, d_state.sum(0), None


class _LAU(torch.autograd.Function):
    """The candidate is tanh(x_c + b + r (s_c - x_c)), as in ``ops/lau.py``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        s, width, place = s.to(h.dtype), h.shape[-1], bias.numel()
        (r, z, g), kept = _gates(x, s, gain, bias)
        _, x_candidate, linear = x.split([place, width, width], dim=-1)
        difference = s[:, place:] - x_candidate
        candidate = tanh_((x_candidate + candidate_bias).addcmul_(r, difference))
        change = candidate - h if keep is None else torch.addcmul(-h, candidate, keep)
        mixed = torch.addcmul(h, z, change)
        remaining = linear - mixed  # kept, because it is what g's gradient is multiplied by
        ctx.save_for_backward(gain, bias, keep, difference, candidate, change, remaining, r, z, g, *kept)
        return mixed.addcmul_(g, remaining)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        gain, bias, keep, difference, candidate, change, remaining, r, z, g, *kept = ctx.saved_tensors
        rows, width, place = *dh.shape, bias.numel()
        ds, dx = dh.new_empty(rows, place + width), dh.new_empty(rows, place + 2 * width)
        d_gates = [torch.empty_like(r), torch.empty_like(z), dh * remaining]
        d_linear = torch.mul(dh, g, out=dx[:, place + width :])
        dh = dh - d_linear
        torch.mul(dh, change, out=d_gates[1])
        d_change = dh * z
        dh -= d_change
        if keep is not None:
            d_change *= keep
        d_inner = tanh_backward(d_change, candidate)
        torch.mul(d_inner, difference, out=d_gates[0])
        d_state = torch.mul(d_inner, r, out=ds[:, place:])
        torch.sub(d_inner, d_state, out=dx[:, place : place + width])  # x_c stands outside r and, subtracted, inside
        d_gain, d_bias = _gates_backward(d_gates, [r, z, g], kept, gain, bias, ds)
        dx[:, :place] = ds[:, :place]
        return dx, ds, dh, d_gain, d_bias, d_inner.sum(0), None
