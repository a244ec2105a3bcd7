"""Products of whole sequences in bfloat16 on a CPU, with few different numbers of rows.

oneDNN, which multiplies for PyTorch there, compiles a program for every shape of a product. That takes 1 to 3 ms, often
longer than the product itself, and hardly two batches have the same number of words. So rows of zeros are added until
the number of rows is a common one; they only affect the time. A processor's tiles (``kernels/tiles.py``) take any
number of rows; the gradient of a weight, a sum over rows, is always computed by oneDNN.

Letters: R rows, P rows together with those of zeros, D inputs, E outputs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from nmtkit.ops.bfloat16 import tiled

FEW = 128  # rows: up to so many sentences make a batch, and the steps of a loop repeat products of that shape
BLOCK = 512  # rows: AMX is as fast with so many as with more


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., D) times weight (E, D) transposed, plus bias (E,) -> (..., E), in autocast's dtype where that is on."""
    rows = x.numel() // max(1, x.shape[-1])
    if rows > FEW and x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        result: Tensor = _Linear.apply(x, weight, bias)
        return result
    return functional.linear(x, weight, bias)


def with_zeros(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x (R, D) in ``dtype``, and rows of zeros below it where that gives products with a sum over rows a usual shape.

    The result is (P, D).
    """
    rows = len(x)
    return extended(x, -rows % (FEW if rows <= BLOCK else 2 * FEW) if _matters(dtype, x.device, rows) else 0, dtype)


def extended(x: Tensor, missing: int, dtype: torch.dtype) -> Tensor:
    """x (R, D) in ``dtype`` with so many rows of zeros below it: (R + missing, D)."""
    if not missing:
        return x.to(dtype)
    result = x.new_empty(len(x) + missing, x.shape[1], dtype=dtype)
    result[: len(x)] = x  # converted as it is copied
    result[len(x) :] = 0
    return result


def times(x: Tensor, weight: Tensor, rows: int, bias: Tensor | None = None) -> Tensor:
    """The first ``rows`` R of x (P, D), which is followed by zeros if longer, times weight (D, E), plus bias (E,).

    All are of one dtype; the result is (R, E). Autograd does not see this operation.
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
    """``times`` in the dtype of x, whatever those of weight (D, E) and bias (E,); by tiles where there are any."""
    if x.dtype == torch.bfloat16 and (laid_out := tiled(weight, bias)):
        return laid_out.product(x[:rows])
    return times(x, weight.to(x.dtype), rows, None if bias is None else bias.to(x.dtype))


def _matters(dtype: torch.dtype, device: torch.device, rows: int) -> bool:
    """Whether oneDNN multiplies these rows, and they are more than a step of a loop has (``FEW``)."""
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
            # Added up in float32 and rounded once. Asked for float32, PyTorch would first convert all of it.
            db = d_result.sum(dim=0).to(weight.dtype)
        return dx, dw, db
