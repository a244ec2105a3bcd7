"""The LAU's steps for a GPU, the twin of ``ops/lau.py``'s ``Plain``."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmtkit.ops.lau import Gradients, Kept, State
from nmtkit.ops.matrix import Matrix
from nmtkit.ops.recurrence import matmul, other, three
from nmtkit.ops.triton.common import as_bytes, is_real, load, places, run, store, sum_of, tanh


@triton.jit
def _forward(h, product, mask, linear, gates, candidate, new_h, new_h_w, width):
    exists, row, column, at = places(width)
    place = 4 * width * row + column
    place_z, place_g, place_difference = place + width, place + 2 * width, place + 3 * width
    # The gates come with their input's part and leave with their values, in one place.
    old = load(h, at, exists)
    r = tl.sigmoid(load(gates, place, exists) + load(product, place, exists))
    z = tl.sigmoid(load(gates, place_z, exists) + load(product, place_z, exists))
    g = tl.sigmoid(load(gates, place_g, exists) + load(product, place_g, exists))
    difference = load(gates, place_difference, exists) + load(product, place_difference, exists)
    # Here difference = h U_c - x_c, and the candidate's place holds x_c + b.
    c = tanh(load(candidate, at, exists) + r * difference)
    state = old + z * (c - old)
    state += g * (load(linear, at, exists) - state)
    if mask is not None:
        state = tl.where(is_real(mask, row), state, old)
    store(gates, place, r, exists)
    store(gates, place_z, z, exists)
    store(gates, place_g, g, exists)
    store(gates, place_difference, difference, exists)
    store(candidate, at, c, exists)
    store(new_h, at, state, exists)
    if new_h_w is not None:
        store(new_h_w, at, state, exists)


def forward(old: State, u: Matrix, real: Tensor | None, kept: Kept, new: State) -> None:
    """See ``Steps``: u (H, 4H)."""
    gates, candidate, linear = kept
    h_w = other(new.h_w, new.h)
    run(_forward, old.h, old.h, matmul(old.h_w, u), as_bytes(real), linear, gates, candidate, new.h, h_w)


@triton.jit
def _backward(
    dh_1, dh_2, dh_3, mask, linear, gates, candidate, h, d_candidate, d_x, d_w, rest, width
):  # fmt: skip
    exists, row, column, at = places(width)
    place, place_x = 4 * width * row + column, 5 * width * row + column
    # The terms: the product of the step after, what was handed on past it, and the gradient of this step's output.
    passed = sum_of(dh_1, dh_2, dh_3, at, exists)
    dh = passed
    if mask is not None:
        real = is_real(mask, row)
        dh = tl.where(real, dh, 0.0)
    r, z = load(gates, place, exists), load(gates, place + width, exists)
    g, difference = load(gates, place + 2 * width, exists), load(gates, place + 3 * width, exists)
    c, old = load(candidate, at, exists), load(h, at, exists)
    # Computed again rather than kept: reading it would take as long.
    mixed = old + z * (c - old)
    d_linear = dh * g
    dg = d_linear * (load(linear, at, exists) - mixed) * (1 - g)
    d_mixed = dh - d_linear
    dz = d_mixed * z * (c - old) * (1 - z)
    dc = d_mixed * z * (1 - c * c)
    d_product = dc * r
    dr = d_product * difference * (1 - r)
    # What goes on to the step before without a product; of a row that is not real, everything.
    stays = d_mixed * (1 - z)
    if mask is not None:
        stays = tl.where(real, stays, passed)
    store(rest, at, stays, exists)
    store(d_candidate, at, dc, exists)
    store(d_x, place_x, dr, exists)
    store(d_x, place_x + width, dz, exists)
    store(d_x, place_x + 2 * width, dg, exists)
    store(d_x, place_x + 3 * width, d_product, exists)
    store(d_x, place_x + 4 * width, d_linear, exists)
    if d_w is not None:
        store(d_w, place, dr, exists)
        store(d_w, place + width, dz, exists)
        store(d_w, place + 2 * width, dg, exists)
        store(d_w, place + 3 * width, d_product, exists)


def backward(
    dh: Sequence[Tensor], u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor, out: Gradients
) -> list[Tensor]:
    """See ``Steps``: dh and h (B, H)."""
    gates, candidate, linear = kept
    stays = torch.empty_like(h)
    run(
        _backward, h, *three(dh), as_bytes(real), linear, gates, candidate, h, out.candidate, out.x,
        other(out.w, out.x), stays,
    )  # fmt: skip
    return [stays, matmul(out.w, u_t)]
