"""Sinusoidal position embeddings."""

import torch
from torch import Tensor


def sinusoid(positions: Tensor, width: int, *, formula: bool) -> Tensor:
    """Vectors (..., width) for positions (...) counted from 0: sines in the first half, cosines in the second.

    Vaswani et al. 2017, section 3.5, arranged as in their code: the wavelengths go from 2 pi to exactly
    10000 * 2 pi, so that the frequency of pair i is 10000^(-i / (width / 2 - 1)). With ``formula`` it is the one in
    print, 10000^(-i / (width / 2)).
    """
    half = width // 2
    exponent = torch.arange(half, device=positions.device) / (half if formula else max(half - 1, 1))
    angle = positions.unsqueeze(-1) * torch.pow(10000.0, -exponent)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)
