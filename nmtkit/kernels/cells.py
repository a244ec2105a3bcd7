"""Forward and backward kernels of recurrent cells, without the product with the state. Equations are in ``ops``.

Arithmetic is in float32; x and s, the terms from the input and from the product, may be bfloat16. Backward recomputes
the gates from the arguments.

Letters: N rows, H hidden, G gates. Terms of gates and candidate are concatenated.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.kernels.arguments import CELLS, Argument, Cell
from nmtkit.kernels.library import parts, run

ROWS = {"x", "s", "h", "c", "z", "keep"}  # arguments with N rows; the others are shared by all rows


def results(name: str, *tensors: Tensor | None) -> Any:
    """The results of the cell's plain function in ``ops``, computed by its kernel: one tensor (N, H) or several.

    Without gradients, autograd is skipped, which saves 5 % of the time of greedy search.
    """
    found = _Cell.apply(name, *tensors) if torch.is_grad_enabled() else forward(name, tensors)[1]
    return found if len(found) > 1 else found[0]


def forward(name: str, tensors: Sequence[Tensor | None]) -> tuple[list[Tensor | None], tuple[Tensor, ...]]:
    """The arguments of a cell's kernel as ``_taken`` converts them, for ``backward``, and its results (N, H)."""
    cell = CELLS[name]
    taken = [None if x is None else _taken(x, kind) for x, kind in zip(tensors, cell.inputs.values(), strict=True)]
    results = tuple(torch.empty_like(cast(Tensor, taken[2])) for _ in cell.results)
    given, s = _given(cell, taken), cast(Tensor, taken[1])
    given.update(zip(cell.results, results, strict=True))
    rows = s.shape[0]  # len() of a tensor takes ten times as long
    run(name, rows, parts(rows, s.numel()), **given)
    return taken, results


def backward(name: str, taken: Sequence[Tensor | None], gradients: Sequence[Tensor]) -> list[Tensor | None]:
    """The gradients of a cell's arguments, as ``forward`` converted them, from those of its results (N, H)."""
    cell = CELLS[name]
    given, (x, s, *_) = _given(cell, taken), taken
    assert s is not None
    rows = s.shape[0]
    count, one = parts(rows, s.numel()), cell.added and x is not None and x.dtype == s.dtype
    for result, gradient in zip(cell.results, gradients, strict=True):
        given[f"d_{result}"] = gradient.contiguous()
    found: list[Tensor | None] = []
    for which, y in zip(cell.inputs, taken, strict=True):
        if y is None or which == "keep" or (one and y is x):
            found.append(None)
        elif which in ROWS and y.ndim == 2:
            found.append(torch.empty_like(y))
        else:  # summed over the rows, with a partial sum for each part
            found.append(y.new_zeros(count, *y.shape))
        if which != "keep":
            given[f"d_{which}"] = found[-1]
    run(f"{name}_back", rows, count, **given)
    if one:
        found[0] = found[1]
    of = zip(cell.inputs, found, strict=True)
    return [y if y is None or (which in ROWS and y.ndim == 2) else y.sum(0) for which, y in of]


class _Cell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        taken, results = forward(name, tensors)
        ctx.name = name
        ctx.save_for_backward(*taken)
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return None, *backward(ctx.name, ctx.saved_tensors, gradients)


def _taken(x: Tensor, kind: Argument) -> Tensor:
    """An argument in the format of the kernels. If shared by all rows, it is float32, like the sum of its gradient."""
    if x.dtype not in kind.dtypes or x.ndim == 1:
        x = x.float()
    return x if x.is_contiguous() or (kind.strided and x.stride(-1) == 1) else x.contiguous()


def _given(cell: Cell, tensors: Sequence[Tensor | None]) -> dict[str, Any]:
    """The arguments common to both kernels of a cell: its inputs, converted by ``_taken``, and sizes."""
    given: dict[str, Any] = dict(zip(cell.inputs, tensors, strict=True))
    width = cast(Tensor, tensors[2]).shape[1]
    for size in cell.sizes:
        if size == "width":
            given[size] = width
        elif size == "gates":
            given[size] = given["s"].shape[1] // width - 1
        else:  # the row stride in elements; 0 if all rows share one
            x = given[size.removesuffix("_step")]
            given[size] = 0 if x is None or x.ndim == 1 else x.stride(0)
    for name in cell.neutral:
        if given[name] is None:
            given[name] = _row(float(name == "keep"), 5 * width)
    return given


@cache
def _row(value: float, width: int) -> Tensor:
    """A constant row, in place of an optional argument."""
    return torch.full((width,), value)
