"""Dropout, faster than PyTorch's on a CPU."""

import torch
from torch import Tensor
from torch.nn import functional


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """x (...) with each element zero with probability p and the others scaled to keep the mean; x itself in search.

    On a CPU, PyTorch's dropout, which samples a number for every element, takes eight times as long.
    """
    if not training or not p:
        return x
    return functional.dropout(x, p) if x.is_cuda else x * dropout_mask(x, p)


def dropout_mask(like: Tensor, dropout: float) -> Tensor:
    """The dropout factors of a tensor like ``like`` (...): 0 with this probability, else a factor that keeps the mean.

    On a CPU, each random 64-bit number decides four elements, with 16 bits each.
    """
    if like.is_cuda:
        return functional.dropout(like.new_ones(()).expand(like.shape), dropout)
    drawn = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    # Sampling is the slow part. A probability in steps of 2^-16 is exact enough, and the mean is kept exactly.
    zeros = min(round(dropout * 2**16), 2**16 - 1)  # of the 2^16 values
    sixteen = drawn.view(torch.int16)[: like.numel()].view(like.shape)
    mask = torch.ge(sixteen, zeros - 2**15, out=torch.empty(like.shape, dtype=like.dtype, device=like.device))
    return mask.mul_(2**16 / (2**16 - zeros))
