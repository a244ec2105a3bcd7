"""A plain function of tensors fused into one kernel by ``torch.compile``: Triton on a GPU, C++ on a CPU.

Backward recomputes the function from its arguments, like the C kernels.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

log = logging.getLogger(__name__)


@cache
def fused(name: str, plain: Callable[..., Any], device: str, *_: torch.dtype) -> Callable[..., Any]:
    """The same function on this type of device for arguments of these dtypes, compiled at its first use for all shapes.

    It is recompiled when an argument is None, or has another dtype, a single row, or another memory layout. Arguments
    are float tensors or None; results are one or more tensors. The first call takes two more seconds for imports. If it
    cannot be compiled, the function itself is used, and a warning says so.
    """
    backward = _backward(plain)
    compiled = {function: torch.compile(_own(function), dynamic=True) for function in (plain, backward)}

    def run(function: Callable[..., Any], *given: Any) -> Any:
        # These functions do not need autocast, and would be compiled again with it.
        with torch.autocast(device, enabled=False):
            if compiled:
                try:
                    return compiled[function](*given)
                except torch.OutOfMemoryError:
                    raise
                except Exception as error:  # a compiler may raise anything
                    compiled.clear()
                    reason = f"{type(error).__name__}: {error}".splitlines()[0]
                    log.warning("%s cannot be compiled, so plain operations are used (%s)", name, reason)
            return function(*given)

    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor | None) -> Any:
            ctx.save_for_backward(*tensors)
            return run(plain, *_bare(tensors))

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
            tensors = ctx.saved_tensors
            found = iter(run(backward, _bare(tensors), tuple(x.contiguous() for x in gradients)))
            return tuple(None if x is None else next(found) for x in tensors)

    return Fused.apply


def _backward(plain: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    """The vector-Jacobian product of the function, from its tensors and the gradients of its results."""

    def back(tensors: Sequence[Tensor | None], gradients: Sequence[Tensor]) -> Any:
        def of(*given: Tensor) -> Any:
            left = iter(given)
            return plain(*(None if x is None else next(left) for x in tensors))

        pull = torch.func.vjp(of, *(x for x in tensors if x is not None))[1]
        return pull(gradients[0] if len(gradients) == 1 else gradients)

    return back


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy, because PyTorch compiles the same code object eight times at most and then falls back to eager."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(), function.__globals__, closure=function.__closure__)


def _bare(tensors: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """The tensors detached from their bases: PyTorch would recompile for each shape of a view's base."""
    return tuple(None if x is None else x.detach() for x in tensors)
