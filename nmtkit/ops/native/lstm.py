"""The LSTM's steps for a processor, the twin of ``ops/lstm.py``'s ``Plain``: a product and a kernel each."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run, terms
from nmtkit.ops.lstm import Kept, State
from nmtkit.ops.matrix import Matrix
from nmtkit.ops.recurrence import matmul, other


def forward(f: Tensor, old: State, w: Matrix, theta: Tensor, real: Tensor | None, gates: Tensor, new: State) -> None:
    """See ``Steps``: f and gates (B, 4H)."""
    (rows, width), product = old.h.shape, matmul(old.h_w, w)
    f = f if f.dtype == product.dtype else f.float()
    given = f, product, old.h, old.s, theta, real, gates, new.h, other(new.h_w, new.h), new.s
    run("lstm", rows, parts(rows, f.numel()), *given, width, f.dtype, product.dtype)


def backward(
    dh: Sequence[Tensor], ds: Tensor, w_t: Matrix, theta: Tensor, real: Tensor | None, kept: Kept, d_pre: Tensor,
    d_w: Tensor,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    """See ``Steps``: dh and ds (B, H), d_pre (B, 4H)."""
    rows, width = ds.shape
    passed = [] if real is None else [torch.empty_like(ds)]
    old_ds = torch.empty_like(ds)
    results = d_pre, other(d_w, d_pre), passed[0] if passed else None, old_ds
    given = *terms(dh, d_w.dtype), ds, theta, real, *kept, *results
    run("lstm_back", rows, parts(rows, d_pre.numel()), *given, width, d_w.dtype)
    return [matmul(d_w, w_t), *passed], old_ds
