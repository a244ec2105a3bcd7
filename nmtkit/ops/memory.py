"""Free memory, memory that is used again, and the errors that PyTorch raises for want of it, which have no one kind."""

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

# Of the allocators of processors, of cuBLAS, and of oneDNN, and of sizes that 64 bits cannot count; only a GPU's
# allocator has a class of its own.
_SIGNS = ("can't allocate memory", "not enough memory", "ALLOC_FAILED", "could not create a memory", "overflowed with")

_MEMINFO = Path("/proc/meminfo")  # of Linux

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
    """True if ``error`` says that memory, of a GPU or of the machine, did not suffice."""
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


def free_memory() -> int:
    """The memory in bytes that can be had: the GPU's if there is one, else the computer's.

    The computer's includes what files take that were read, which Linux gives back; elsewhere it is all that there is.
    """
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    said = re.search(r"MemAvailable: *(\d+) kB", _MEMINFO.read_text("utf-8") if _MEMINFO.exists() else "")
    return int(said[1]) << 10 if said else installed_memory()


def installed_memory() -> int:
    """The computer's memory in bytes; as much as can be counted where the system does not say, as Windows."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else sys.maxsize


def keep() -> None:
    """From now on this process and its copies use again what they have freed, where the C library is Linux's usual one.

    It would give memory back to the system and ask for it again: a search allocates the same few megabytes in every
    step, and pages that are new to a process take longer to come than a small product takes.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, _ANY_AMOUNT)
