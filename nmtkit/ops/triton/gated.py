"""The layer-normalised cells for a GPU, the twin of ``ops/gated.py``'s ``Plain``: a kernel forward, one and a sum back.

A program does a whole row of the state (N, H), because a layer normalisation needs all of it; BLOCK is at least H. Only
the arguments are kept for backward, which computes the gates again: reading them would take as long, and the memory of
a loop over many steps is what limits a batch.

The gradients of what all rows share are written row by row and summed by PyTorch, always in the same order: kernels
that add to one place would do so in another order every time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.ops import gated
from nmtkit.ops.triton.common import load, run_rows, store, tanh

EPSILON = tl.constexpr(gated.EPSILON)


def gru(
    x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, state_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """See ``gated.gru``: x (N, (G+1) H), s (N, (G+1) H), h and keep (N, H), gain and bias (G, H), state_bias (H,)."""
    new: Tensor = _Cell.apply(_gru, _gru_backward, x, s, h, gain, bias, state_bias, keep)
    return new


def lau(
    x: Tensor, s: Tensor, h: Tensor, gain: Tensor | None, bias: Tensor, candidate_bias: Tensor, keep: Tensor | None
) -> Tensor:
    """See ``gated.lau``: x (N, 5H), s (N, 4H), h and keep (N, H), gain and bias (3, H), candidate_bias (H,)."""
    new: Tensor = _Cell.apply(_lau, _lau_backward, x, s, h, gain, bias, candidate_bias, keep)
    return new


class _Cell(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, forward: Any, backward: Any, x: Tensor | None, s: Tensor, h: Tensor, gain: Tensor | None,
        bias: Tensor, other_bias: Tensor, keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        given = [None if y is None else y.contiguous() for y in (x, s, h, gain, bias, other_bias, keep)]
        ctx.save_for_backward(*given)
        ctx.kernel, ctx.gates = backward, len(bias)
        new = torch.empty_like(h, memory_format=torch.contiguous_format)
        run_rows(forward, new, *given, new, len(bias))
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
        x, s, h, gain, bias, other_bias, keep = ctx.saved_tensors
        dx, ds, old_dh = None if x is None else torch.empty_like(x), torch.empty_like(s), torch.empty_like(h)
        # A row of each: the G biases, that of the candidate, the G gains.
        shared = h.new_empty(len(h), ctx.gates + 1 + (0 if gain is None else ctx.gates), h.shape[1])
        run_rows(ctx.kernel, h, *ctx.saved_tensors, dh.contiguous(), dx, ds, old_dh, shared, ctx.gates)
        d_bias, d_other, d_gain = shared.sum(0).tensor_split([ctx.gates, ctx.gates + 1])
        return None, None, dx, ds, old_dh, None if gain is None else d_gain, d_bias, d_other[0], None


@triton.jit
def _gate(x, s, gain, bias, x_row, s_row, place, exists, width):
    """The gate whose columns are at ``place``; its normalised terms, or just terms; and what these were scaled by."""
    terms = load(s, s_row + place, exists)
    if x is not None:
        terms += load(x, x_row + place, exists)
    scale = 1.0
    pre = terms
    if gain is not None:
        terms = tl.where(exists, terms - tl.sum(terms, axis=0) / width, 0.0)
        scale = 1 / tl.sqrt(tl.sum(terms * terms, axis=0) / width + EPSILON)
        terms *= scale
        pre = terms * load(gain, place, exists)
    return tl.sigmoid(pre + load(bias, place, exists)), terms, scale


@triton.jit
def _gate_backward(
    d_gate, gate, terms, scale, gain, x_row, s_row, place, exists, dx, ds, shared, shared_row, width, GATES
):  # fmt: skip
    """Writes the gradients of a gate's terms, bias and gain from that of its value; the rest is as in ``_gate``."""
    d = d_gate * gate * (1 - gate)
    store(shared, shared_row + place, d, exists)
    if gain is not None:
        store(shared, shared_row + (GATES + 1) * width + place, d * terms, exists)
        d *= load(gain, place, exists)
        # Neither the mean of all terms nor their common size changes anything: what would change them is taken out.
        d -= (tl.sum(d, axis=0) + terms * tl.sum(d * terms, axis=0)) / width
        d = tl.where(exists, d * scale, 0.0)
    store(ds, s_row + place, d, exists)
    if dx is not None:
        store(dx, x_row + place, d, exists)


@triton.jit
def _rows(x_parts, s_parts, width, BLOCK: tl.constexpr):
    """Columns of this program's row, whether they exist, and where the row begins in h, x and s."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    return column, column < width, row * width, row * x_parts * width, row * s_parts * width


@triton.jit
def _gru(
    x, s, h, gain, bias, state_bias, keep, new, GATES: tl.constexpr, width, BLOCK: tl.constexpr
):  # fmt: skip
    """The third gate of three is l, and x then ends with H(x)."""
    column, exists, h_row, x_row, s_row = _rows(2 * GATES - 1, GATES + 1, width, BLOCK)
    r, _, _ = _gate(x, s, gain, bias, x_row, s_row, column, exists, width)
    z, _, _ = _gate(x, s, gain, bias, x_row, s_row, column + width, exists, width)
    place = GATES * width + column
    inner = r * (load(s, s_row + place, exists) + load(state_bias, column, exists))
    if x is not None:
        inner += load(x, x_row + place, exists)
    candidate = tanh(inner)
    if GATES == 3:
        gate, _, _ = _gate(x, s, gain, bias, x_row, s_row, column + 2 * width, exists, width)
        candidate += gate * load(x, x_row + place + width, exists)
    if keep is not None:
        candidate *= load(keep, h_row + column, exists)
    old = load(h, h_row + column, exists)
    store(new, h_row + column, old + z * (candidate - old), exists)


@triton.jit
def _gru_backward(
    x, s, h, gain, bias, state_bias, keep, dh, dx, ds, old_dh, shared, GATES: tl.constexpr, width,
    BLOCK: tl.constexpr,
):  # fmt: skip
    column, exists, h_row, x_row, s_row = _rows(2 * GATES - 1, GATES + 1, width, BLOCK)
    shared_row = s_row if gain is None else s_row + h_row * GATES
    place = GATES * width + column
    r, r_terms, r_scale = _gate(x, s, gain, bias, x_row, s_row, column, exists, width)
    z, z_terms, z_scale = _gate(x, s, gain, bias, x_row, s_row, column + width, exists, width)
    state = load(s, s_row + place, exists) + load(state_bias, column, exists)
    inner = r * state
    if x is not None:
        inner += load(x, x_row + place, exists)
    c = tanh(inner)
    candidate = c
    if GATES == 3:
        gate, terms, scale = _gate(x, s, gain, bias, x_row, s_row, column + 2 * width, exists, width)
        linear = load(x, x_row + place + width, exists)
        candidate += gate * linear
    d_new = load(dh, h_row + column, exists)
    d_candidate = d_new * z
    store(old_dh, h_row + column, d_new - d_candidate, exists)
    if keep is not None:
        kept = load(keep, h_row + column, exists)
        candidate *= kept
        d_candidate *= kept
    dz = d_new * (candidate - load(h, h_row + column, exists))
    d_inner = d_candidate * (1 - c * c)
    d_state = d_inner * r
    store(ds, s_row + place, d_state, exists)
    store(shared, shared_row + place, d_state, exists)
    if dx is not None:
        store(dx, x_row + place, d_inner, exists)
    _gate_backward(d_inner * state, r, r_terms, r_scale, gain, x_row, s_row, column, exists, dx, ds, shared,
                   shared_row, width, GATES)  # fmt: skip
    _gate_backward(dz, z, z_terms, z_scale, gain, x_row, s_row, column + width, exists, dx, ds, shared,
                   shared_row, width, GATES)  # fmt: skip
    if GATES == 3:
        store(dx, x_row + place + width, d_candidate * gate, exists)
        _gate_backward(d_candidate * linear, gate, terms, scale, gain, x_row, s_row, column + 2 * width, exists, dx,
                       ds, shared, shared_row, width, GATES)  # fmt: skip


@triton.jit
def _lau_parts(x, s, gain, bias, candidate_bias, x_row, s_row, column, exists, width):
    """The gates r, z and g, each with its terms and their scale; what r weighs; and the candidate before dropout."""
    r, r_terms, r_scale = _gate(x, s, gain, bias, x_row, s_row, column, exists, width)
    z, z_terms, z_scale = _gate(x, s, gain, bias, x_row, s_row, column + width, exists, width)
    g, g_terms, g_scale = _gate(x, s, gain, bias, x_row, s_row, column + 2 * width, exists, width)
    x_candidate = load(x, x_row + 3 * width + column, exists)
    difference = load(s, s_row + 3 * width + column, exists) - x_candidate
    candidate = tanh(x_candidate + load(candidate_bias, column, exists) + r * difference)
    return r, r_terms, r_scale, z, z_terms, z_scale, g, g_terms, g_scale, difference, candidate


@triton.jit
def _lau(
    x, s, h, gain, bias, candidate_bias, keep, new, GATES: tl.constexpr, width, BLOCK: tl.constexpr
):  # fmt: skip
    column, exists, h_row, x_row, s_row = _rows(5, 4, width, BLOCK)
    _, _, _, z, _, _, g, _, _, _, candidate = _lau_parts(
        x, s, gain, bias, candidate_bias, x_row, s_row, column, exists, width
    )
    if keep is not None:
        candidate *= load(keep, h_row + column, exists)
    old = load(h, h_row + column, exists)
    mixed = old + z * (candidate - old)
    store(new, h_row + column, mixed + g * (load(x, x_row + 4 * width + column, exists) - mixed), exists)


@triton.jit
def _lau_backward(
    x, s, h, gain, bias, candidate_bias, keep, dh, dx, ds, old_dh, shared, GATES: tl.constexpr, width,
    BLOCK: tl.constexpr,
):  # fmt: skip
    column, exists, h_row, x_row, s_row = _rows(5, 4, width, BLOCK)
    shared_row = s_row if gain is None else s_row + h_row * 3
    place = 3 * width + column
    r, r_terms, r_scale, z, z_terms, z_scale, g, g_terms, g_scale, difference, c = _lau_parts(
        x, s, gain, bias, candidate_bias, x_row, s_row, column, exists, width
    )
    change = c
    if keep is not None:
        kept = load(keep, h_row + column, exists)
        change *= kept
    old = load(h, h_row + column, exists)
    change -= old
    d_new = load(dh, h_row + column, exists)
    dg = d_new * (load(x, x_row + place + width, exists) - (old + z * change))
    d_linear = d_new * g
    d_mixed = d_new - d_linear
    d_candidate = d_mixed * z
    store(old_dh, h_row + column, d_mixed - d_candidate, exists)
    if keep is not None:
        d_candidate *= kept
    d_inner = d_candidate * (1 - c * c)
    d_state = d_inner * r
    store(ds, s_row + place, d_state, exists)
    store(dx, x_row + place, d_inner - d_state, exists)  # x_c stands outside r and, subtracted, inside
    store(dx, x_row + place + width, d_linear, exists)
    store(shared, shared_row + place, d_inner, exists)
    _gate_backward(d_inner * difference, r, r_terms, r_scale, gain, x_row, s_row, column, exists, dx, ds, shared,
                   shared_row, width, GATES)  # fmt: skip
    _gate_backward(d_mixed * change, z, z_terms, z_scale, gain, x_row, s_row, column + width, exists, dx, ds, shared,
                   shared_row, width, GATES)  # fmt: skip
    _gate_backward(dg, g, g_terms, g_scale, gain, x_row, s_row, column + 2 * width, exists, dx, ds, shared,
                   shared_row, width, GATES)  # fmt: skip
