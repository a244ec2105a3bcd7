"""The GRU of Cho et al. 2014 and Bahdanau et al. 2015 (A.1.1), whose reset gate is applied before the product.

    r = sigma(x_r + h U_r)
    z = sigma(x_z + h U_z)
    c = tanh(x_c + (r * h) U)
    h' = (1 - z) * h + z * c

Its second product depends on the first, so it is slower than GRUs that reset after the product.

Letters: N rows, H hidden. x holds the transformed inputs in the order r, z, c.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels import cells
from nmtkit.kernels.door import KERNELS, kernel
from nmtkit.ops.loop import Shared, advance
from nmtkit.ops.matrix import Matrix, product


def step(x: Tensor, h: Tensor, u_gates: Matrix, u: Matrix) -> Tensor:
    """x (N, 3H), state h (N, H), u_gates [U_r, U_z] (H, 2H), u (H, H) -> the next h (N, H)."""
    if (
        isinstance(u_gates, Shared)
        and isinstance(u, Shared)
        and kernel("gru_state", state, x, u.value) is KERNELS["gru_state"].function
    ):
        new: Tensor = _Step.apply(x, h, u_gates, u)
        return new
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


class _Step(torch.autograd.Function):
    """``step`` by kernels as one autograd operation: in a small cell, an operation costs as much as its arithmetic."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, u_gates: Shared, u: Shared) -> Tensor:
        x_gates, x_candidate = x.tensor_split([2 * h.shape[1]], dim=1)
        low = h.to(u.value.dtype)
        of_gates, (reset, z) = cells.forward("gru_gates", (x_gates, product(low, u_gates.matrix()), h))
        reset = reset.to(low.dtype)
        of_state, (new,) = cells.forward("gru_state", (x_candidate, product(reset, u.matrix()), h, z))
        ctx.save_for_backward(low, reset, *of_gates, *of_state)
        ctx.weights = u_gates, u
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        low, reset, *taken = ctx.saved_tensors
        u_gates, u = ctx.weights
        d_x, d_s, d_h, d_z = (y for y in cells.backward("gru_state", taken[3:], [gradient]) if y is not None)
        u.note(reset, d_s)
        d_reset = product(d_s, u.matrix(transposed=True)).float()
        of_gates = cells.backward("gru_gates", taken[:3], [d_reset, d_z])
        d_x_gates, d_s, d_h_gates = (y for y in of_gates if y is not None)
        u_gates.note(low, d_s)
        d_h = d_h.add_(d_h_gates).add_(product(d_s, u_gates.matrix(transposed=True)))
        return torch.cat([d_x_gates, d_x], dim=1), d_h, None, None
