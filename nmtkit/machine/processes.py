"""A function over many lines: in several processes, in order, a few chunks in memory at a time."""

import gc
import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from nmtkit.errors import UserError
from nmtkit.lines import raw_lines

A = TypeVar("A")
B = TypeVar("B")

COPIES = sys.platform == "linux"  # whether processes are forked; on macOS the system's libraries do not support it


class WorkerLost(UserError):
    """A worker process was killed, and what it was doing is lost."""


class Chunk(NamedTuple):
    """Consecutive lines of a file as bytes, \\n included, and the number of the first (from 1)."""

    first: int
    lines: list[bytes]


def chunks(path: Path, size: int) -> Iterator[Chunk]:
    """The lines of a file, ``size`` at a time, the last chunk with what is left."""
    lines = raw_lines(path)
    first = 1
    while chunk := list(islice(lines, size)):
        yield Chunk(first, chunk)
        first += len(chunk)


class Workers:
    """Processes to map functions with, by default one per core; with a count of 1, everything stays in this one.

    The functions must be importable and cache by themselves what is costly to make. Each process has its own pipe and
    one item at a time, which a thread sends before it waits for the answer. Nothing is shared, so a process may be
    killed at any moment (the standard library's pool would then wait for ever, and leave semaphores behind).
    """

    def __init__(self, count: int | None, *, helping: bool = False, copies: bool = False) -> None:
        """helping: this process is one of the ``count``: it does items of ``map`` instead of waiting for results.

        copies: the processes begin as copies of this one, at once and with all that it has loaded, where the system has
        that (``COPIES``). No other thread may hold a lock then that they need, and PyTorch must be set to one thread.
        """
        count = available_cores() if count is None else count
        if count < 1:
            raise UserError(f"`jobs` {count}: at least one process has to do the work")
        self.count, self._helping, self._copies = count, helping, copies and COPIES
        self._processes: list[BaseProcess] = []
        self._threads: ThreadPoolExecutor | None = None
        self._ending = False  # no answer is wanted any more
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()  # pipes to processes without an item

    def __enter__(self) -> "Workers":
        """Start the processes. Raises UserError, and leaves none of them, where the system does not allow so many."""
        if self.count > 1:
            wanted = self.count - self._helping
            pipes: list[Connection] = []
            try:
                with _signals_later():
                    for _ in range(wanted):
                        pipes.append(self._copied(pipes) if self._copies else self._started())
                        self._idle.put(pipes[-1])
            except OSError as error:  # files or processes are limited, or there is no memory
                self._terminate()
                self._join()
                started = f"only {len(pipes)} of {wanted} processes could be started"
                raise UserError(f"`jobs`: {started} ({error.strerror}); use fewer") from None
            self._threads = ThreadPoolExecutor(wanted)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._threads is None:
            return
        if kind is not None:
            self._ending = True
            self._terminate()
        self._threads.shutdown(cancel_futures=True)
        self._join()

    def _terminate(self) -> None:
        """End the processes: nobody wants their answers, and waiting for a slow item would delay the error message."""
        for process in self._processes:
            process.terminate()

    def _join(self) -> None:
        """Wait for the end of the processes that are waiting for an item."""
        while not self._idle.empty():
            self._idle.get().close()  # which ends such a process
        for process in self._processes:
            process.join()

    def map(
        self, function: Callable[[A], B], items: Iterable[A], at_hand: Callable[[], bool] = lambda: True
    ) -> Iterator[B]:
        """The results in the order of the items, of which a few are taken ahead. Raises UserError if a process dies.

        When ``at_hand`` says that the next item would have to be waited for, all results so far come first.
        """
        if self._threads is None:
            yield from map(function, items)
            return
        waiting: deque[tuple[Future[B], A]] = deque()
        # Four items for each process, so that none is idle while a slow one is waited for, and memory stays bounded.
        for item in items:
            waiting.append((self._threads.submit(self.call, function, item), item))
            while len(waiting) > 4 * self.count or (waiting and not at_hand()):
                yield self._next(function, waiting)
        while waiting:
            yield self._next(function, waiting)

    def _next(self, function: Callable[[A], B], waiting: deque[tuple[Future[B], A]]) -> B:
        """The result of the first item, which is removed. With ``helping``, does other items until it is there."""
        while self._helping and not waiting[0][0].done():
            # What can be cancelled has not been begun.
            place = next((place for place, (future, _) in enumerate(waiting) if future.cancel()), None)
            if place is None:
                break
            mine = Future[B]()
            mine.set_result(function(waiting[place][1]))
            waiting[place] = mine, waiting[place][1]
        return waiting.popleft()[0].result()

    def call(self, function: Callable[[A], B], item: A) -> B:
        """``function(item)``, done by the next process that is idle; may be called by many threads at once.

        Raises WorkerLost if that process dies. Another one has its place then.
        """
        if self._threads is None:
            return function(item)
        connection = self._idle.get()
        try:
            # Pickled by name: the process imports the function, which is why it must be importable.
            try:
                connection.send((function, item))
            except ConnectionError:  # it was killed while it was idle, for which the item cannot be the reason
                connection = self._replaced(connection)
                connection.send((function, item))
            result, error, where = connection.recv()
        except (EOFError, ConnectionError):
            connection = self._replaced(connection)
            raise WorkerLost("a worker process was killed, perhaps for lack of memory; use fewer processes") from None
        finally:
            self._idle.put(connection)
        if error is not None:
            # The place in the other process would be lost, since a traceback cannot be sent.
            raise error from RuntimeError(f"in a worker process:\n{where}")
        answer: B = result
        return answer

    def _replaced(self, connection: Connection) -> Connection:
        """The pipe to a process in the place of one that was killed; the same one, closed, if that was on purpose."""
        connection.close()
        return connection if self._ending else self._started()

    def _started(self) -> Connection:
        """The pipe to a new process, which begins from nothing."""
        # Spawned, not forked: a fork copies locks that another thread may hold.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with theirs:  # closed here, so that the pipe breaks when the process ends
            self._begin(context.Process(target=_work, args=(theirs, [])))
        return ours

    def _copied(self, pipes: list[Connection]) -> Connection:
        """The pipe to a new process, which is a copy of this one; ``pipes`` are those to the copies before it."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        with theirs, warnings.catch_warnings():
            # Of other threads: PyTorch's, whom a process with one thread never asks, and a progress line's, whose locks
            # belong to what a copy never writes.
            warnings.simplefilter("ignore", DeprecationWarning)
            # Until the copy has let go of this process's handler, which would answer in its place.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            try:
                self._begin(context.Process(target=_work, args=(theirs, [*pipes, ours])))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return ours

    def _begin(self, process: BaseProcess) -> None:
        process.start()
        self._processes.append(process)


def _work(connection: Connection, others: list[Connection]) -> None:
    """In a worker process: answer each function and item with a result, or an exception and where it came from.

    others: ends of pipes that a copy has as well, and that only the other process is to hold.
    """
    for other in others:
        other.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a copy has the handler of the other process
    if COPIES:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            with loading():  # which the import of the function is at first
                function, item = connection.recv()
        except EOFError:
            return
        answer: tuple[Any, Exception | None, str]
        try:
            answer = function(item), None, ""
        except Exception as error:
            answer = None, error, traceback.format_exc()
        connection.send(answer)


def _follow_parent() -> None:
    """Ends this process when the one that started it is gone, however that came about, with its item unfinished."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    # At once, without cleaning up: other threads may be waiting for what never comes.
    os._exit(1)


@contextmanager
def loading() -> Iterator[None]:
    """Turn the garbage collector off while modules and models are loaded: they make a million objects, and all stay.

    The collector would look through all of them again and again, which is a quarter of the time that loading takes. A
    caller who has turned it off finds it off afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _signals_later() -> Iterator[None]:
    """Ignore Ctrl-C for a moment, and answer SIGTERM after it: a process half started would complain when it is left.

    The processes that are started meanwhile ignore Ctrl-C for good: it is for this one to answer. SIGTERM ends them.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one may set signal handlers
        yield
        return
    terminated = list[int]()
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate = signal.signal(signal.SIGTERM, lambda number, frame: terminated.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)
        for number in terminated:
            os.kill(os.getpid(), number)


def available_cores() -> int:
    """The processors this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
