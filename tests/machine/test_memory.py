import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.machine import cgroup, memory
from nmtkit.machine.memory import Attempt, in_halves, is_full


def test_errors_of_the_cpu_allocator_are_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)
    assert type(caught.value) is RuntimeError  # no special class, so the message is examined
    assert is_full(caught.value)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_sizes_that_cannot_be_counted_are_recognised(device: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 40, 1 << 40, device=device)
    assert is_full(caught.value)


def test_errors_of_the_gpu_allocator_and_python_are_recognised() -> None:
    assert is_full(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_full(MemoryError())
    assert is_full(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))


@pytest.mark.parametrize("error", [RuntimeError("shapes cannot be multiplied"), ValueError("not enough memory")])
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_full(error)


# Tensors of 16 MB, freed and made again and again: prints how many pages were new to the process.
ALLOCATING = """
import resource, torch
from nmtkit.machine import memory
memory.bound_caches()
{keep}
def make():
    for _ in range(20):
        [torch.ones(2**22) for _ in range(4)]
make()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
make()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide for themselves")
def test_kept_memory_is_reused_without_new_pages() -> None:
    def new_pages(keep: str) -> int:
        command = [sys.executable, "-c", ALLOCATING.format(keep=keep)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert new_pages("memory.keep()") == 0
    assert new_pages("") > 20


def squares(rows: Sequence[int]) -> list[int]:
    """Needs more memory than there is for more than three rows, or for a number of a hundred and more."""
    if len(rows) > 3 or max(rows) >= 100:
        torch.empty(1 << 55)
    return [row * row for row in rows]


def squares_in_halves(batch: list[int], too_large: Callable[[list[int]], str]) -> Iterator[tuple[list[int], list[int]]]:
    for rows, attempt in in_halves([batch], too_large):
        with attempt:
            yield rows, squares(rows)


def test_a_batch_that_does_not_fit_into_memory_is_repeated_in_halves_in_order() -> None:
    for size in (1, 3, 4, 13):
        done = list(squares_in_halves(list(range(size)), str))
        assert [row for rows, _ in done for row in rows] == list(range(size))
        assert [made for _, made in done] == [squares(rows) for rows, _ in done]
        assert (len(done) == 1) == (size <= 3)


def test_a_row_that_does_not_fit_raises_after_the_rows_before_it() -> None:
    halves = squares_in_halves([1, 2, 100, 3], lambda rows: f"{rows[0]} is too large")
    assert next(halves) == ([1, 2], [1, 4])
    with pytest.raises(UserError, match="100 is too large"):
        next(halves)


def test_an_attempt_that_fails_for_another_reason_raises() -> None:
    with pytest.raises(ZeroDivisionError), Attempt():
        raise ZeroDivisionError


CPU = torch.device("cpu")


def test_memory_of_the_file_cache_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal:       24684416 kB\nMemFree:  10 kB\nMemAvailable:    2048 kB\n")
    assert memory.free_memory(CPU) == 2 << 20


@pytest.mark.parametrize(("limit", "free"), [("1048576", 1 << 20), ("max", 2 << 20), (str(1 << 62), 2 << 20)])
def test_a_container_or_job_has_no_more_memory_than_it_may_use(
    limit: str, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(cgroup, "_ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "_OWN", tmp_path / "own")
    (tmp_path / "meminfo").write_text("MemAvailable:    2048 kB\n")
    job = tmp_path / "slurm" / "job 1"
    job.mkdir(parents=True)
    (tmp_path / "own").write_text("0::/slurm/job 1\n")
    (job.parent / "memory.max").write_text(f"{limit}\n")
    (job / "memory.max").write_text("max\n")
    assert memory.free_memory(CPU) == free
    assert memory.installed_memory() >= free


def test_without_meminfo_all_installed_memory_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}  # what macOS knows; another name is an error
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_LIMIT", tmp_path / "absent")
    monkeypatch.setattr(cgroup, "_ROOT", tmp_path)
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    assert memory.free_memory(CPU) == 4096 * 1000
    monkeypatch.delattr("os.sysconf")  # as on Windows
    assert memory.free_memory(CPU) > 1 << 60
