"""Maxout over pairs (Goodfellow et al. 2013), as Bahdanau et al. 2015 have it in the output layer (A.2.2)."""

from torch import Tensor


def maxout(x: Tensor) -> Tensor:
    """The greater of each two neighbours of x (..., 2L) -> (..., L); two equal ones share the gradient."""
    result: Tensor = x.unflatten(-1, (-1, 2)).amax(dim=-1)
    return result
