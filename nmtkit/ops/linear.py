"""Products of whole sequences in bfloat16 on a CPU, with rows padded to a multiple of a block size.

oneDNN, PyTorch's backend there, generates code for every shape of a product. That takes 1 to 3 ms, often longer than
the product itself, and batches rarely have the same number of words. Padding with rows of zeros does not change the
results. The kernel for AMX tiles (``kernels/tiles.py``) takes any number of rows; the gradient of a weight, a sum over
rows, is always computed by oneDNN.

Letters: R rows, P padded rows, D inputs, E outputs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from nmtkit.ops.bfloat16 import tiled

FEW = 128  # rows: the most in a step of a loop, one per sentence; its shape is the same in all steps
BLOCK = 512  # rows: larger blocks are no faster with AMX


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., D) times weight (E, D) transposed, plus bias (E,) -> (..., E), in autocast's dtype where that is on."""
    rows = x.numel() // max(1, x.shape[-1])
    if rows > FEW and x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        result: Tensor = _Linear.apply(x, weight, bias)
        return result
    return functional.linear(x, weight, bias)


def with_zeros(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x (R, D) in ``dtype``, padded with rows of zeros where oneDNN would sum over the rows: (P, D)."""
    rows = len(x)
    return extended(x, -rows % (FEW if rows <= BLOCK else 2 * FEW) if _matters(dtype, x.device, rows) else 0, dtype)


def extended(x: Tensor, missing: int, dtype: torch.dtype) -> Tensor:
    """x (R, D) in ``dtype``, followed by ``missing`` rows of zeros: (R + missing, D)."""
    if not missing:
        return x.to(dtype)
    result = x.new_empty(len(x) + missing, x.shape[1], dtype=dtype)
    result[: len(x)] = x  # converted as it is copied
    result[len(x) :] = 0
    return result


def times(x: Tensor, weight: Tensor, rows: int, bias: Tensor | None = None) -> Tensor:
    """The first R = ``rows`` rows of x (P, D), the others being zeros, times weight (D, E), plus bias (E,).

    All are of one dtype; the result is (R, E). Not differentiable.
    """
    if not _matters(x.dtype, x.device, rows):
        return x[:rows] @ weight if bias is None else torch.addmm(bias, x[:rows], weight)
    result = x.new_empty(rows + -rows % FEW, weight.shape[1])
    for part, place in zip(x[: len(result)].split(BLOCK), result.split(BLOCK), strict=True):
        if bias is None:
            torch.mm(part, weight, out=place)
        else:
            torch.addmm(bias, part, weight, out=place)
    return result[:rows]


def _product(x: Tensor, weight: Tensor, rows: int, bias: Tensor | None = None) -> Tensor:
    """``times`` in the dtype of x; weight (D, E) and bias (E,) may have another. Uses AMX tiles where there are any."""
    if x.dtype == torch.bfloat16 and (laid_out := tiled(weight, bias, x.dtype)):
        return laid_out.product(x[:rows])
    return times(x, weight.to(x.dtype), rows, None if bias is None else bias.to(x.dtype))


def _matters(dtype: torch.dtype, device: torch.device, rows: int) -> bool:
    """Whether oneDNN multiplies these rows, and there are more rows than in a step of a loop (``FEW``)."""
    return dtype == torch.bfloat16 and device.type == "cpu" and rows > FEW


class _Linear(torch.autograd.Function):
    """``linear`` in autocast's dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        low = torch.get_autocast_dtype("cpu")
        flat = x.reshape(-1, x.shape[-1])
        rows = with_zeros(flat, low)
        ctx.save_for_backward(rows, weight)
        ctx.of_x = x.dtype
        return _product(rows, weight.t(), len(flat), bias).view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        rows, weight = ctx.saved_tensors
        flat = gradient.reshape(-1, len(weight))
        d_result = with_zeros(flat, rows.dtype)
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            dx = _product(d_result, weight, len(flat)).view(*gradient.shape[:-1], -1).to(ctx.of_x)
        if ctx.needs_input_grad[1]:
            dw = (d_result.t() @ rows).to(weight.dtype)
        if ctx.needs_input_grad[2]:
            # Accumulated in float32 and rounded once. With dtype=float32, PyTorch would first convert the tensor.
            db = d_result.sum(dim=0).to(weight.dtype)
        return dx, dw, db
