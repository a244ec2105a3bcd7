"""The LSTM with peepholes of Zhou et al. 2016, eq. 4, without an input matrix: x, the f of the paper, is transformed.

    z = tanh(x_z + s_z)
    i = sigma(x_i + s_i + theta_i * c)        input gate, rho in the paper
    g = sigma(x_g + s_g + theta_g * c)        forget gate, phi
    c' = z * i + g * c                        cell, s in the paper
    o = sigma(x_o + s_o + theta_o * c')       output gate, pi; its peephole reads the new cell
    h' = tanh(c') * o

s = h W_r is the product with the state.

Letters: N rows, H hidden. x, s and W_r have the order z, i, g, o.
"""

import torch
from torch import Tensor

from nmtkit.ops.loop import advance
from nmtkit.ops.matrix import Matrix


def step(x: Tensor, h: Tensor, c: Tensor, w_r: Matrix, peepholes: Tensor) -> tuple[Tensor, Tensor]:
    """x (N, 4H), h and cell c (N, H), w_r (H, 4H), peepholes (3, H) -> the next h and c (N, H)."""
    return advance("lstm", plain, x, h, w_r, c, peepholes)


def plain(x: Tensor, s: Tensor, c: Tensor, peepholes: Tensor) -> tuple[Tensor, Tensor]:
    """``step`` after its product, s (N, 4H): x (N, 4H), c (N, H), peepholes (3, H)."""
    theta_i, theta_g, theta_o = peepholes
    z, i, g, o = (x + s.to(c.dtype)).chunk(4, dim=-1)
    i = torch.sigmoid(i + theta_i * c)
    g = torch.sigmoid(g + theta_g * c)
    c = z.tanh() * i + g * c
    o = torch.sigmoid(o + theta_o * c)
    return c.tanh() * o, c
