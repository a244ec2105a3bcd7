"""The LAU's steps for a processor, the twin of ``ops/lau.py``'s ``Plain``: a product and a kernel each."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run, terms
from nmtkit.ops.lau import Gradients, Kept, State
from nmtkit.ops.matrix import Matrix
from nmtkit.ops.recurrence import matmul, other


def forward(old: State, u: Matrix, real: Tensor | None, kept: Kept, new: State) -> None:
    """See ``Steps``: u (H, 4H)."""
    (rows, width), product = old.h.shape, matmul(old.h_w, u)
    given = product, old.h, real, kept.linear, kept.gates, kept.candidate, new.h, other(new.h_w, new.h)
    run("lau", rows, parts(rows, product.numel()), *given, width, product.dtype)


def backward(
    dh: Sequence[Tensor], u_t: Matrix, real: Tensor | None, kept: Kept, h: Tensor, out: Gradients
) -> list[Tensor]:
    """See ``Steps``: dh and h (B, H)."""
    (rows, width), stays = h.shape, torch.empty_like(h)
    results = out.candidate, out.x, other(out.w, out.x), stays
    given = *terms(dh, out.w.dtype), real, kept.linear, kept.gates, kept.candidate, h, *results
    run("lau_back", rows, parts(rows, out.x.numel()), *given, width, out.w.dtype)
    return [stays, matmul(out.w, u_t)]
