"""What nmtkit asks of the libraries below PyTorch, memory that stays; and of the system, little."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmtkit.translation.loading import choose_device

NAMES = (
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY", "THP_MEM_ALLOC_ENABLE"
)  # fmt: skip

MANY_SHAPES = """
import resource, torch, nmtkit  # in any order
from nmtkit.translation.loading import choose_device
choose_device("cpu")

def multiply(shapes):
    for rows in shapes:
        torch.ones(rows, 512, dtype=torch.bfloat16) @ weight
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, at most so far

weight = torch.ones(512, 1024, dtype=torch.bfloat16)
early = multiply(range(5, 501, 5))
print((multiply(rows for rows in range(1, 500) if rows % 5) - early) >> 10)
"""


def python(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A new Python process whose environment has ``settings`` and none of the other tested variables."""
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment = {**kept, "PYTHONPATH": os.getcwd(), **settings}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)


# With AVX2 alone, PyTorch multiplies bfloat16 without oneDNN: two minutes, in which nothing is kept.
@pytest.mark.slow
@pytest.mark.skipif(
    not torch.backends.cpu.get_cpu_capability().startswith("AVX512"), reason="only with AVX512, oneDNN keeps programs"
)
def test_memory_stays_constant_if_every_batch_has_another_shape() -> None:
    assert int(python(MANY_SHAPES).stdout) < 120  # MiB; 370 where a program is kept for each of 500 shapes


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
        ("DNNL_PRIMITIVE_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
        ("LRU_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"),
    ],
)
def test_a_value_set_by_the_user_is_kept(name: str, read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {name: "7"})
    choose_device("cpu")
    assert os.environ[read] == "7"


def test_importing_does_not_change_the_environment() -> None:
    code = "import os; before = {**os.environ}; import nmtkit, nmtkit.cli.main; print({**os.environ} == before)"
    assert python(code).stdout == "True\n"


HUGE_PAGES = """
import ctypes, torch, nmtkit
from nmtkit.translation.loading import choose_device
choose_device("cpu")
x = torch.empty(1 << 24, dtype=torch.uint8)
print(x.data_ptr() % 4096)  # the start of a page, for madvise; without huge pages 64 bytes behind one
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux has huge pages")
def test_huge_pages_are_asked_for_large_tensors() -> None:
    assert python(HUGE_PAGES).stdout == "0\n"


LIKE_WINDOWS = """
import os, select, shutil, signal, sys
import sacrebleu, sacremoses, torch  # what they need on Linux is theirs
sys.modules["fcntl"] = None
del os.sysconf, os.sched_getaffinity, signal.SIGHUP
opened = os.open

def no_folder(path, flags, *others, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return opened(path, flags, *others, **more)

def no_pipe(*descriptors):
    raise OSError(10038, "not a socket")

os.open, select.select, shutil._use_fd_functions = no_folder, no_pipe, False
shutil._rmtree_impl = shutil._rmtree_unsafe  # in place of _use_fd_functions since Python 3.14
"""

# From raw text to a translation of what comes by a pipe.
EVERYTHING = """
import nmtkit
from nmtkit.cli.main import main

nmtkit.prep(src_lang="en", words=True, jobs=1)
nmtkit.vocab(jobs=1)
nmtkit.train("rnnsearch-small", max_updates=1, settings={"model.hidden": 8})
sys.argv[1:] = ["translate"]
main()
"""


@pytest.mark.slow
def test_commands_work_without_flock_sysconf_and_select_as_on_windows(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for split in ("train", "dev", "test"):
        for side in ("en", "fr"):
            (tmp_path / "raw" / f"{split}.{side}").write_text("a b c\nd e f g\n" * 20)
    command = [sys.executable, "-c", LIKE_WINDOWS + EVERYTHING]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, input=b"a b\nd\n")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b"\n") == 2
