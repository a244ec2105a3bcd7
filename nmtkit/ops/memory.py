"""Free memory, and the errors that PyTorch raises when there is too little, which have no one kind."""

import os

import torch

# Of the allocators of processors, of cuBLAS, and of oneDNN, and of sizes that 64 bits cannot count; only a GPU's
# allocator has a class of its own.
_SIGNS = ("can't allocate memory", "not enough memory", "ALLOC_FAILED", "could not create a memory", "overflowed with")


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
