"""Free memory, recovery from out-of-memory errors, and limits of allocators and caches."""

import ctypes
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from nmtkit.errors import UserError
from nmtkit.machine import cgroup

# Messages of CPU allocators, cuBLAS, CUDA's driver and oneDNN, and for sizes beyond 64 bits; only PyTorch's allocator
# for GPUs has an exception.
_SIGNS = ("can't allocate memory", "not enough memory", "ALLOC_FAILED", "CUDA error: out of memory",
          "could not create a memory", "overflowed with")  # fmt: skip

_MEMINFO = Path("/proc/meminfo")  # Linux only
_LIMIT = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")  # control groups, version 1

# mallopt(3): allocations above the first threshold are mapped separately; free memory above the second is returned.
_MMAP_THRESHOLD, _LARGEST_THRESHOLD = -3, 2**25
_TRIM_THRESHOLD, _ANY_AMOUNT = -1, 2**31 - 1


B = TypeVar("B", list[int], npt.NDArray[np.int64])  # the indices of a batch


def is_full(error: BaseException) -> bool:
    """True if ``error`` is an out-of-memory error of a GPU or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


class Attempt:
    """A context manager that catches out-of-memory errors; ``failed`` is True if there was one."""

    failed = False

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        self.failed = error is not None and is_full(error)
        return self.failed


def in_halves(batches: Iterable[B], too_large: Callable[[B], str]) -> Iterator[tuple[B, Attempt]]:
    """Each batch with an ``Attempt`` for its work; a batch that does not fit into memory is repeated in halves.

        for batch, attempt in in_halves(batches, too_large):
            with attempt:
                ...

    Raises UserError with the message ``too_large(row)`` if a single row does not fit.
    """
    for batch in batches:
        stack = [batch]
        while stack:
            rows, attempt = stack.pop(), Attempt()
            yield rows, attempt
            if attempt.failed:
                if len(rows) == 1:
                    raise UserError(too_large(rows))
                half = len(rows) // 2
                stack += [rows[half:], rows[:half]]


def free_memory(device: torch.device) -> int:
    """The free memory of a device in bytes; on a CPU MemAvailable of Linux, elsewhere all installed memory."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = re.search(r"MemAvailable: *(\d+) kB", _MEMINFO.read_text("utf-8") if _MEMINFO.exists() else "")
    return min(int(available[1]) << 10, installed_memory()) if available else installed_memory()


def installed_memory() -> int:
    """The memory of the machine in bytes, or the limit of container or job; ``sys.maxsize`` if neither is known."""
    found = [*cgroup.limits("memory.max"), *([_LIMIT.read_text("utf-8").strip()] if _LIMIT.exists() else ())]
    sizes = [int(size) for size in found if size.isdigit()]
    if hasattr(os, "sysconf"):  # not on Windows
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(sizes, default=sys.maxsize)


def keep() -> None:
    """With glibc, keep freed memory in this process and its forks instead of returning it to the system.

    Every step of search allocates a few megabytes, and mapping new pages takes longer than a small product.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, _ANY_AMOUNT)


def bound_caches() -> None:
    """Limit the caches of PyTorch's libraries and allow huge pages; call it before the first tensor.

    oneDNN compiles a kernel of one or two megabytes for each shape of a bfloat16 product and keeps up to 1,024 in each
    of two caches, but batches rarely have equal shapes. 128 are enough for one update, and memory stays constant. Huge
    pages for tensors of at least 2 MB reduce page faults and TLB misses. Values set by the user are kept.
    """
    of_user = os.environ.get("DNNL_PRIMITIVE_CACHE_CAPACITY", "128")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", of_user)
    os.environ.setdefault("LRU_CACHE_CAPACITY", "128")
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
