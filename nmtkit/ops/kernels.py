"""The steps of ``steps.py`` for a GPU: a product and one Triton kernel (the GRU's two of each), nothing more; and the
scores of additive attention.

So far they were run in Triton's interpreter, on a CPU, and compiled for a GPU, but never run on one: none was at hand.
``trusted.py`` therefore has them tried before they are relied on.

A step's program does BLOCK elements of a state (B, H), each with its gates. What it gets is contiguous; arithmetic is
in float32 whatever is loaded or stored. For an argument that may be None, None makes a kernel of its own.
The mask is read in the kernel, so that the host waits for nothing. Places are counted in 64 bits, but for elements of
one state, of which there are fewer than 2^31.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


def masks(mask: Tensor | None, length: int) -> Sequence[Tensor | None]:
    """Of every step the mask as bytes (B,); mask (T, B)."""
    return [None] * length if mask is None else mask.contiguous().view(torch.uint8).unbind()


def unbind(x: Tensor | None) -> Sequence[Tensor] | None:
    """The steps of a sequence that was made elsewhere, if there is one: (T, B, G) -> T times (B, G)."""
    return None if x is None else x.contiguous().unbind()


def _product(x: Tensor, w: Tensor) -> Tensor:
    return torch.mm(x, w, out=x.new_empty(len(x), w.shape[1]))  # autocast leaves what has a place alone


def _other(copy: Tensor, original: Tensor) -> Tensor | None:
    """``copy`` if it is another place than ``original``, to be written too."""
    return None if copy.dtype == original.dtype else copy


def _run(kernel: Any, like: Tensor, *arguments: Any) -> None:
    """Launches ``kernel`` for every element of ``like`` (B, H), on its device."""
    with torch.cuda.device_of(like):
        kernel[(triton.cdiv(like.numel(), BLOCK),)](*arguments, like.numel(), like.shape[1], BLOCK=BLOCK)


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _places(elements, width, BLOCK: tl.constexpr):
    """Of this program's elements: whether they exist, row, column, and place in a state."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = at // width
    return at < elements, row.to(tl.int64), at - row * width, at


@triton.jit
def _load(x, at, exists):
    return tl.load(x + at, mask=exists, other=0).to(tl.float32)


@triton.jit
def _store(x, at, value, exists):
    """In the type of x."""
    tl.store(x + at, value.to(x.dtype.element_ty), mask=exists)


@triton.jit
def _real(mask, row, exists):
    return tl.load(mask + row, mask=exists, other=0) != 0


@triton.jit
def _sum(a, b, c, at, exists):
    """Of the terms that there are."""
    total = _load(a, at, exists)
    if b is not None:
        total += _load(b, at, exists)
    if c is not None:
        total += _load(c, at, exists)
    return total


def _three(terms: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    return (*terms, *[None] * (3 - len(terms)))


@triton.jit
def _lstm(
    f, product, h, s, theta_i, theta_f, theta_o, mask, gates, new_h, new_h_w, new_s,
    elements, width, BLOCK: tl.constexpr,
):  # fmt: skip
    exists, row, column, at = _places(elements, width, BLOCK)
    place = 4 * width * row + column
    old_s = _load(s, at, exists)
    z = _tanh(_load(f, place, exists) + _load(product, place, exists))
    place_i, place_f, place_o = place + width, place + 2 * width, place + 3 * width
    i = _load(f, place_i, exists) + _load(product, place_i, exists) + old_s * _load(theta_i, column, exists)
    g = _load(f, place_f, exists) + _load(product, place_f, exists) + old_s * _load(theta_f, column, exists)
    i = tl.sigmoid(i)
    g = tl.sigmoid(g)
    cell = z * i + g * old_s
    o = _load(f, place_o, exists) + _load(product, place_o, exists) + cell * _load(theta_o, column, exists)
    o = tl.sigmoid(o)
    state = _tanh(cell) * o
    if mask is not None:
        real = _real(mask, row, exists)
        cell = tl.where(real, cell, old_s)
        state = tl.where(real, state, _load(h, at, exists))
    _store(gates, place, z, exists)
    _store(gates, place_i, i, exists)
    _store(gates, place_f, g, exists)
    _store(gates, place_o, o, exists)
    _store(new_s, at, cell, exists)
    _store(new_h, at, state, exists)
    if new_h_w is not None:
        _store(new_h_w, at, state, exists)


def lstm(
    f: Tensor, h: Tensor, h_w: Tensor, s: Tensor, w: Tensor, peepholes: Sequence[Tensor], real: Tensor | None,
    gates: Tensor, new_h: Tensor, new_h_w: Tensor, new_s: Tensor,
) -> None:  # fmt: skip
    _run(_lstm, s, f, _product(h_w, w), h, s, *peepholes, real, gates, new_h, _other(new_h_w, new_h), new_s)


@triton.jit
def _lstm_backward(
    dh_1, dh_2, dh_3, ds, theta_i, theta_f, theta_o, mask, gates, s, new_s, d_pre, d_w, passed_h, old_ds,
    elements, width, BLOCK: tl.constexpr,
):  # fmt: skip
    exists, row, column, at = _places(elements, width, BLOCK)
    place = 4 * width * row + column
    place_i, place_f, place_o = place + width, place + 2 * width, place + 3 * width
    dh = _sum(dh_1, dh_2, dh_3, at, exists)
    d_cell = _load(ds, at, exists)
    passed_s = tl.zeros_like(d_cell)
    if mask is not None:
        real = _real(mask, row, exists)
        _store(passed_h, at, tl.where(real, 0.0, dh), exists)
        passed_s = tl.where(real, 0.0, d_cell)
        dh = tl.where(real, dh, 0.0)
        d_cell = tl.where(real, d_cell, 0.0)
    z, i = _load(gates, place, exists), _load(gates, place_i, exists)
    g, o = _load(gates, place_f, exists), _load(gates, place_o, exists)
    tanh_s = _tanh(_load(new_s, at, exists))
    do = dh * tanh_s * o * (1 - o)
    d_cell += dh * o * (1 - tanh_s * tanh_s) + do * _load(theta_o, column, exists)
    dz = d_cell * i * (1 - z * z)
    di = d_cell * z * i * (1 - i)
    dg = d_cell * _load(s, at, exists) * g * (1 - g)
    d_cell = d_cell * g + di * _load(theta_i, column, exists) + dg * _load(theta_f, column, exists)
    _store(old_ds, at, d_cell + passed_s, exists)
    _store(d_pre, place, dz, exists)
    _store(d_pre, place_i, di, exists)
    _store(d_pre, place_f, dg, exists)
    _store(d_pre, place_o, do, exists)
    if d_w is not None:
        _store(d_w, place, dz, exists)
        _store(d_w, place_i, di, exists)
        _store(d_w, place_f, dg, exists)
        _store(d_w, place_o, do, exists)


def lstm_backward(
    dh_terms: Sequence[Tensor], ds: Tensor, w_t: Tensor, peepholes: Sequence[Tensor], real: Tensor | None,
    gates: Tensor, s: Tensor, new_s: Tensor, d_pre: Tensor, d_w: Tensor,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    passed = [] if real is None else [torch.empty_like(s)]
    old_ds = torch.empty_like(s)
    _run(
        _lstm_backward, s, *_three(dh_terms), ds, *peepholes, real, gates, s, new_s, d_pre, _other(d_w, d_pre),
        passed[0] if passed else None, old_ds,
    )  # fmt: skip
    return [_product(d_w, w_t), *passed], old_ds


@triton.jit
def _gru_gates(x, product, h, gates, reset, elements, width, BLOCK: tl.constexpr):
    exists, row, column, at = _places(elements, width, BLOCK)
    place = 2 * width * row + column
    place_x = 3 * width * row + column
    r = tl.sigmoid(_load(x, place_x, exists) + _load(product, place, exists))
    z = tl.sigmoid(_load(x, place_x + width, exists) + _load(product, place + width, exists))
    _store(gates, place, r, exists)
    _store(gates, place + width, z, exists)
    _store(reset, at, r * _load(h, at, exists), exists)


@triton.jit
def _gru_state(
    x, product, h, mask, gates, candidate, new_h, new_h_w, elements, width, BLOCK: tl.constexpr
):  # fmt: skip
    exists, row, column, at = _places(elements, width, BLOCK)
    old = _load(h, at, exists)
    z = _load(gates, 2 * width * row + column + width, exists)
    c = _tanh(_load(x, 3 * width * row + column + 2 * width, exists) + _load(product, at, exists))
    state = old + z * (c - old)
    if mask is not None:
        state = tl.where(_real(mask, row, exists), state, old)
    _store(candidate, at, c, exists)
    _store(new_h, at, state, exists)
    if new_h_w is not None:
        _store(new_h_w, at, state, exists)


def gru(
    x: Tensor, h: Tensor, h_w: Tensor, u_gates: Tensor, u: Tensor, real: Tensor | None,
    gates: Tensor, reset: Tensor, candidate: Tensor, new_h: Tensor, new_h_w: Tensor,
) -> None:  # fmt: skip
    _run(_gru_gates, h, x, _product(h_w, u_gates), h, gates, reset)
    _run(_gru_state, h, x, _product(reset, u), h, real, gates, candidate, new_h, _other(new_h_w, new_h))


@triton.jit
def _gru_candidate_backward(
    dh_1, dh_2, dh_3, mask, gates, candidate, d_w, dh, elements, width, BLOCK: tl.constexpr
):  # fmt: skip
    exists, row, column, at = _places(elements, width, BLOCK)
    total = _sum(dh_1, dh_2, dh_3, at, exists)
    _store(dh, at, total, exists)
    if mask is not None:
        total = tl.where(_real(mask, row, exists), total, 0.0)
    c = _load(candidate, at, exists)
    z = _load(gates, 2 * width * row + column + width, exists)
    _store(d_w, 3 * width * row + column + 2 * width, total * z * (1 - c * c), exists)


@triton.jit
def _gru_gates_backward(dh, d_reset, mask, gates, candidate, h, d_w, elements, width, BLOCK: tl.constexpr):
    """What stays of dh takes its place."""
    exists, row, column, at = _places(elements, width, BLOCK)
    place, place_w = 2 * width * row + column, 3 * width * row + column
    passed, through, old = _load(dh, at, exists), _load(d_reset, at, exists), _load(h, at, exists)
    r, z = _load(gates, place, exists), _load(gates, place + width, exists)
    dr = through * old * r * (1 - r)
    dz = passed * (_load(candidate, at, exists) - old) * z * (1 - z)
    stays = passed * (1 - z) + through * r
    if mask is not None:
        real = _real(mask, row, exists)
        dr, dz = tl.where(real, dr, 0.0), tl.where(real, dz, 0.0)
        stays = tl.where(real, stays, passed)
    _store(d_w, place_w, dr, exists)
    _store(d_w, place_w + width, dz, exists)
    _store(dh, at, stays, exists)


def gru_backward(
    dh_terms: Sequence[Tensor], u_gates_t: Tensor, u_t: Tensor, real: Tensor | None, gates: Tensor, candidate: Tensor,
    h: Tensor, d_w: Tensor,
) -> list[Tensor]:  # fmt: skip
    width = h.shape[1]
    dh = torch.empty_like(h)
    _run(_gru_candidate_backward, h, *_three(dh_terms), real, gates, candidate, d_w, dh)
    d_reset = _product(d_w[:, 2 * width :], u_t)
    _run(_gru_gates_backward, h, dh, d_reset, real, gates, candidate, h, d_w)
    return [dh, _product(d_w[:, : 2 * width], u_gates_t)]


@triton.jit
def _lau(h, product, mask, linear, gates, candidate, new_h, new_h_w, elements, width, BLOCK: tl.constexpr):
    exists, row, column, at = _places(elements, width, BLOCK)
    place = 4 * width * row + column
    place_z, place_g, place_difference = place + width, place + 2 * width, place + 3 * width
    old = _load(h, at, exists)
    r = tl.sigmoid(_load(gates, place, exists) + _load(product, place, exists))
    z = tl.sigmoid(_load(gates, place_z, exists) + _load(product, place_z, exists))
    g = tl.sigmoid(_load(gates, place_g, exists) + _load(product, place_g, exists))
    difference = _load(gates, place_difference, exists) + _load(product, place_difference, exists)
    c = _tanh(_load(candidate, at, exists) + r * difference)
    state = old + z * (c - old)
    state += g * (_load(linear, at, exists) - state)
    if mask is not None:
        state = tl.where(_real(mask, row, exists), state, old)
    _store(gates, place, r, exists)
    _store(gates, place_z, z, exists)
    _store(gates, place_g, g, exists)
    _store(gates, place_difference, difference, exists)
    _store(candidate, at, c, exists)
    _store(new_h, at, state, exists)
    if new_h_w is not None:
        _store(new_h_w, at, state, exists)


def lau(
    h: Tensor, h_w: Tensor, u: Tensor, real: Tensor | None, linear: Tensor,
    gates: Tensor, candidate: Tensor, new_h: Tensor, new_h_w: Tensor,
) -> None:  # fmt: skip
    _run(_lau, h, h, _product(h_w, u), real, linear, gates, candidate, new_h, _other(new_h_w, new_h))


@triton.jit
def _lau_backward(
    dh_1, dh_2, dh_3, mask, linear, gates, candidate, h, d_candidate, d_x, d_w, rest,
    elements, width, BLOCK: tl.constexpr,
):  # fmt: skip
    exists, row, column, at = _places(elements, width, BLOCK)
    place, place_x = 4 * width * row + column, 5 * width * row + column
    passed = _sum(dh_1, dh_2, dh_3, at, exists)
    dh = passed
    if mask is not None:
        real = _real(mask, row, exists)
        dh = tl.where(real, dh, 0.0)
    r, z = _load(gates, place, exists), _load(gates, place + width, exists)
    g, difference = _load(gates, place + 2 * width, exists), _load(gates, place + 3 * width, exists)
    c, old = _load(candidate, at, exists), _load(h, at, exists)
    mixed = old + z * (c - old)
    d_linear = dh * g
    dg = d_linear * (_load(linear, at, exists) - mixed) * (1 - g)
    d_mixed = dh - d_linear
    dz = d_mixed * z * (c - old) * (1 - z)
    dc = d_mixed * z * (1 - c * c)
    d_product = dc * r
    dr = d_product * difference * (1 - r)
    stays = d_mixed * (1 - z)
    if mask is not None:
        stays = tl.where(real, stays, passed)
    _store(rest, at, stays, exists)
    _store(d_candidate, at, dc, exists)
    _store(d_x, place_x, dr, exists)
    _store(d_x, place_x + width, dz, exists)
    _store(d_x, place_x + 2 * width, dg, exists)
    _store(d_x, place_x + 3 * width, d_product, exists)
    _store(d_x, place_x + 4 * width, d_linear, exists)
    if d_w is not None:
        _store(d_w, place, dr, exists)
        _store(d_w, place + width, dz, exists)
        _store(d_w, place + 2 * width, dg, exists)
        _store(d_w, place + 3 * width, d_product, exists)


def lau_backward(
    dh_terms: Sequence[Tensor], u_t: Tensor, real: Tensor | None, linear: Tensor, gates: Tensor, candidate: Tensor,
    h: Tensor, dc: Tensor, d_x: Tensor, d_w: Tensor,
) -> list[Tensor]:  # fmt: skip
    rest = torch.empty_like(h)
    _run(
        _lau_backward, h, *_three(dh_terms), real, linear, gates, candidate, h, dc, d_x, _other(d_w, d_x), rest
    )  # fmt: skip
    return [rest, _product(d_w, u_t)]


@triton.jit
def _additive_scores(
    query, keys, v, mask, scores, sources, width, sentence_stride, source_stride, BLOCK: tl.constexpr
):  # fmt: skip
    """A program does the score of one source position of one sentence; BLOCK is at least the width."""
    at = tl.program_id(0)
    sentence = (at // sources).to(tl.int64)
    column = tl.arange(0, BLOCK)
    exists = column < width
    key = _load(keys, sentence * sentence_stride + (at % sources).to(tl.int64) * source_stride + column, exists)
    energy = _tanh(_load(query, sentence * width + column, exists) + key)
    score = tl.sum(_load(v, column, exists) * energy, axis=0)
    tl.store(scores + at, tl.where(tl.load(mask + at) != 0, score, float("-inf")))


def additive_scores(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """v . tanh(query + keys), -inf where the mask (B, S) is False: query (B, A), keys (B, S, A), v (A,) -> (B, S)."""
    sentences, sources, width = keys.shape
    keys = keys if keys.stride(2) == 1 else keys.contiguous()
    scores = torch.empty(sentences, sources, device=keys.device)
    with torch.cuda.device_of(scores):
        _additive_scores[(scores.numel(),)](
            query.contiguous(), keys, v.contiguous(), mask.contiguous().view(torch.uint8), scores,
            sources, width, keys.stride(0), keys.stride(1), BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
    return scores
