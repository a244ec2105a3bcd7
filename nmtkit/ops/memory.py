"""Free memory, memory that is used again, and the errors that PyTorch raises for want of it, which have no one kind."""

import ctypes
import os
import platform

import torch

# Of the allocators of processors, of cuBLAS, and of oneDNN, and of sizes that 64 bits cannot count; only a GPU's
# allocator has a class of its own.
_SIGNS = ("can't allocate memory", "not enough memory", "ALLOC_FAILED", "could not create a memory", "overflowed with")

# Of mallopt(3): the size from which memory comes from the system for one tensor alone, and how much may lie unused.
_MMAP_THRESHOLD, _LARGEST_THRESHOLD = -3, 2**25
_TRIM_THRESHOLD, _ANY_AMOUNT = -1, 2**31 - 1


def is_full(error: BaseException) -> bool:
    """True if ``error`` says that memory, of a GPU or of the machine, did not suffice."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def free_memory() -> int:
    """The free memory in bytes: the GPU's if there is one, else the computer's."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def keep() -> None:
    """From now on this process and its copies use again what they have freed, where the C library is Linux's usual one.

    It would give memory back to the system and ask for it again: a search allocates the same few megabytes in every
    step, and pages that are new to a process take longer to come than a small product takes.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, _ANY_AMOUNT)
