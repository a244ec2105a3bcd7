import platform
import subprocess
import sys

import pytest
import torch

from nmtkit.ops.memory import is_full


def test_what_the_processor_s_allocator_raises_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)
    assert type(caught.value) is RuntimeError  # no class of its own, hence the look at its words
    assert is_full(caught.value)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_sizes_that_cannot_be_counted_are_recognised(device: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 40, 1 << 40, device=device)
    assert is_full(caught.value)


def test_what_a_gpu_and_python_raise_is_recognised() -> None:
    assert is_full(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_full(MemoryError())
    assert is_full(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))


@pytest.mark.parametrize("error", [RuntimeError("shapes cannot be multiplied"), ValueError("not enough memory")])
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_full(error)


# Tensors of 16 MB, freed and made again and again: prints how many pages were new to the process.
ALLOCATING = """
import resource, torch
from nmtkit.ops import memory
{keep}
def make():
    for _ in range(20):
        [torch.ones(2**22) for _ in range(4)]
make()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
make()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide for themselves")
def test_memory_that_is_kept_is_used_again_and_other_memory_comes_anew() -> None:
    def new_pages(keep: str) -> int:
        command = [sys.executable, "-c", ALLOCATING.format(keep=keep)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert new_pages("memory.keep()") == 0
    assert new_pages("") > 20
