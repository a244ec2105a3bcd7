"""One thread per test process, reproducible examples, and the command line as a function."""

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

hypothesis.settings.register_profile("nmtkit", deadline=None, derandomize=True)
hypothesis.settings.load_profile("nmtkit")


@contextmanager
def piped(path: Path) -> Iterator[str]:
    """A name for the content of a small file as a pipe, which can be read once, as the shell's ``<(cat file)``."""
    reading, writing = os.pipe()
    os.write(writing, path.read_bytes())
    os.close(writing)
    yield f"/dev/fd/{reading}"
    os.close(reading)


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def nmtkit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """``nmtkit("score", path)``: the command line in this process, as ``main`` runs it."""

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

    return run
