"""The kernels in C as they were compiled, and how one is run.

``pip`` compiles ``kernels.c`` when nmtkit is installed if there is a C compiler. Without one everything works with the
plain functions beside each use. The rows of a kernel are shared among PyTorch's threads if its OpenMP is GCC's.
"""

import ctypes
import struct
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.kernels.arguments import ARGUMENTS

VERSION = 10  # of kernels.c: a library that was compiled before the last change is not used
GRAIN = 1 << 14  # elements that are worth waking a thread up

KINDS = {"AVX2": "avx2", "AVX512": "avx512"}  # of processors, as PyTorch names them
LOW = torch.bfloat16
BOTH = (torch.float32, LOW)  # dtypes that some kernels take


def parts(rows: int, elements: int) -> int:
    """The number of parts in which so many rows, with so many elements together, are best processed in parallel."""
    return max(1, min(torch.get_num_threads(), rows, elements // GRAIN))


def compiled() -> bool:
    """Whether there are kernels for this kind of processor, compiled from this version of their source."""
    return _library() is not None


def has(name: str) -> bool:
    """Whether the kernel of this name was compiled and this processor runs it: some need more than its kind."""
    library = _library()
    if library is None or not hasattr(library, f"nmtkit_{name}_{kind()}"):
        return False
    return not name.startswith("tiles") or _may_use_tiles(library)


def run(name: str, rows: int, parts: int, **given: Tensor | int | None) -> None:
    """Run a kernel on all rows, in so many parts at once, with the arguments that ``ARGUMENTS`` says, but flags.

    Raises TypeError for any other: C would read and write wherever it is told.
    """
    kernel, arguments, flags, pack, start = _call(name)
    if len(given) != len(arguments):
        raise TypeError(f"{name} takes {', '.join(ARGUMENTS[name])} (flags are not given), not {', '.join(given)}")
    values: list[int] = []
    low: dict[str, bool] = {}
    for argument, dtypes, flag, optional, gaps in arguments:
        value = given[argument]
        if isinstance(value, Tensor):
            dtype = value.dtype
            right = dtype in dtypes and value.is_cpu and (gaps or value.is_contiguous())
            if not right or (flag and low.setdefault(flag, dtype is LOW) is not (dtype is LOW)):
                raise TypeError(f"{name} does not take {argument} in {dtype}, strides {value.stride()}, {value.device}")
            values.append(value.data_ptr())
        elif optional if value is None else not dtypes:
            values.append(value or 0)
        else:
            raise TypeError(f"{name} does not take {value} as {argument}")
    for flag in flags:
        values.append(low.get(flag, 0))
    start(kernel, pack(*values), rows, parts)


class _Call(NamedTuple):
    kernel: ctypes.c_void_p  # its address, for this kind of processor
    arguments: list[tuple[str, tuple[torch.dtype, ...], str, bool, bool]]  # but flags: the name, then as in Argument
    flags: list[str]
    pack: Callable[..., bytes]  # makes of all arguments the struct that C takes
    start: Callable[[ctypes.c_void_p, bytes, int, int], None]


@cache
def _call(name: str) -> _Call:
    """How the kernel of this name is called."""
    library, arguments = _library(), ARGUMENTS[name]
    assert library is not None, "kernels are run if they were compiled"
    flags = list(dict.fromkeys(argument.flag for argument in arguments.values() if argument.flag))
    others = [(argument, *kind[1:]) for argument, kind in arguments.items() if argument not in flags]
    kernel = ctypes.cast(library[f"nmtkit_{name}_{kind()}"], ctypes.c_void_p)
    return _Call(kernel, others, flags, struct.Struct(f"{len(arguments)}q").pack, library.nmtkit_run)


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
