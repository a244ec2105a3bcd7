"""The kernels in C as they were compiled, and how one is run.

``pip`` compiles ``kernels.c`` when nmtkit is installed if there is a C compiler. Without one everything works with the
plain functions beside each use. The rows of a kernel are shared among PyTorch's threads if its OpenMP is GCC's.
"""

import ctypes
import os
import sysconfig
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmtkit.kernels.arguments import ARGUMENTS, Argument

VERSION = 8  # of kernels.c: a library that was compiled before the last change is not used
GRAIN = 1 << 14  # elements that are worth waking a thread up

KINDS = {"AVX2": "avx2", "AVX512": "avx512"}  # of processors, as PyTorch names them
BOTH = (torch.float32, torch.bfloat16)  # dtypes that some kernels take


def parts(rows: int, elements: int) -> int:
    """The number of parts in which so many rows, with so many elements together, are best processed in parallel."""
    return max(1, min(torch.get_num_threads(), rows, elements // GRAIN))


def taken(x: Tensor | None) -> Tensor | None:
    """x (...) as kernels take it: without gaps, in float32 unless it is bfloat16; None for none."""
    return None if x is None else (x if x.dtype in BOTH else x.float()).contiguous()


def compiled() -> bool:
    """Whether there are kernels for this kind of processor, compiled from this version of their source."""
    return _library() is not None


def has(name: str) -> bool:
    """Whether the kernel of this name was compiled and this processor runs it: some need more than its kind."""
    library = _library()
    if library is None or not hasattr(library, f"nmtkit_{name}_{kind()}"):
        return False
    return not name.startswith("tiles") or _may_use_tiles(library)


def run(name: str, rows: int, parts: int, *by_number: object, **given: Tensor | int | None) -> None:
    """Run a kernel on all rows, in so many parts at once, with the arguments that ``ARGUMENTS`` says, but flags.

    Raises TypeError for any other: C would read and write wherever it is told.
    """
    if by_number:
        return _run_by_number(name, rows, parts, *by_number)
    kernel, arguments, flags, places = _call(name)
    if len(given) != len(arguments):
        raise TypeError(f"{name} takes {', '.join(dict(arguments))}, not {', '.join(given)}")
    values: list[int] = []
    low: dict[str, bool] = {}
    for argument, (_, dtypes, flag, optional, gaps) in arguments:
        value = given[argument]
        if isinstance(value, Tensor):
            dtype = value.dtype
            is_low = dtype == torch.bfloat16
            right = dtype in dtypes and value.is_cpu and (gaps or value.is_contiguous())
            if not right or (flag and low.setdefault(flag, is_low) != is_low):
                raise TypeError(f"{name} does not take {argument} in {dtype}, strides {value.stride()}, {value.device}")
            values.append(value.data_ptr())
        elif optional if value is None else not dtypes:
            values.append(value or 0)
        else:
            raise TypeError(f"{name} does not take {value} as {argument}")
    library = _library()
    assert library is not None, "kernels are run if they were compiled"
    library.nmtkit_run(kernel, places(*values, *(low.get(flag, 0) for flag in flags)), rows, parts)


class _Call(NamedTuple):
    kernel: ctypes.c_void_p  # its address, for this kind of processor
    arguments: list[tuple[str, Argument]]  # but flags
    flags: list[str]
    places: type[ctypes.Array[ctypes.c_int64]]


@cache
def _call(name: str) -> _Call:
    """How the kernel of this name is called."""
    arguments = ARGUMENTS[name]
    flags = list(dict.fromkeys(argument.flag for argument in arguments.values() if argument.flag))
    others = [(argument, kind) for argument, kind in arguments.items() if argument not in flags]
    return _Call(_kernel(name), others, flags, ctypes.c_int64 * len(arguments))


@cache
def _kernel(name: str) -> ctypes.c_void_p:
    library = _library()
    assert library is not None, "kernels are run if they were compiled"
    return ctypes.cast(library[f"nmtkit_{name}_{kind()}"], ctypes.c_void_p)


@cache
def kind() -> str:
    """The kind of this processor, as the names of kernels have it: avx2, avx512 or default."""
    return KINDS.get(torch.backends.cpu.get_cpu_capability(), "default")


@cache
def _library() -> ctypes.CDLL | None:
    """What was compiled, if it was, from this version and for this kind of processor."""
    path = Path(__file__).with_name(f"_compiled{sysconfig.get_config_var('EXT_SUFFIX')}")
    try:
        library = ctypes.CDLL(str(path))
        fits = library.nmtkit_version() == VERSION
        library[f"nmtkit_best_{kind()}"]
    except (OSError, AttributeError):
        return None
    library.nmtkit_run.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    library.nmtkit_run.restype = None
    _may_use_tiles(library)  # asked in every process: a weight may have been laid out in another
    return library if fits else None


def _may_use_tiles(library: ctypes.CDLL) -> bool:
    """Whether the processor has tiles, the library knows them, and Linux, which is asked for it, lets this process."""
    return hasattr(library, "nmtkit_tiles") and library.nmtkit_tiles() == 1


# What the cells' kernels still use, whose arguments go by number.


def helps(*tensors: Tensor, dtypes: Collection[torch.dtype] = (torch.float32,)) -> bool:
    """Whether the kernels are there and take these tensors, of any shapes and of one of these dtypes."""
    if os.environ.get("NMTKIT_KERNELS") == "off" or not compiled():
        return False
    return all(x.is_cpu and x.dtype in dtypes for x in tensors)


def _run_by_number(name: str, rows: int, parts: int, *given: Any) -> None:
    """Run a kernel that takes contiguous tensors, integers and dtypes in the order of its header.

    Of a dtype it only learns whether it is low, that is bfloat16.
    """
    library = _library()
    assert library is not None, "helps() says whether there are kernels"
    library.nmtkit_run(_kernel(name), (ctypes.c_int64 * len(given))(*map(_integer, given)), rows, parts)


def _integer(given: Tensor | int | torch.dtype | None) -> int:
    """The argument as C takes it: an address, an integer, or whether the dtype is low."""
    if isinstance(given, Tensor):
        return given.data_ptr()
    return int(given == torch.bfloat16) if isinstance(given, torch.dtype) else given or 0


def terms(gradients: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor | None]:
    """One to three terms (...) of a sum as kernels take them: one in float32 and two in ``dtype``, each may be None."""
    ordered = sorted(gradients, key=lambda x: x.dtype != torch.float32)
    first = ordered.pop(0) if ordered[0].dtype == torch.float32 else None
    return [first, *(x.to(dtype) for x in ordered), *[None] * (2 - len(ordered))]
