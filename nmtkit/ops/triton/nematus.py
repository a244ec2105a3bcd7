"""The GRU of Nematus for a GPU, the twin of ``ops/nematus.py``'s ``Plain``: a kernel forward, one and a sum back.

It is made as ``triton/gated.py`` is: a program for each row, gates that backward computes again, and gradients of what
all rows share written row by row, so that their sum has one order.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops import nematus
from nmtkit.ops.triton.common import load, run_rows, store, tanh

EPSILON = tl.constexpr(nematus.EPSILON)


def step(x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, norms: Sequence[Tensor]) -> Tensor:
    """See ``nematus.step``: x (N, 3H) or (3H,), s (N, 3H), h (N, H), bias (3H,) -> the next state (N, H)."""
    given = norms if norms else [None] * 4
    new: Tensor = _Step.apply(x, s, h, bias, *given)
    return new


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor | None, s: Tensor, h: Tensor, bias: Tensor | None, *norms: Tensor | None
    ) -> Tensor:  # fmt: skip
        given = [None if y is None else y.contiguous() for y in (x, s, h, bias, *norms)]
        ctx.save_for_backward(*given)
        ctx.one_row = x is not None and x.ndim == 1
        new = torch.empty_like(h, memory_format=torch.contiguous_format)
        run_rows(_forward, new, *given, new, ctx.one_row)
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        x, s, h, bias, *norms = ctx.saved_tensors
        rows, width = h.shape
        # Three parts of a state's width for each of: shifts and gains of the norms, the bias, an x that all rows share.
        parts = [6 if norms[0] is not None else 0, 3 if bias is not None else 0, 3 if ctx.one_row else 0]
        shared = h.new_empty(rows, sum(parts) * width)
        of_norms, of_bias, of_x = shared.split([part * width for part in parts], dim=1)
        dx = None if x is None or ctx.one_row else torch.empty_like(x)
        ds, old_dh = torch.empty_like(s), torch.empty_like(h)
        run_rows(
            _backward, h, *ctx.saved_tensors, dh.contiguous(), of_x if ctx.one_row else dx, ds, old_dh,
            of_norms if parts[0] else None, of_bias if parts[1] else None, sum(parts), ctx.one_row,
        )  # fmt: skip
        d_norms, d_bias, d_row = shared.sum(0).split([part * width for part in parts])
        gates_shift, shift, gates_gain, gain = d_norms.split([2 * width, width] * 2) if parts[0] else [None] * 4
        return (
            d_row if ctx.one_row else dx, ds, old_dh, d_bias if parts[1] else None,
            gates_gain, gates_shift, gain, shift,
        )  # fmt: skip


@triton.jit
def _terms(s, bias, s_row, place, exists):
    """What the state gives to a gate or to the candidate, before its normalisation."""
    terms = load(s, s_row + place, exists)
    if bias is not None:
        terms += load(bias, place, exists)
    return terms


@triton.jit
def _cell(
    x, s, bias, gates_gain, gates_shift, gain, shift, x_row, s_row, column, exists, width
):  # fmt: skip
    """Both gates, the candidate, and the state's part of it; normalised terms of these three, and their two scales."""
    r_terms = _terms(s, bias, s_row, column, exists)
    u_terms = _terms(s, bias, s_row, column + width, exists)
    p_terms = _terms(s, bias, s_row, column + 2 * width, exists)
    r, u, state = r_terms, u_terms, p_terms
    gates_scale, scale = 1.0, 1.0
    if gain is not None:
        mean = (tl.sum(r_terms, axis=0) + tl.sum(u_terms, axis=0)) / (2 * width)  # one normalisation spans both gates
        r_terms = tl.where(exists, r_terms - mean, 0.0)
        u_terms = tl.where(exists, u_terms - mean, 0.0)
        squares = tl.sum(r_terms * r_terms, axis=0) + tl.sum(u_terms * u_terms, axis=0)
        gates_scale = 1 / tl.sqrt(squares / (2 * width) + EPSILON)
        r_terms *= gates_scale
        u_terms *= gates_scale
        p_terms = tl.where(exists, p_terms - tl.sum(p_terms, axis=0) / width, 0.0)
        scale = 1 / tl.sqrt(tl.sum(p_terms * p_terms, axis=0) / width + EPSILON)
        p_terms *= scale
        r = r_terms * load(gates_gain, column, exists) + load(gates_shift, column, exists)
        u = u_terms * load(gates_gain, column + width, exists) + load(gates_shift, column + width, exists)
        state = p_terms * load(gain, column, exists) + load(shift, column, exists)
    if x is not None:
        r += load(x, x_row + column, exists)
        u += load(x, x_row + column + width, exists)
    r = tl.sigmoid(r)
    u = tl.sigmoid(u)
    p = r * state
    if x is not None:
        p += load(x, x_row + column + 2 * width, exists)
    return r, u, tanh(p), state, r_terms, u_terms, p_terms, gates_scale, scale


@triton.jit
def _store_three(to, place, r, u, p, exists, width):
    """Writes what belongs to r, u and p side by side, from ``place`` on, if there is a tensor for it."""
    if to is not None:
        store(to, place, r, exists)
        store(to, place + width, u, exists)
        store(to, place + 2 * width, p, exists)


@triton.jit
def _forward(
    x, s, h, bias, gates_gain, gates_shift, gain, shift, new, ONE_ROW: tl.constexpr, width, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    exists = column < width
    s_row = 3 * row * width
    x_row = s_row * (not ONE_ROW)
    r, u, p, _, _, _, _, _, _ = _cell(
        x, s, bias, gates_gain, gates_shift, gain, shift, x_row, s_row, column, exists, width
    )
    old = load(h, row * width + column, exists)
    store(new, row * width + column, p + u * (old - p), exists)


@triton.jit
def _backward(
    x, s, h, bias, gates_gain, gates_shift, gain, shift, dh, dx, ds, old_dh, of_norms, of_bias,
    PARTS: tl.constexpr, ONE_ROW: tl.constexpr, width, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    exists = column < width
    s_row, shared_row = 3 * row * width, PARTS * row * width
    x_row = s_row * (not ONE_ROW)
    r, u, p, state, r_terms, u_terms, p_terms, gates_scale, scale = _cell(
        x, s, bias, gates_gain, gates_shift, gain, shift, x_row, s_row, column, exists, width
    )
    d_new = load(dh, row * width + column, exists)
    d_old = d_new * u
    store(old_dh, row * width + column, d_old, exists)
    dp = (d_new - d_old) * (1 - p * p)
    du = d_new * (load(h, row * width + column, exists) - p) * u * (1 - u)
    dr = dp * state * r * (1 - r)
    d_state = dp * r
    dx_row = shared_row if ONE_ROW else s_row
    _store_three(dx, dx_row + column, dr, du, dp, exists, width)
    if of_norms is not None:
        shifts = shared_row + column
        _store_three(of_norms, shifts, dr, du, d_state, exists, width)
        gains = shifts + 3 * width
        _store_three(of_norms, gains, dr * r_terms, du * u_terms, d_state * p_terms, exists, width)
        dr *= load(gates_gain, column, exists)
        du *= load(gates_gain, column + width, exists)
        d_state *= load(gain, column, exists)
        mean = (tl.sum(dr, axis=0) + tl.sum(du, axis=0)) / (2 * width)
        slope = (tl.sum(dr * r_terms, axis=0) + tl.sum(du * u_terms, axis=0)) / (2 * width)
        dr = (dr - mean - r_terms * slope) * gates_scale
        du = (du - mean - u_terms * slope) * gates_scale
        slope = tl.sum(d_state * p_terms, axis=0) / width
        d_state = (d_state - tl.sum(d_state, axis=0) / width - p_terms * slope) * scale
    _store_three(ds, s_row + column, dr, du, d_state, exists, width)
    _store_three(of_bias, shared_row + column, dr, du, d_state, exists, width)
