"""Kernels in C for CPUs: one pass for work between the products where PyTorch's operations take several, and products
by tiles, which some processors have (``tiles.py``).

``pip`` compiles ``kernels.c`` when nmtkit is installed if there is a C compiler. Without one everything works with the
plain operations beside each use. The rows of a kernel are shared among PyTorch's threads if its OpenMP is GCC's.
"""

import ctypes
import os
import platform
import sysconfig
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

SWITCH = "NMTKIT_KERNELS"  # off in the environment: the plain operations compute everything, to find a wrong number
VERSION = 7  # of kernels.c: a library that was compiled before the last change is not used
GRAIN = 1 << 14  # elements that are worth waking a thread up

_KINDS = {"AVX2": "avx2", "AVX512": "avx512"}  # of processors, as PyTorch names them
BOTH = (torch.float32, torch.bfloat16)  # dtypes that some kernels take


def helps(*tensors: Tensor, dtypes: Collection[torch.dtype] = (torch.float32,)) -> bool:
    """Whether the kernels are there and take these tensors, of any shapes and of one of these dtypes."""
    return _library() is not None and all(x.is_cpu and x.dtype in dtypes for x in tensors)


def remedy() -> str:
    """What is to be done where there are no kernels at all."""
    if os.environ.get(SWITCH) == "off":
        return f"{SWITCH}=off in the environment switches them off"
    if platform.machine() in ("x86_64", "AMD64") and _kind() not in _KINDS.values():
        return "they need a processor with AVX2"
    return "install nmtkit again where there is a C compiler"


def parts(rows: int, elements: int) -> int:
    """The number of parts in which so many rows, with so many elements together, are best processed in parallel."""
    return max(1, min(torch.get_num_threads(), rows, elements // GRAIN))


def taken(x: Tensor | None) -> Tensor | None:
    """x (...) as kernels take it: without gaps, in float32 unless it is bfloat16; None for none."""
    return None if x is None else (x if x.dtype in BOTH else x.float()).contiguous()


def has(name: str) -> bool:
    """Whether the kernel of this name is there: some are for a few kinds of processors."""
    library = _library()
    return library is not None and hasattr(library, f"nmtkit_{name}_{_kind()}")


def has_tiles() -> bool:
    """Whether the kernels that multiply by a processor's tiles are there and of use."""
    library = _library()
    return library is not None and _kind() == "avx512" and _may_use_tiles(library)


def run(name: str, rows: int, parts: int, *given: Tensor | int | torch.dtype | None) -> None:
    """Run a kernel on all rows, in so many parts at once.

    It is given contiguous tensors, integers and dtypes, in the order of its header; of a dtype it only learns whether
    it is low, that is bfloat16.
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


@cache
def _kernel(name: str) -> ctypes.c_void_p:
    """The address of the kernel for this kind of processor."""
    library = _library()
    assert library is not None, "helps() says whether there are kernels"
    return ctypes.cast(library[f"nmtkit_{name}_{_kind()}"], ctypes.c_void_p)


@cache
def _kind() -> str:
    return _KINDS.get(torch.backends.cpu.get_cpu_capability(), "default")


@cache
def _library() -> ctypes.CDLL | None:
    """What was compiled, if it was, from this version and for this kind of processor, unless it is switched off."""
    if os.environ.get(SWITCH) == "off":
        return None
    path = Path(__file__).with_name(f"_compiled{sysconfig.get_config_var('EXT_SUFFIX')}")
    try:
        library = ctypes.CDLL(str(path))
        fits = library.nmtkit_version() == VERSION
        library[f"nmtkit_best_{_kind()}"]
    except (OSError, AttributeError):
        return None
    library.nmtkit_run.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    library.nmtkit_run.restype = None
    _may_use_tiles(library)  # asked in every process: a weight may have been laid out in another
    return library if fits else None


def _may_use_tiles(library: ctypes.CDLL) -> bool:
    """Whether the processor has tiles, the library knows them, and Linux, which is asked for it, lets this process."""
    return hasattr(library, "nmtkit_tiles") and library.nmtkit_tiles() == 1
