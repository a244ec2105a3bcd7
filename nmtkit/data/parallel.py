"""A function over many lines: in several processes, in order, a few chunks in memory at a time."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from nmtkit.errors import UserError
from nmtkit.lines import raw_lines

A = TypeVar("A")
B = TypeVar("B")


class Chunk(NamedTuple):
    """Consecutive lines of a file as bytes, \\n included, and the number of the first (from 1)."""

    first: int
    lines: list[bytes]


def chunks(path: Path, size: int) -> Iterator[Chunk]:
    lines = raw_lines(path)
    first = 1
    while chunk := list(islice(lines, size)):
        yield Chunk(first, chunk)
        first += len(chunk)


class Workers:
    """Processes to map functions with, by default one per core; with a count of 1, everything stays in this one.

    The functions must be importable and keep what is costly to make in a cache of their own.
    """

    def __init__(self, count: int | None) -> None:
        count = available_cores() if count is None else count
        if count < 1:
            raise UserError(f"--workers {count}: at least one process has to do the work")
        self.count = count
        self._pool: ProcessPoolExecutor | None = None
        self._processes: set[multiprocessing.process.BaseProcess] = set()

    def __enter__(self) -> "Workers":
        if self.count > 1:
            before = set(multiprocessing.active_children())
            # Spawned, not forked: a fork copies locks that another thread may hold.
            self._pool = ProcessPoolExecutor(self.count, multiprocessing.get_context("spawn"), _follow_parent)
            with _interrupts_ignored():  # and so in the processes, too: Ctrl-C is for this one to answer
                for _ in range(self.count):
                    self._pool.submit(os.getpid)
            self._processes = set(multiprocessing.active_children()) - before
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if self._pool is not None:
            if kind is not None:
                for process in self._processes:
                    process.terminate()
            self._pool.shutdown(cancel_futures=True)

    def map(
        self, function: Callable[[A], B], items: Iterable[A], at_hand: Callable[[], bool] = lambda: True
    ) -> Iterator[B]:
        """The results in the order of the items. Raises UserError if a process dies.

        When ``at_hand`` says that the next item would have to be waited for, all results so far come first.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[B]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(function, item))
                while len(waiting) > 4 * self.count or (waiting and not at_hand()):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UserError("a worker process was killed, perhaps for lack of memory; use fewer processes") from None


def _follow_parent() -> None:
    """Ends this process when the one that started it is gone, however that came about; it would wait for ever."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only that one may set signal handlers
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def available_cores() -> int:
    """The processors this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
