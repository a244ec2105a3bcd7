"""How much memory is left, reusing what was freed, and recognising the errors that PyTorch raises for want of it."""

import ctypes
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from nmtkit.errors import UserError

# In the messages of the CPU's allocators, of cuBLAS and of oneDNN, and for sizes that 64 bits cannot count; only the
# allocator for GPUs raises a class of its own.
_SIGNS = ("can't allocate memory", "not enough memory", "ALLOC_FAILED", "could not create a memory", "overflowed with")

_MEMINFO = Path("/proc/meminfo")  # of Linux
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # of a container

# Of mallopt(3): the size from which memory comes from the system for one tensor alone, and how much may lie unused.
_MMAP_THRESHOLD, _LARGEST_THRESHOLD = -3, 2**25
_TRIM_THRESHOLD, _ANY_AMOUNT = -1, 2**31 - 1


class Rows(Protocol):
    """Rows of a batch, as a list or an array of their numbers."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Any: ...


B = TypeVar("B", bound=Rows)
R = TypeVar("R")


def is_full(error: BaseException) -> bool:
    """True if ``error`` says that a GPU or the machine ran out of memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def unless_full(work: Callable[[], R]) -> R | None:
    """What ``work`` gives, or None if memory does not suffice for it, which then holds nothing of it any more."""
    try:
        return work()
    except (RuntimeError, MemoryError) as error:
        # Anything else is a bug and keeps its traceback.
        if not is_full(error):
            raise
    return None  # outside the handler, whose traceback would keep the tensors alive


def in_halves(batch: B, work: Callable[[B], R], too_large: Callable[[B], str]) -> Iterator[tuple[B, R]]:
    """A batch and what ``work`` makes of it, or, if memory does not hold it, its halves, each likewise.

    Raises UserError with what ``too_large`` says of a single row that memory does not hold.
    """
    waiting = [batch]
    while waiting:
        rows = waiting.pop()
        made = unless_full(partial(work, rows))
        if made is not None:
            yield rows, made
        elif len(rows) > 1:
            half = len(rows) // 2
            waiting += [rows[half:], rows[:half]]  # the last one comes next
        else:
            raise UserError(too_large(rows))


def free_memory(device: torch.device) -> int:
    """The memory in bytes that can still be allocated on a device.

    On a CPU, Linux says how much, and counts what it uses to cache files; elsewhere it is all the memory there is.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = re.search(r"MemAvailable: *(\d+) kB", _MEMINFO.read_text("utf-8") if _MEMINFO.exists() else "")
    return min(int(available[1]) << 10, installed_memory()) if available else installed_memory()


def installed_memory() -> int:
    """The computer's memory in bytes, or the share that its container may use; no limit if neither is known."""
    sizes = [int(size) for limit in _LIMITS if limit.exists() and (size := limit.read_text("utf-8").strip()).isdigit()]
    if hasattr(os, "sysconf"):  # not on Windows
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(sizes, default=sys.maxsize)


def keep() -> None:
    """Make this process, and those forked from it, reuse the memory that they free, where the C library is glibc.

    By default glibc returns it to the system and asks for it again: search allocates the same few megabytes in every
    step, and mapping new pages takes longer than a small product.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, _ANY_AMOUNT)


def bound_caches() -> None:
    """Bound what the libraries below PyTorch keep, and let it ask for huge pages, before their first use.

    oneDNN, which multiplies for PyTorch, caches a program of a megabyte or two for each shape of a product in bfloat16:
    up to 1,024 in each of two caches, and hardly two batches have the same shape. With a limit of 128, the programs of
    one update are still compiled only once, and memory stays flat. With huge pages for tensors of 2 MB and more there
    are fewer page faults and TLB misses. The libraries read these variables at their first product or tensor. A value
    that the user has set is kept.
    """
    of_user = os.environ.get("DNNL_PRIMITIVE_CACHE_CAPACITY", "128")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", of_user)
    os.environ.setdefault("LRU_CACHE_CAPACITY", "128")
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
