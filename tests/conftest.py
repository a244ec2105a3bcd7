"""One thread per test process, reproducible examples, kernels as if never used, and the command line as a function.

Nothing waits for the disk: files that were written survive the end of a process anyway, and no test cuts the power.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

# Read by torch and the mathematical libraries when they are first imported, which is after this file.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import hypothesis
import pytest

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup, for one, takes away from everything it starts
signal.signal(signal.SIGINT, signal.default_int_handler)  # which background jobs of a shell are born without

os.fsync = lambda fd: None
hypothesis.settings.register_profile("nmtkit", deadline=None, derandomize=True)
hypothesis.settings.load_profile("nmtkit")


@contextmanager
def piped(path: Path) -> Iterator[str]:
    """The path of a pipe with the content of a small file, which can be read once, like the shell's ``<(cat file)``."""
    reading, writing = os.pipe()
    os.write(writing, path.read_bytes())
    os.close(writing)
    yield f"/dev/fd/{reading}"
    os.close(reading)


@pytest.fixture
def alarm() -> Iterator[None]:
    """A test that waits for more than ten seconds fails."""

    def fail(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def nan_in_memory() -> Iterator[None]:
    """Uninitialised memory is filled with NaN, so that reading it is noticed."""
    import torch

    torch.set_deterministic_debug_mode("error")  # the function for this alone would import PyTorch's compiler
    yield
    torch.set_deterministic_debug_mode("default")


@pytest.fixture
def untried() -> Iterator[None]:
    """No kernel has been tried before the test, and trials in the test are forgotten afterwards."""
    from nmtkit.kernels import door
    from nmtkit.kernels.fused import fused

    caches = door.switched_off, door._choice, fused, door._warn
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def shared_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Called with a number of threads, which share the rows of a kernel, even if there are few."""
    import torch

    from nmtkit.kernels import library

    before = torch.get_num_threads()
    monkeypatch.setattr(library, "GRAIN", 1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def nmtkit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Outcome]]:
    """``nmtkit("score", path)``: the command line in this process, as ``main`` runs it; standard input is empty."""

    def run(*arguments: object) -> Outcome:
        from nmtkit.cli.main import main

        capsys.readouterr()
        monkeypatch.setattr("sys.argv", ["nmtkit", *map(str, arguments)])
        try:
            main()
            status: object = 0
        except SystemExit as end:
            status = end.code
        if jobs := sys.modules.get("nmtkit.translation.jobs"):
            jobs.translator_of.cache_clear()  # a command's process has one translator, and ends with it
        printed = capsys.readouterr()
        if isinstance(status, str):  # what Python itself does with sys.exit("text")
            return Outcome(1, printed.out, f"{printed.err}{status}\n")
        return Outcome(int(status or 0), printed.out, printed.err)

    with open(os.devnull, encoding="utf-8") as nothing:  # pytest's own has no descriptor
        monkeypatch.setattr("sys.stdin", nothing)
        yield run
