"""The compiled C kernels.

``pip`` compiles ``kernels.c`` when it installs nmtkit, if there is a C compiler. Without one, the plain functions are
used. The rows of a kernel are distributed over PyTorch's threads if its OpenMP is GCC's.
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

VERSION = 12  # of kernels.c: a library compiled from another version is not used
GRAIN = 1 << 14  # elements that justify another thread

KINDS = {"AVX2": "avx2", "AVX512": "avx512"}  # kinds of processors by PyTorch's names
LOW = torch.bfloat16
BOTH = (torch.float32, LOW)  # the dtypes of most kernels


def parts(rows: int, elements: int) -> int:
    """The best number of parallel parts for ``rows`` with ``elements`` in all."""
    return max(1, min(torch.get_num_threads(), rows, elements // GRAIN))


def compiled() -> bool:
    """Whether kernels for this kind of processor were compiled, from this version of their source."""
    return _library() is not None


def has(name: str) -> bool:
    """Whether the kernel of this name was compiled and this processor supports it."""
    library = _library()
    if library is None or not hasattr(library, f"nmtkit_{name}_{kind()}"):
        return False
    return not name.startswith("tiles") or _may_use_tiles(library)


def run(name: str, rows: int, parts: int, **given: Tensor | int | None) -> None:
    """Run a kernel on all rows, in ``parts`` parallel parts, with its arguments in ``ARGUMENTS`` except flags.

    Raises TypeError for any other argument, because C would read and write at any address.
    """
    kernel, arguments, flags, pack, start = _call(name)
    if len(given) != len(arguments):
        raise TypeError(f"{name} takes {', '.join(ARGUMENTS[name])} (flags left out), not {', '.join(given)}")
    values: list[int] = []
    low: dict[str, bool] = {}
    for argument, dtypes, flag, optional, strided in arguments:
        value = given[argument]
        if isinstance(value, Tensor):
            dtype = value.dtype
            right = dtype in dtypes and value.is_cpu and (strided or value.is_contiguous())
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
    kernel: ctypes.c_void_p  # its address
    arguments: list[tuple[str, tuple[torch.dtype, ...], str, bool, bool]]  # no flags; name, then as in Argument
    flags: list[str]
    pack: Callable[..., bytes]  # packs all arguments into the struct that C reads
    start: Callable[[ctypes.c_void_p, bytes, int, int], None]


@cache
def _call(name: str) -> _Call:
    """The call of the kernel of this name, looked up once."""
    library, arguments = _library(), ARGUMENTS[name]
    assert library is not None, "kernels run only if they were compiled"
    flags = list(dict.fromkeys(argument.flag for argument in arguments.values() if argument.flag))
    others = [(argument, *kind[1:]) for argument, kind in arguments.items() if argument not in flags]
    kernel = ctypes.cast(library[f"nmtkit_{name}_{kind()}"], ctypes.c_void_p)
    return _Call(kernel, others, flags, struct.Struct(f"{len(arguments)}q").pack, library.nmtkit_run)


@cache
def kind() -> str:
    """The kind of this processor in the names of kernels: avx2, avx512 or default."""
    return KINDS.get(torch.backends.cpu.get_cpu_capability(), "default")


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled library; None if there is none of this version for this kind of processor."""
    path = Path(__file__).with_name(f"_compiled{sysconfig.get_config_var('EXT_SUFFIX')}")
    try:
        library = ctypes.CDLL(str(path))
        fits = library.nmtkit_version() == VERSION
        library[f"nmtkit_scores_{kind()}"]
    except (OSError, AttributeError):
        return None
    library.nmtkit_run.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    library.nmtkit_run.restype = None
    _may_use_tiles(library)  # asks Linux in every process, because another process may have packed a weight
    return library if fits else None


def _may_use_tiles(library: ctypes.CDLL) -> bool:
    """Whether processor and library support tiles; asks Linux to let this process use them."""
    return hasattr(library, "nmtkit_tiles") and library.nmtkit_tiles() == 1
