"""Maxout over pairs (Goodfellow et al. 2013), as in the output layer of Bahdanau et al. 2015 (A.2.2)."""

from torch import Tensor


def maxout(x: Tensor) -> Tensor:
    """The maximum of each pair of neighbours of x (..., 2L) -> (..., L); equal ones share the gradient."""
    result: Tensor = x.unflatten(-1, (-1, 2)).amax(dim=-1)
    return result
