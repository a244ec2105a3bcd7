"""The LSTM's steps for a GPU, the twin of ``ops/lstm.py``'s ``Plain``."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmtkit.ops.lstm import Kept, State
from nmtkit.ops.matrix import Matrix
from nmtkit.ops.recurrence import matmul, other, three
from nmtkit.ops.triton.common import as_bytes, is_real, load, places, run, store, sum_of, tanh


@triton.jit
def _forward(f, product, h, s, theta, mask, gates, new_h, new_h_w, new_s, width):
    exists, row, column, at = places(width)
    place = 4 * width * row + column  # of z; the other gates follow, each a width further
    old_s = load(s, at, exists)
    z = tanh(load(f, place, exists) + load(product, place, exists))
    place_i, place_f, place_o = place + width, place + 2 * width, place + 3 * width
    i = load(f, place_i, exists) + load(product, place_i, exists) + old_s * load(theta, column, exists)
    g = load(f, place_f, exists) + load(product, place_f, exists) + old_s * load(theta, column + width, exists)
    i = tl.sigmoid(i)
    g = tl.sigmoid(g)
    cell = z * i + g * old_s
    o = load(f, place_o, exists) + load(product, place_o, exists) + cell * load(theta, column + 2 * width, exists)
    o = tl.sigmoid(o)
    state = tanh(cell) * o
    if mask is not None:
        real = is_real(mask, row)
        cell = tl.where(real, cell, old_s)
        state = tl.where(real, state, load(h, at, exists))
    store(gates, place, z, exists)
    store(gates, place_i, i, exists)
    store(gates, place_f, g, exists)
    store(gates, place_o, o, exists)
    store(new_s, at, cell, exists)
    store(new_h, at, state, exists)
    if new_h_w is not None:
        store(new_h_w, at, state, exists)


def forward(f: Tensor, old: State, w: Matrix, theta: Tensor, real: Tensor | None, gates: Tensor, new: State) -> None:
    """See ``Steps``: f and gates (B, 4H)."""
    h_w = other(new.h_w, new.h)
    run(_forward, old.s, f, matmul(old.h_w, w), old.h, old.s, theta, as_bytes(real), gates, new.h, h_w, new.s)


@triton.jit
def _backward(
    dh_1, dh_2, dh_3, ds, theta, mask, gates, s, new_s, d_pre, d_w, passed_h, old_ds, width
):  # fmt: skip
    exists, row, column, at = places(width)
    place = 4 * width * row + column
    place_i, place_f, place_o = place + width, place + 2 * width, place + 3 * width
    # The terms: the product of the step after, what was handed on past it, and the gradient of this step's output.
    dh = sum_of(dh_1, dh_2, dh_3, at, exists)
    d_cell = load(ds, at, exists)
    # A row that is not real hands both gradients on. That of h is stored, because a product will stand beside it.
    passed_s = tl.zeros_like(d_cell)
    if mask is not None:
        real = is_real(mask, row)
        store(passed_h, at, tl.where(real, 0.0, dh), exists)
        passed_s = tl.where(real, 0.0, d_cell)
        dh = tl.where(real, dh, 0.0)
        d_cell = tl.where(real, d_cell, 0.0)
    z, i = load(gates, place, exists), load(gates, place_i, exists)
    g, o = load(gates, place_f, exists), load(gates, place_o, exists)
    tanh_s = tanh(load(new_s, at, exists))
    do = dh * tanh_s * o * (1 - o)
    d_cell += dh * o * (1 - tanh_s * tanh_s) + do * load(theta, column + 2 * width, exists)
    dz = d_cell * i * (1 - z * z)
    di = d_cell * z * i * (1 - i)
    dg = d_cell * load(s, at, exists) * g * (1 - g)
    d_cell = d_cell * g + di * load(theta, column, exists) + dg * load(theta, column + width, exists)
    store(old_ds, at, d_cell + passed_s, exists)
    store(d_pre, place, dz, exists)
    store(d_pre, place_i, di, exists)
    store(d_pre, place_f, dg, exists)
    store(d_pre, place_o, do, exists)
    if d_w is not None:  # in bfloat16: the product takes them so, the peepholes' gradients do not
        store(d_w, place, dz, exists)
        store(d_w, place_i, di, exists)
        store(d_w, place_f, dg, exists)
        store(d_w, place_o, do, exists)


def backward(
    dh: Sequence[Tensor], ds: Tensor, w_t: Matrix, theta: Tensor, real: Tensor | None, kept: Kept, d_pre: Tensor,
    d_w: Tensor,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    """See ``Steps``: dh and ds (B, H), d_pre (B, 4H)."""
    passed = [] if real is None else [torch.empty_like(ds)]
    old_ds = torch.empty_like(ds)
    run(
        _backward, ds, *three(dh), ds, theta, as_bytes(real), *kept, d_pre, other(d_w, d_pre),
        passed[0] if passed else None, old_ds,
    )  # fmt: skip
    return [matmul(d_w, w_t), *passed], old_ds
