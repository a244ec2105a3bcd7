"""Maxout over pairs (Goodfellow et al. 2013), as Bahdanau et al. 2015 have it in the output layer (A.2.2).

PyTorch's maximum over a dimension of two is slow on a processor, and its backward is slower: ``kernels/maxout.py``.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import library
from nmtkit.kernels import maxout as native


def maxout(x: Tensor) -> Tensor:
    """The greater of each two neighbours of x (..., 2L) -> (..., L); two equal ones share the gradient."""
    if library.helps(x, dtypes=library.BOTH):
        result: Tensor = _Maxout.apply(x.contiguous())
    else:
        result = x.unflatten(-1, (-1, 2)).amax(dim=-1)
    return result


class _Maxout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return native.forward(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return native.backward(x, gradient.contiguous())
