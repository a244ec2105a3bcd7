"""The pointwise part of a layer-normalised recurrent step as one operation, with its backward by hand.

A step is a product with the state, which stays with the caller (``loop.Loop.product``), and one of these. Each is the
plain function of the same name in ``reference.py`` made fast: few passes over memory, and little kept for backward.
All are done in the dtype of the state h.

Letters: N rows, H hidden, G gates.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops.pointwise import tanh_

_layer_norm_backward = torch.ops.aten.native_layer_norm_backward
_sigmoid_backward = torch.ops.aten.sigmoid_backward  # (gradient, sigmoid of x)
_tanh_backward = torch.ops.aten.tanh_backward  # (gradient, tanh of x)


def transition(
    x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """GRU, T-GRU (x is None) and L-GRU of Meng and Zhang 2019, eqs. 6 to 16: the next state (N, H).

    x (N, (G+1) H) and s (N, (G+1) H): what input and state give to the gates r, z, in an L-GRU also l, and to the
    candidate; in an L-GRU x goes on with H(x). h (N, H) state. gain and bias (G, H) of the gates' layer normalisation;
    gain is None without one. state_bias (H,), inside the reset product. keep (N, H) is what dropout multiplies the
    candidate by; None keeps it.
    """
    return _Transition.apply(x, s, h, gain, bias, state_bias, keep)  # type: ignore[no-any-return]


def lau(
    x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """The linear associative unit of Wang et al. 2017, eqs. 6 to 8, with normalised gates: the next state (N, H).

    As ``transition``, with the gates r, z, g, with H(x) in x, and with the candidate's bias outside the reset product.
    """
    return _LAU.apply(x, s, h, gain, bias, candidate_bias, keep)  # type: ignore[no-any-return]


def nematus(x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
    """The GRU of Miceli Barone et al. 2017, where u keeps the *old* state: the next state (N, H).

    x the terms [r, u, p] of the input, (N, 3H), or (3H,) for every row, or None for zeros; s (N, 3H) what the state
    gives to them, before bias (3H,) and layer normalisation. ``norms`` are gain and bias of the normalisation of both
    gates (2H,) and of the candidate (H,); empty without one.
    """
    return _Nematus.apply(x, s, h, bias, *norms)  # type: ignore[no-any-return]


def _gates(x: Tensor | None, s: Tensor, gain: Tensor | None, bias: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """sigma(LN(x + s)) for each of the G gates, which come first in x and s, and what ``_gates_backward`` needs."""
    width = bias.numel()
    terms = s[:, :width] if x is None else x[:, :width] + s[:, :width]
    pre = terms.unflatten(-1, bias.shape).transpose(0, 1).contiguous()  # (G, N, H)
    if gain is None:
        return list((pre + bias.unsqueeze(1)).sigmoid_().unbind()), []
    found, kept = [], [pre]
    for part, g, b in zip(pre, gain, bias, strict=True):
        gate, *statistics = torch.native_layer_norm(part, part.shape[-1:], g, b, 1e-6)
        found.append(gate.sigmoid_())
        kept += statistics
    return found, kept


def _gates_backward(
    d_gates: list[Tensor], gates: list[Tensor], kept: list[Tensor], gain: Tensor | None, bias: Tensor, ds: Tensor
) -> tuple[Tensor | None, Tensor]:
    """Writes the gradient of x + s into the first columns of ``ds``; gives those of gain and bias."""
    d_pre = [_sigmoid_backward(d, gate) for d, gate in zip(d_gates, gates, strict=True)]
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
        d, d_gain[k], d_bias[k] = _layer_norm_backward(
            d, pre[k], [width], mean, rstd, gain[k], bias[k], [True, True, True]
        )
        out[k].copy_(d)
    return d_gain, d_bias


class _Transition(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        s, width, place = s.to(h.dtype), h.shape[-1], bias.numel()
        (r, z, *linear_gate), kept = _gates(x, s, gain, bias)
        state = s[:, place:] + state_bias
        inner = r * state
        if x is not None:
            inner += x[:, place : place + width]
        candidate = tanh_(inner)
        linear = x[:, place + width :] if x is not None and linear_gate else None
        change = candidate if linear is None else torch.addcmul(candidate, linear_gate[0], linear)
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
        ds = dh.new_empty(rows, place + width)
        dx = dh.new_empty(rows, ctx.inputs) if ctx.inputs else None
        d_gates = [torch.empty_like(r), dh * change]
        d_change = dh * z
        dh = dh - d_change
        if keep is not None:
            d_change *= keep
        if linear is not None and dx is not None:
            d_gates.append(d_change * linear)
            torch.mul(d_change, linear_gate[0], out=dx[:, place + width :])
        d_inner = _tanh_backward(d_change, candidate)
        torch.mul(d_inner, state, out=d_gates[0])
        d_state = torch.mul(d_inner, r, out=ds[:, place:])
        d_gain, d_bias = _gates_backward(d_gates, [r, z, *linear_gate], kept, gain, bias, ds)
        if dx is not None:
            dx[:, :place] = ds[:, :place]
            dx[:, place : place + width] = d_inner
        return dx, ds, dh, d_gain, d_bias, d_state.sum(0), None


class _LAU(torch.autograd.Function):
    """The candidate is tanh(x_c + b + r (s_c - x_c)), as in ``lau.sequence``."""

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
        remaining = linear - mixed
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
        d_inner = _tanh_backward(d_change, candidate)
        torch.mul(d_inner, difference, out=d_gates[0])
        d_state = torch.mul(d_inner, r, out=ds[:, place:])
        torch.sub(d_inner, d_state, out=dx[:, place : place + width])
        d_gain, d_bias = _gates_backward(d_gates, [r, z, g], kept, gain, bias, ds)
        dx[:, :place] = ds[:, :place]
        return dx, ds, dh, d_gain, d_bias, d_inner.sum(0), None


class _Nematus(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, *norms: Tensor) -> Tensor:
        s, width = s.to(h.dtype), h.shape[-1]
        if bias is not None:
            s = s + bias
        parts, kept = list(s.split([2 * width, width], dim=-1)), []
        if norms:
            raw = [part.contiguous() for part in parts]
            kept = list(raw)
            for k, (gain, shift) in enumerate((norms[:2], norms[2:])):
                parts[k], *statistics = torch.native_layer_norm(raw[k], gain.shape, gain, shift, 1e-5)
                kept += statistics
        gates, state = parts
        gates = (gates if x is None else gates + x[..., : 2 * width]).sigmoid()
        r, u = gates.chunk(2, dim=-1)
        p = r * state
        if x is not None:
            p += x[..., 2 * width :]
        p = tanh_(p)
        difference = h - p
        ctx.save_for_backward(gates, state, p, difference, *norms, *kept)
        ctx.x_dimensions, ctx.has_bias = 0 if x is None else x.ndim, bias is not None
        return torch.addcmul(p, u, difference)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        gates, state, p, difference, *rest = ctx.saved_tensors
        rows, width = dh.shape
        r, u = gates.chunk(2, dim=-1)
        d_old = dh * u
        d_p = _tanh_backward(dh - d_old, p)
        d_gates = torch.empty_like(gates)
        torch.mul(d_p, state, out=d_gates[:, :width])
        torch.mul(dh, difference, out=d_gates[:, width:])
        parts = [_sigmoid_backward(d_gates, gates), d_p * r]
        dx = None
        if ctx.x_dimensions:
            dx = torch.cat([parts[0], d_p], dim=-1)
            dx = dx if ctx.x_dimensions == 2 else dx.sum(0)
        d_norms: list[Tensor] = []
        if rest:
            norms, raw, statistics = rest[:4], rest[4:6], rest[6:]
            for k in (0, 1):
                (gain, shift), (mean, rstd) = norms[2 * k : 2 * k + 2], statistics[2 * k : 2 * k + 2]
                parts[k], *found = _layer_norm_backward(
                    parts[k], raw[k], gain.shape, mean, rstd, gain, shift, [True, True, True]
                )
                d_norms += found
        ds = torch.cat(parts, dim=-1)
        return dx, ds, d_old, ds.sum(0) if ctx.has_bias else None, *d_norms
