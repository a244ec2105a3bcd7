"""The engine: a fair queue that batches sentences of many requests for a few search workers.

It runs on the event loop and never blocks; workers search in threads or processes. Sentences that arrive during a
search go into the next batch. A batch takes one sentence from each request in turn, so that a single sentence does not
wait behind another client's ten thousand. Other slow work, such as reading a document, has threads of its own.
"""

import asyncio
import logging
import re
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from nmtkit.errors import UserError
from nmtkit.machine.processes import WorkerLost
from nmtkit.serving.limits import QUEUE
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Answer, Batch, Kind, ModelLost

log = logging.getLogger(__name__)

T = TypeVar("T")

# Target time of a batch. A request waits for the running batch and its own, but small batches are less efficient: at
# one second, throughput is 90 % of the maximum.
SECONDS = 1.0
LEAST = 1_000  # minimum characters of a batch; smaller ones are hardly faster
MOST = 2_048  # maximum sentences of a batch
ASIDE = 4  # threads for other work at a time


class Busy(Exception):
    """The queue is full or, by default, the server is shutting down; the client may retry after ``seconds``."""

    def __init__(self, reason: str = "the server is shutting down", seconds: int = 10) -> None:
        super().__init__(reason)
        self.seconds = seconds


class _Work:
    """A request's sentences, those in the queue, and the answers so far."""

    def __init__(self, kind: Kind, sentences: Sequence[str], targets: Sequence[str] | None) -> None:
        self.kind, self.sentences, self.targets = kind, sentences, targets
        self.answers = [Answer([], [], "")] * len(sentences)
        # Longest first (from the end), so that a batch has similar lengths.
        self.waiting = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        self.unanswered = len(sentences)
        self.done: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()

    def weight(self) -> int:
        """Queued characters, plus one per sentence."""
        return sum(len(self.sentences[i]) + 1 for i in self.waiting)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # marks it as retrieved, for clients that are gone


class Engine:
    """The queue of a server and its workers; ``search`` is called in as many threads."""

    def __init__(self, search: Callable[[Batch], list[Answer]], workers: int, metrics: Metrics) -> None:
        self._search, self._metrics = search, metrics
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="search")
        self._idle = self._workers = workers
        self._ring = deque[_Work]()  # requests with queued sentences, round robin
        self._speed = dict[str, float]()  # characters per second, by model
        self._tasks = set[asyncio.Task[None]]()
        self._places, self._aside = asyncio.Semaphore(ASIDE), set[asyncio.Future[Any]]()  # of other work
        self._stopping = False
        self._queued = 0  # characters
        self.model_lost = False  # whether a process that replaced a killed worker could not load the models

    async def answer(self, kind: Kind, sentences: Sequence[str], targets: Sequence[str] | None) -> list[Answer]:
        """The answer to each sentence; cancelling removes its sentences from the queue.

        Raises Busy if the queue is full or the server is shutting down, and UserError if the model does not support the
        request.
        """
        work = _Work(kind, sentences, targets)
        weight = work.weight()
        if self._stopping:
            raise Busy()
        # An empty queue accepts a request of any size.
        if self._queued and self._queued + weight > QUEUE:
            raise Busy("the queue is full", self._seconds_left())
        if not sentences:
            return []
        self._ring.append(work)
        self._add(weight, len(sentences))
        self._begin()
        try:
            return await work.done
        finally:
            self._forget(work)

    async def aside(self, function: Callable[..., T], *arguments: Any) -> T:
        """``function(*arguments)`` in a thread. It cannot be stopped, and keeps its place after a cancellation.

        Raises Busy if the server is shutting down.
        """
        if not self._stopping:
            await self._places.acquire()
        if self._stopping:
            self._places.release()  # for the next that waits
            raise Busy()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._aside.add(done)
        try:
            # Not in an executor, because Python waits for its threads before it exits.
            work = partial(function, *arguments)
            Thread(target=_call, args=(done, work, self._places.release), daemon=True).start()
            return await done
        finally:
            self._aside.remove(done)

    def stop(self) -> None:
        """Refuse queued and new requests, and those that wait for a thread; running searches are finished."""
        self._stopping = True
        self._places.release()  # for all that wait for a place, one after the other
        for done in self._aside:
            if not done.done():
                done.set_exception(Busy())
        for work in list(self._ring):
            self._forget(work)
            work.fail(Busy())

    async def close(self) -> None:
        """Stop, wait for running searches, and end the threads."""
        self.stop()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._threads.shutdown()

    def _seconds_left(self) -> int:
        """Estimated seconds until the queue is empty."""
        slowest = min(self._speed.values(), default=LEAST / SECONDS)
        return max(1, min(600, round(self._queued / slowest)))

    def _add(self, characters: int, sentences: int) -> None:
        self._queued += characters
        self._metrics.queued_characters.inc(characters)
        self._metrics.queued_sentences.inc(sentences)

    def _forget(self, work: _Work) -> None:
        """Remove a request from the queue."""
        if work.waiting:
            self._add(-work.weight(), -len(work.waiting))
            work.waiting = []
            self._ring.remove(work)

    def _begin(self) -> None:
        """Give idle workers a batch each."""
        while self._idle and self._ring:
            self._idle -= 1
            task = asyncio.create_task(self._searched(self._next()))
            self._tasks.add(task)  # the event loop keeps only weak references
            task.add_done_callback(self._tasks.discard)

    def _budget(self, model: str) -> float:
        """The characters of a batch."""
        return max(LEAST, SECONDS * self._speed.get(model, 0.0))

    def _next(self) -> list[tuple[_Work, int]]:
        """The next batch, as pairs of a request and a sentence index.

        Its kind is that of the next request. Other requests of the same kind join it, one sentence each in turn. Next
        come requests of other kinds, then those not reached here.
        """
        kind, left = self._ring[0].kind, self._budget(self._ring[0].kind.model)
        turns = deque(work for work in self._ring if work.kind == kind)
        batch = list[tuple[_Work, int]]()
        while turns and left > 0 and len(batch) < MOST:
            work = turns.popleft()
            batch.append((work, work.waiting.pop()))
            left -= len(work.sentences[batch[-1][1]]) + 1
            if work.waiting:
                turns.append(work)
        self._ring = deque([*(work for work in self._ring if work.kind != kind), *turns])
        self._add(-sum(len(work.sentences[i]) + 1 for work, i in batch), -len(batch))
        return batch

    async def _searched(self, batch: list[tuple[_Work, int]]) -> None:
        """Search a batch and distribute the answers; then the worker is idle again."""
        model = batch[0][0].kind.model
        characters, budget = sum(len(work.sentences[i]) + 1 for work, i in batch), self._budget(model)
        try:
            if (seconds := await self._tried(batch)) is not None:
                # Small batches say little about the speed of large ones.
                if 2 * characters > budget or model not in self._speed:
                    self._speed[model] = characters / max(seconds, 1e-6)
            elif len({work for work, _ in batch}) > 1:
                # Search each request alone, so that one request's error does not fail the others.
                for work in dict.fromkeys(work for work, _ in batch):
                    await self._tried([(other, i) for other, i in batch if other is work])
        finally:
            self._idle += 1
            self._begin()

    async def _tried(self, batch: list[tuple[_Work, int]]) -> float | None:
        """Search a batch in a thread and return its seconds, or None if it failed; a request alone fails with it."""
        work = batch[0][0]
        # Requests of one kind all have targets, or none has.
        targets = [each.targets[i] for each, i in batch if each.targets is not None] or None
        query = Batch(work.kind, [each.sentences[i] for each, i in batch], targets)
        began = time.monotonic()
        try:
            answers = await self._in_thread(query)
        except Exception as error:
            if all(other is work for other, _ in batch):
                if isinstance(error, ModelLost):
                    self.model_lost = True
                    log.error("the process that replaces a killed worker cannot load the models: %s", error)
                elif not isinstance(error, UserError):
                    log_error(error)
                self._forget(work)
                work.fail(error)
            return None
        seconds = time.monotonic() - began
        self._metrics.searched(query.kind.model, query.sentences, seconds)
        for (work, i), answer in zip(batch, answers, strict=True):
            work.answers[i] = answer
            work.unanswered -= 1
            if not work.unanswered and not work.done.done():
                work.done.set_result(work.answers)
        return seconds

    async def _in_thread(self, query: Batch) -> list[Answer]:
        """A worker's answer. If it is killed, others try, as many as there are, because all may have been killed."""
        loop = asyncio.get_running_loop()
        for _ in range(self._workers):
            try:
                return await loop.run_in_executor(self._threads, self._search, query)
            except WorkerLost:
                log.warning("a worker process was killed and has been replaced")
        return await loop.run_in_executor(self._threads, self._search, query)


def _call(done: asyncio.Future[T], function: Callable[[], T], end: Callable[[], None]) -> None:
    """In a thread: call a function, and pass its result to the event loop unless nobody waits for it any more.

    ``end`` is called in the event loop in any case.
    """
    try:
        tell = partial(done.set_result, function())
    except Exception as error:
        tell = partial(done.set_exception, error)
    with suppress(RuntimeError):  # the event loop has been closed
        done.get_loop().call_soon_threadsafe(lambda: None if done.done() else tell())
        done.get_loop().call_soon_threadsafe(end)


def log_error(error: BaseException) -> None:
    """Log the type and traceback of an error without its message, which may contain a client's text."""
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    # The traceback of a worker process comes as text.
    remote = re.findall(r'^  File "(.*)", line (\d+), in (\w+)$', str(error.__cause__ or ""), re.MULTILINE)
    places += [f"{file}:{line} {name}" for file, line, name in remote]
    log.error("%s at\n  %s", type(error).__name__, "\n  ".join(places))
