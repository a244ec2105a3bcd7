"""A pool of worker processes that map functions over chunks of lines, in order and with bounded memory."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from nmtkit.errors import UserError
from nmtkit.lines import parse_line, raw_lines
from nmtkit.machine.cgroup import limits

A = TypeVar("A")
B = TypeVar("B")

CAN_FORK = sys.platform == "linux"  # True where fork is safe; on macOS, system libraries break after a fork


class WorkerLost(UserError):
    """A worker process was killed while it processed an item."""


class Chunk(NamedTuple):
    """Consecutive lines of a file as bytes, \\n included, and the line number of the first, from 1."""

    first: int
    lines: list[bytes]

    def text(self, path: Path) -> list[str]:
        """The lines as text. Raises UserError with ``path`` and line number for a line that is not UTF-8."""
        return [parse_line(line, path, number) for number, line in enumerate(self.lines, self.first)]


def chunks(path: Path, size: int) -> Iterator[Chunk]:
    """The lines of a file in chunks of ``size``; the last one may be shorter."""
    lines = raw_lines(path)
    first = 1
    while chunk := list(islice(lines, size)):
        yield Chunk(first, chunk)
        first += len(chunk)


class Workers:
    """A pool of processes, by default one per core; a count of 1 runs everything in the calling process.

    Functions must be importable from modules, not from the user's script. A thread per process sends an item through a
    pipe and waits for the result. There are no shared queues or semaphores, so processes may be killed at any time;
    ``multiprocessing.Pool`` would then hang.
    """

    def __init__(self, count: int | None, *, helping: bool = False, fork: bool = False) -> None:
        """helping: the calling process is one of the ``count`` and computes items of ``map`` while it waits.

        fork: fork where that is safe (``CAN_FORK``), so that workers start quickly with everything loaded. No other
        thread may hold a lock that they need, and PyTorch must have one thread.
        """
        count = available_cores() if count is None else count
        if count < 1:
            raise UserError(f"`jobs` {count}: at least one process is needed")
        self.count, self._helping, self._fork = count, helping, fork and CAN_FORK
        self._processes: list[BaseProcess] = []
        self._threads: ThreadPoolExecutor | None = None
        self._ending = False  # workers are being terminated
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()  # pipes to idle processes

    def __enter__(self) -> "Workers":
        """Start the processes. If not all can be started, stops the others and raises UserError."""
        if self.count > 1:
            wanted = self.count - self._helping
            pipes: list[Connection] = []
            try:
                with _signals_later():
                    for _ in range(wanted):
                        pipes.append(self._forked(pipes) if self._fork else self._spawned())
                        self._idle.put(pipes[-1])
            except OSError as error:  # too many files or processes, or out of memory
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
        """Kill the processes, because waiting for a slow item would delay the error message."""
        for process in self._processes:
            process.terminate()

    def _join(self) -> None:
        """Close the pipes of idle processes and wait for all processes to exit."""
        while not self._idle.empty():
            self._idle.get().close()  # the process reads end of file and exits
        for process in self._processes:
            process.join()

    def map(
        self, function: Callable[[A], B], items: Iterable[A], ready: Callable[[], bool] = lambda: True
    ) -> Iterator[B]:
        """The results in the order of the items, a few of which are read ahead. Raises UserError if a process dies.

        If ``ready()`` is False, reading an item would block, so all pending results are yielded first.
        """
        if self._threads is None:
            yield from map(function, items)
            return
        pending: deque[tuple[Future[B], A]] = deque()
        # Four items per process keep all busy during a slow item, and limit memory.
        for item in items:
            pending.append((self._threads.submit(self.call, function, item), item))
            while len(pending) > 4 * self.count or (pending and not ready()):
                yield self._next(function, pending)
        while pending:
            yield self._next(function, pending)

    def _next(self, function: Callable[[A], B], pending: deque[tuple[Future[B], A]]) -> B:
        """Remove the first item and return its result; with ``helping``, compute other items meanwhile."""
        while self._helping and not pending[0][0].done():
            # A future that can be cancelled has not started.
            place = next((place for place, (future, _) in enumerate(pending) if future.cancel()), None)
            if place is None:
                break
            mine = Future[B]()
            mine.set_result(function(pending[place][1]))
            pending[place] = mine, pending[place][1]
        return pending.popleft()[0].result()

    def call(self, function: Callable[[A], B], item: A) -> B:
        """``function(item)`` in the next idle process; thread-safe. Raises WorkerLost if that process dies."""
        if self._threads is None:
            return function(item)
        connection = self._idle.get()
        try:
            # The function is pickled by name.
            try:
                connection.send((function, item))
            except ConnectionError:  # killed while idle, so the item is not to blame
                connection = self._replaced(connection)
                connection.send((function, item))
            result, error, where = connection.recv()
        except (EOFError, ConnectionError):
            connection = self._replaced(connection)
            raise WorkerLost(
                "a worker process was killed, perhaps because memory ran out; use fewer processes"
            ) from None
        finally:
            self._idle.put(connection)
        if error is not None:
            # Tracebacks cannot be pickled.
            raise error from RuntimeError(f"in a worker process:\n{where}")
        answer: B = result
        return answer

    def _replaced(self, connection: Connection) -> Connection:
        """The pipe to a replacement for a killed process; if the pool is shutting down, the old pipe, closed."""
        connection.close()
        return connection if self._ending else self._spawned()

    def _spawned(self) -> Connection:
        """The pipe to a new spawned process."""
        # A fork would copy locks that another thread may hold.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with theirs, _script_hidden():  # closed here, so that the pipe breaks when the process ends
            self._start(context.Process(target=_work, args=(theirs, [])))
        return ours

    def _forked(self, pipes: list[Connection]) -> Connection:
        """The pipe to a new forked process; ``pipes`` are those to earlier forks."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        with theirs, warnings.catch_warnings():
            # Python warns of other threads, but those of PyTorch are idle, and nobody holds the progress bar's locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            # Blocked until the fork has reset the signal handler.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            try:
                self._start(context.Process(target=_work, args=(theirs, [*pipes, ours])))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return ours

    def _start(self, process: BaseProcess) -> None:
        process.start()
        self._processes.append(process)


def _work(connection: Connection, others: list[Connection]) -> None:
    """The main loop of a worker, which answers each (function, item) with (result, exception or None, traceback).

    others: the parent's ends of pipes, which a fork inherits and must close.
    """
    for other in others:
        other.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork inherits the parent's handler
    if CAN_FORK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            with loading():  # the first item imports the function's module
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
    """Exit when the parent process ends for any reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # without cleanup, because other threads may be blocked forever


@contextmanager
def loading() -> Iterator[None]:
    """Pause the garbage collector while modules and models are loaded.

    Loading creates a million objects that stay alive, and garbage collection takes a quarter of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Workers of multiprocessing run the user's script again; these only import the modules of the functions.

    So a script may use workers without ``if __name__ == "__main__":``, and those of a command do not import typer.
    """
    main = vars(sys.modules["__main__"])
    path = main.pop("__file__", None)
    try:
        yield
    finally:
        if path is not None:
            main["__file__"] = path


@contextmanager
def _signals_later() -> Iterator[None]:
    """Defer SIGTERM and ignore Ctrl-C, because a worker interrupted while it starts would print a traceback.

    Workers inherit the ignored SIGINT, so that only this process handles Ctrl-C; SIGTERM kills them.
    """
    if threading.current_thread() is not threading.main_thread():  # no other may set signal handlers
        yield
        return
    terminated = list[int]()
    try:
        with handlers({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: lambda number, _: terminated.append(number)}):
            yield
    finally:
        for number in terminated:
            os.kill(os.getpid(), number)


@contextmanager
def handlers(of_signals: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Handle signals in this way, and as before afterwards: what runs may be part of a larger Python program."""
    before = {number: signal.signal(number, handler) for number, handler in of_signals.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def available_cores() -> int:
    """The number of cores this process may use, in a container or job often fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Microseconds of all cores in a period, and the period; "max" is no limit.
    quotas = [(int(quota), int(period)) for quota, period in map(str.split, limits("cpu.max")) if quota != "max"]
    return min([cores, *(max(1, -(-quota // period)) for quota, period in quotas)])
