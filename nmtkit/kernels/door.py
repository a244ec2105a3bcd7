"""Kernel dispatch: ``kernel(name, plain, *like)``.

A kernel has the signature of a plain PyTorch function, its reference implementation. Before the first use with a dtype
the two are compared on random tensors (results, gradients, and tensors modified in place), because a compiled kernel
depends on compiler and processor. The environment variable ``NMTKIT_KERNELS`` disables kernels, to find the cause of a
wrong number: ``off`` disables all, ``scores,tiles`` these two.

On an NVIDIA GPU the kernel of a cell is its plain function compiled by ``torch.compile`` (``fused.py``), without a
comparison. Only training uses it, because compilation often takes longer than a search.
"""

import difflib
import logging
import os
import platform
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.kernels import attention, cells, library, pairs, search, tiles
from nmtkit.kernels.arguments import CELLS
from nmtkit.kernels.fused import fused

log = logging.getLogger(__name__)

SWITCH = "NMTKIT_KERNELS"
FLOAT32, BFLOAT16 = (torch.float32,), (torch.bfloat16,)
GRAPHS = "graphs"  # CUDA graphs (training/graphs.py), which the same variable disables
COMPILED = "cuda"  # the type of device for which torch.compile makes the kernels of cells

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(name: str, plain: Function, *like: Tensor) -> Function:
    """The kernel of this name for tensors like these (of any shapes), or ``plain``, its reference implementation.

    Returns ``plain`` if the kernel does not support the device, dtypes or processor, is disabled, or failed its trial.
    Raises UserError if the environment names an unknown kernel.
    """
    device, dtypes = like[0].device.type, [x.dtype for x in like]
    if device == COMPILED:
        usable = name in FUSED and torch.is_grad_enabled() and name not in switched_off()
        return cast(Function, fused(name, plain, device, *dtypes)) if usable else plain
    if device != "cpu" or name not in KERNELS:
        return plain
    return cast(Function, _choice(name, plain, *dtypes)[0])


class Kernel(NamedTuple):
    """A kernel and its trial."""

    function: Callable[..., Any]  # with the signature of the plain function
    c: tuple[str, ...]  # the C kernels that it calls
    dtypes: tuple[torch.dtype, ...]  # supported dtypes of the tensors ``like``
    arguments: Callable[[torch.dtype], tuple[Any, ...]]  # of the trial, for this dtype
    results: Callable[..., Any] = lambda function, *arguments: function(*arguments)  # compared in the trial


def _numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers with a fixed seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def _cell(name: str, *shapes: tuple[int, ...]) -> Kernel:
    """The kernel of a cell, tried on arguments of these shapes. The first two, results of products, have the dtype."""

    def arguments(dtype: torch.dtype) -> tuple[Tensor, ...]:
        dtypes = [dtype, dtype, *[torch.float32] * len(shapes[2:])]
        given = zip(CELLS[name].inputs, shapes, dtypes, strict=True)
        return tuple(_numbers(*shape, dtype=kind).requires_grad_(which != "keep") for which, shape, kind in given)

    return Kernel(partial(cells.results, name), (name, f"{name}_back"), library.BOTH, arguments)


def _product(lay_out: Callable[..., Any], rows: Tensor, *given: Any) -> Tensor:
    """The product of rows and a packed weight."""
    result: Tensor = lay_out(*given).product(rows)
    return result


N, H = 5, 70  # rows and width of a cell

KERNELS = {
    "lstm": _cell("lstm", (N, 4 * H), (N, 4 * H), (N, H), (3, H)),
    "gru_gates": _cell("gru_gates", (N, 2 * H), (N, 2 * H), (N, H)),
    "gru_state": _cell("gru_state", (N, H), (N, H), (N, H), (N, H)),
    "gated_gru": _cell("gated_gru", (N, 5 * H), (N, 4 * H), (N, H), (3, H), (3, H), (H,), (N, H)),
    "gated_lau": _cell("gated_lau", (N, 5 * H), (N, 4 * H), (N, H), (3, H), (3, H), (H,), (N, H)),
    "nematus": _cell(
        "nematus", (N, 3 * H), (N, 3 * H), (N, H), (3 * H,), (2 * H,), (2 * H,), (H,), (H,),
    ),
    "attention": Kernel(
        attention.there_and_back, ("attend", "attend_back"), library.BOTH,
        lambda dtype: (
            _numbers(3, 70, dtype=dtype), _numbers(3, 5, 70, dtype=dtype), _numbers(3, 5, 66, dtype=dtype),
            _numbers(70), torch.arange(5) < torch.tensor([[5], [3], [1]]), _numbers(3, 66, dtype=dtype),
        ),
    ),
    "log_softmax": Kernel(
        search.log_softmax, ("log_softmax",), library.BOTH, lambda dtype: (_numbers(3, 200, dtype=dtype),)
    ),
    "best_log_softmax": Kernel(
        search.best_log_softmax, ("best_log_softmax",), library.BOTH,
        # Multiples of 1/16, all different in bfloat16.
        lambda dtype: (_numbers(3, 200).argsort(dim=1).to(dtype) / 16, 5, 2),
    ),
    "scores": Kernel(
        search.scores, ("scores",), FLOAT32,
        lambda _: (_numbers(2, 3, 70).exp(), _numbers(2, 5, 70).exp(), _numbers(70).exp()),
    ),
    "weighted": Kernel(
        search.weighted, ("weighted",), BFLOAT16, lambda dtype: (_numbers(2, 3, 5), _numbers(2, 5, 70, dtype=dtype))
    ),
    "quantise": Kernel(
        search.quantise, ("quantise",), library.BOTH, lambda dtype: (_numbers(3, 70, dtype=dtype), pairs.MAX_INTEGER)
    ),
    "dequantise": Kernel(
        search.dequantise, ("dequantise",), library.BOTH,
        lambda dtype: (_numbers(4, 70), _numbers(4, 1), _numbers(70), torch.zeros(3, 70, dtype=dtype)),
    ),
    "pairs": Kernel(
        pairs.lay_out, ("pairs_multiply",), library.BOTH,
        lambda dtype: (_numbers(9, 64), _numbers(64, 40, dtype=dtype), _numbers(40), torch.float32), _product,
    ),
    "tiles": Kernel(
        tiles.lay_out, ("tiles_lay_out", "tiles_multiply"), library.BOTH,
        lambda dtype: (_numbers(40, 64), _numbers(64, 40, dtype=dtype), _numbers(40), torch.float32), _product,
    ),
}  # fmt: skip

FUSED = (*CELLS, "keep")  # on a GPU: cells, and the choice between new and old states


@cache
def switched_off() -> frozenset[str]:
    """The kernels, or "graphs", that the environment disables. Raises UserError for an unknown name."""
    value, known = os.environ.get(SWITCH, ""), [*dict.fromkeys([*KERNELS, *FUSED, GRAPHS])]
    if value == "off":
        return frozenset(known)
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, "off"], n=1)
            hint = f"did you mean {near[0]}?" if near else f"off, or some of {', '.join(known)}"
            raise UserError(f"{SWITCH}={value}: no kernel is called {name}; {hint}")
    return frozenset(names)


@cache
def _choice(name: str, plain: Callable[..., Any], *dtypes: torch.dtype) -> tuple[Callable[..., Any], str]:
    """The kernel in C for these dtypes, or the plain function and why it is used instead."""
    found = KERNELS[name]
    if name in switched_off():
        return plain, f"switched off by {SWITCH}"
    if not library.compiled():
        return plain, "not compiled"
    if not all(map(library.has, found.c)):
        return plain, "only for other processors"
    if not all(dtype in found.dtypes for dtype in dtypes):
        return plain, "no support for this dtype"
    try:
        # The first use may be in search, where gradients are off, or under autocast.
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            _compare(found, plain, dtypes[0])
    except Exception as error:  # a broken kernel may raise anything, and the plain function still works
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _warn(f"kernel {name} failed its trial, so plain operations are used ({reason})")
        return plain, "failed"
    return found.function, ""


@cache
def _warn(line: str) -> None:
    """Log a warning once, even if a kernel fails with several dtypes."""
    log.warning(line)


def _compare(found: Kernel, plain: Callable[..., Any], dtype: torch.dtype) -> None:
    """Raise ArithmeticError if a kernel disagrees with the plain function."""
    ours, theirs = (_outcome(found, function, dtype) for function in (found.function, plain))
    for one, other in zip(ours, theirs, strict=True):
        # Indices must be equal; the rest may differ by rounding error, which is large in bfloat16.
        near = 0 if one.dtype == torch.int64 else 0.05 * other.double().abs().max().item()
        if one.shape != other.shape or not torch.allclose(one.double(), other.double(), rtol=0, atol=near):
            raise ArithmeticError("the results differ")


def _outcome(found: Kernel, function: Callable[..., Any], dtype: torch.dtype) -> list[Tensor]:
    """The results of a function, the gradients of its arguments, and its tensor arguments after the call."""
    given = found.arguments(dtype)
    arguments = [x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in given]
    results = found.results(function, *arguments)
    results = [results] if isinstance(results, Tensor) else list(results or [])
    tensors = [x for x in arguments if isinstance(x, Tensor)]
    leaves = [x for x in tensors if x.requires_grad]
    # The gradient of each result is its value. Given as such, PyTorch would import SymPy, for half a second.
    gradients = torch.autograd.grad(sum((x * x.detach()).sum() for x in results), leaves) if leaves else ()
    return [x.detach() for x in (*results, *gradients, *tensors)]


def report(plain: Mapping[str, Callable[..., Any]], device: str) -> str:
    """One line on which kernels are used on this device, and why others are not.

    On a CPU this tries every kernel against ``plain``. On a GPU it does not, because compilation is slow.
    """
    if device != "cpu":
        off = [name for name in [*FUSED, GRAPHS] if name in switched_off()]
        on = [name for name in FUSED if device == COMPILED and name not in off]
        graphs = "; CUDA graphs in training" if device == COMPILED and GRAPHS not in off else ""
        switched = f"; switched off by {SWITCH}: {', '.join(off)}" if off else ""
        return f"kernels by torch.compile: {', '.join(on or ['none'])}{graphs}{switched}"
    states: dict[str, list[str]] = {}
    for name, found in KERNELS.items():
        reasons = [_choice(name, plain[name], dtype)[1] for dtype in found.dtypes]
        states.setdefault(max(reasons), []).append(name)
    if "not compiled" in states:
        return f"no C kernels, so training and search are slower: {_remedy()}"
    used = ", ".join(states.pop("", ["none"]))
    return "; ".join([f"kernels in C: {used}", *(f"{reason}: {', '.join(names)}" for reason, names in states.items())])


def _remedy() -> str:
    """The remedy if no kernels were compiled."""
    if platform.machine() in ("x86_64", "AMD64") and library.kind() not in library.KINDS.values():
        return "they need a processor with AVX2"
    return "install nmtkit again where there is a C compiler"
