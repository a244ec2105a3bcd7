"""The GRU's steps for a processor, the twin of ``ops/gru.py``'s ``Plain``: two products and two kernels each."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run, terms
from nmtkit.ops.gru import Kept, State
from nmtkit.ops.matrix import Matrix
from nmtkit.ops.recurrence import matmul, other


def forward(x: Tensor, old: State, u_gates: Matrix, u: Matrix, real: Tensor | None, kept: Kept, new: State) -> None:
    """See ``Steps``: x (B, 3H)."""
    rows, width = old.h.shape
    count, product = parts(rows, x.numel()), matmul(old.h_w, u_gates)
    x = x if x.dtype == product.dtype else x.float()
    dtypes = x.dtype, product.dtype, kept.reset.dtype
    run("gru_gates", rows, count, x, product, old.h, kept.gates, kept.reset, width, *dtypes)
    product, states = matmul(kept.reset, u), (new.h, other(new.h_w, new.h))
    run("gru_state", rows, count, x, product, kept.gates, old.h, real, kept.candidate, *states, width, *dtypes[:2])


def backward(
    dh: Sequence[Tensor], u_gates_t: Matrix, u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor, d_w: Tensor
) -> list[Tensor]:
    """See ``Steps``: dh and h (B, H), d_w (B, 3H)."""
    rows, width = h.shape
    count, d_h = parts(rows, d_w.numel()), torch.empty_like(h)
    given = *terms(dh, d_w.dtype), real, kept.gates, kept.candidate, d_w, d_h
    run("gru_candidate_back", rows, count, *given, width, d_w.dtype)
    through = matmul(d_w[:, 2 * width :], u_t)
    after = d_h, through, real, kept.gates, kept.candidate, h, d_w
    run("gru_gates_back", rows, count, *after, width, d_w.dtype)
    return [d_h, matmul(d_w[:, : 2 * width], u_gates_t)]
