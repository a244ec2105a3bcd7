"""The GRU's steps for a GPU, the twin of ``ops/gru.py``'s ``Plain``: two products and two kernels each."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmtkit.ops.gru import Kept, State
from nmtkit.ops.matrix import Matrix
from nmtkit.ops.recurrence import matmul, other, three
from nmtkit.ops.triton.common import as_bytes, is_real, load, places, run, store, sum_of, tanh


@triton.jit
def _gates(x, product, h, gates, reset, width):
    """Before the second product: both gates, and r * h."""
    exists, row, column, at = places(width)
    place = 2 * width * row + column
    place_x = 3 * width * row + column
    r = tl.sigmoid(load(x, place_x, exists) + load(product, place, exists))
    z = tl.sigmoid(load(x, place_x + width, exists) + load(product, place + width, exists))
    store(gates, place, r, exists)
    store(gates, place + width, z, exists)
    store(reset, at, r * load(h, at, exists), exists)


@triton.jit
def _state(
    x, product, h, mask, gates, candidate, new_h, new_h_w, width
):  # fmt: skip
    """After the second product: the candidate and the new state."""
    exists, row, column, at = places(width)
    old = load(h, at, exists)
    z = load(gates, 2 * width * row + column + width, exists)
    c = tanh(load(x, 3 * width * row + column + 2 * width, exists) + load(product, at, exists))
    state = old + z * (c - old)
    if mask is not None:
        state = tl.where(is_real(mask, row), state, old)
    store(candidate, at, c, exists)
    store(new_h, at, state, exists)
    if new_h_w is not None:
        store(new_h_w, at, state, exists)


def forward(x: Tensor, old: State, u_gates: Matrix, u: Matrix, real: Tensor | None, kept: Kept, new: State) -> None:
    """See ``Steps``: x (B, 3H)."""
    gates, reset, candidate = kept
    run(_gates, old.h, x, matmul(old.h_w, u_gates), old.h, gates, reset)
    # Two kernels, because the second product needs what the first one makes.
    h_w = other(new.h_w, new.h)
    run(_state, old.h, x, matmul(reset, u), old.h, as_bytes(real), gates, candidate, new.h, h_w)


@triton.jit
def _candidate_backward(
    dh_1, dh_2, dh_3, mask, gates, candidate, d_w, dh, width
):  # fmt: skip
    """Before the product with U^T: the sum of dh, and the candidate's gradient before its tanh."""
    exists, row, column, at = places(width)
    total = sum_of(dh_1, dh_2, dh_3, at, exists)
    store(dh, at, total, exists)
    if mask is not None:
        total = tl.where(is_real(mask, row), total, 0.0)
    c = load(candidate, at, exists)
    z = load(gates, 2 * width * row + column + width, exists)
    store(d_w, 3 * width * row + column + 2 * width, total * z * (1 - c * c), exists)


@triton.jit
def _gates_backward(dh, d_reset, mask, gates, candidate, h, d_w, width):
    """After it: both gates' gradients. What of dh goes on directly and through r * h takes its place."""
    exists, row, column, at = places(width)
    place, place_w = 2 * width * row + column, 3 * width * row + column
    passed, through, old = load(dh, at, exists), load(d_reset, at, exists), load(h, at, exists)
    r, z = load(gates, place, exists), load(gates, place + width, exists)
    dr = through * old * r * (1 - r)
    dz = passed * (load(candidate, at, exists) - old) * z * (1 - z)
    stays = passed * (1 - z) + through * r
    # A row that is not real hands dh on as it is, and has no part in the weights' gradients.
    if mask is not None:
        real = is_real(mask, row)
        dr, dz = tl.where(real, dr, 0.0), tl.where(real, dz, 0.0)
        stays = tl.where(real, stays, passed)
    store(d_w, place_w, dr, exists)
    store(d_w, place_w + width, dz, exists)
    store(dh, at, stays, exists)


def backward(
    dh: Sequence[Tensor], u_gates_t: Matrix, u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor, d_w: Tensor
) -> list[Tensor]:
    """See ``Steps``: dh and h (B, H), d_w (B, 3H)."""
    gates, _, candidate = kept
    width, mask = h.shape[1], as_bytes(real)
    d_h = torch.empty_like(h)
    run(_candidate_backward, h, *three(dh), mask, gates, candidate, d_w, d_h)
    d_reset = matmul(d_w[:, 2 * width :], u_t)
    run(_gates_backward, h, d_h, d_reset, mask, gates, candidate, h, d_w)
    return [d_h, matmul(d_w[:, : 2 * width], u_gates_t)]
