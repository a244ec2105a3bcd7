"""The GRU of Cho et al. 2014 and Bahdanau et al. 2015 (A.1.1), whose reset gate is applied before the product.

    r = sigma(x_r + h U_r)
    z = sigma(x_z + h U_z)
    c = tanh(x_c + (r * h) U)
    h' = (1 - z) * h + z * c

Its second product depends on the first, so it is slower than GRUs that reset after the product.

Letters: N rows, H hidden. x holds the transformed inputs in the order r, z, c.
"""

import torch
from torch import Tensor

from nmtkit.ops.loop import advance
from nmtkit.ops.matrix import Matrix


def step(x: Tensor, h: Tensor, u_gates: Matrix, u: Matrix) -> Tensor:
    """x (N, 3H), state h (N, H), u_gates [U_r, U_z] (H, 2H), u (H, H) -> the next h (N, H)."""
    width = h.shape[-1]
    # split, because autograd pads the gradient of every slice with zeros.
    x_gates, x_candidate = x.split_with_sizes([2 * width, width], dim=-1)
    reset, z = advance("gru_gates", gates, x_gates, h, u_gates, h)
    return advance("gru_state", state, x_candidate, reset, u, h, z)


def gates(x: Tensor, s: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """r * h and z (N, H) from x and s (N, 2H), the terms of both gates from input and state, and h (N, H)."""
    r, z = (x + s.to(h.dtype)).sigmoid().chunk(2, dim=-1)
    return r * h, z


def state(x: Tensor, s: Tensor, h: Tensor, z: Tensor) -> Tensor:
    """The next h (N, H) from x and s (N, H), the terms of the candidate, h and z (N, H)."""
    return torch.lerp(h, (x + s.to(h.dtype)).tanh(), z)
