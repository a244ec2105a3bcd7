"""The engine: the sentences of many requests, searched in batches by a few workers, each request in its turn.

It lives on the event loop, and nothing here takes long: workers search in threads, or in their own processes. Whatever
arrives while they search is in the next batch. A batch takes one sentence from each waiting request in turn, so that a
single sentence does not wait behind ten thousand of another client.
"""

import asyncio
import logging
import re
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from nmtkit.errors import UserError
from nmtkit.machine.processes import WorkerLost
from nmtkit.serving.limits import QUEUE
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Answer, Batch
from nmtkit.translation.request import Request

log = logging.getLogger(__name__)

# The seconds that a batch should take. A request waits for the batch before its own and for its own; but small batches
# are slow, because each step of search has a fixed cost. At one second, nine tenths of the speed are left.
SECONDS = 1.0
LEAST = 1_000  # characters of a batch: fewer sentences at once take hardly less time
MOST = 2_048  # sentences of a batch
EMPTY = Answer([""], "")


class Refused(Exception):
    """A request that is not answered, with the reason in a sentence."""


class Busy(Refused):
    """The queue is full, or the server is about to end: the client may come again after so many seconds."""

    def __init__(self, reason: str, seconds: int) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Late(Refused):
    """The request has taken too long."""


class Kind(NamedTuple):
    """What must be alike for sentences to be searched in one batch."""

    model: str
    request: Request
    full: bool


class _Work:
    """A request's sentences: which of them wait, and the answers so far."""

    def __init__(self, kind: Kind, sentences: Sequence[str], beside: Sequence[str] | None) -> None:
        self.kind, self.sentences, self.beside = kind, sentences, beside
        self.answers = [EMPTY] * len(sentences)
        # The longest are searched first, so that those of one batch have similar lengths.
        self.waiting = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        self.unanswered = len(sentences)
        self.done: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()

    def weight(self) -> int:
        """The characters that wait, with one for the end of each sentence."""
        return sum(len(self.sentences[i]) + 1 for i in self.waiting)

    def fail(self, error: Exception) -> None:
        """Give the request up for this reason."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # so that asyncio does not complain when the client is gone and does not ask


class Engine:
    """The queue of a server, and its workers: ``search`` is called in as many threads."""

    def __init__(self, search: Callable[[Batch], list[Answer]], workers: int, timeout: float, metrics: Metrics) -> None:
        self._search, self._timeout, self._metrics = search, timeout, metrics
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="search")
        self._idle = workers
        self._ring = deque[_Work]()  # requests with sentences that wait, in the order of their turns
        self._speed = dict[str, float]()  # characters a second of each model
        self._tasks = set[asyncio.Task[None]]()
        self._stopping = False
        self._queued = 0  # characters

    async def answer(self, kind: Kind, sentences: Sequence[str], beside: Sequence[str] | None) -> list[Answer]:
        """The answer to each sentence. Cancelled, it leaves nothing behind but what is being searched.

        Raises Busy when the queue is full or the server about to end, Late after the timeout, and UserError
        where the model cannot do what it is asked.
        """
        work = _Work(kind, sentences, beside)
        weight = work.weight()
        if self._stopping:
            raise Busy("the server is about to end", 10)
        # A request that is larger than the queue finds a place when nobody else waits.
        if self._queued and self._queued + weight > QUEUE:
            raise Busy("the queue is full", self._seconds_left())
        if not sentences:
            return []
        self._ring.append(work)
        self._add(weight, len(sentences))
        self._begin()
        try:
            done, _ = await asyncio.wait([work.done], timeout=self._timeout)
            if not done:
                raise Late(f"the translation took more than {self._timeout:g} seconds")
            return work.done.result()
        finally:
            self._forget(work)

    def stop(self) -> None:
        """Refuse what waits and what comes; what is being searched is finished."""
        self._stopping = True
        for work in list(self._ring):
            self._forget(work)
            work.fail(Busy("the server is about to end", 10))

    async def close(self) -> None:
        """Wait until nothing is searched any more, and end the threads."""
        self.stop()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._threads.shutdown()

    def _seconds_left(self) -> int:
        """About how long the queue will be busy."""
        slowest = min(self._speed.values(), default=LEAST / SECONDS)
        return max(1, min(600, round(self._queued / slowest)))

    def _add(self, characters: int, sentences: int) -> None:
        """Count what joins the queue, or leaves it where it is less than 0."""
        self._queued += characters
        self._metrics.queued_characters.inc(characters)
        self._metrics.queued_sentences.inc(sentences)

    def _forget(self, work: _Work) -> None:
        """Take what waits of a request out of the queue."""
        if work.waiting:
            self._add(-work.weight(), -len(work.waiting))
            work.waiting = []
            self._ring.remove(work)

    def _begin(self) -> None:
        """Give every idle worker a batch, as long as there is one."""
        while self._idle and self._ring:
            self._idle -= 1
            task = asyncio.create_task(self._searched(self._next()))
            self._tasks.add(task)  # the loop itself would forget it
            task.add_done_callback(self._tasks.discard)

    def _budget(self, model: str) -> float:
        """The characters of a batch."""
        return max(LEAST, SECONDS * self._speed.get(model, 0.0))

    def _next(self) -> list[tuple[_Work, int]]:
        """The next batch, as requests with the number of one of their sentences.

        It is of the kind of the request whose turn it is. Others of the same kind are taken along, one sentence of
        each after the other. Those that were not reached come first the next time; those of another kind before them.
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
        """Search a batch and hand its answers out; then the worker is idle again."""
        model = batch[0][0].kind.model
        characters, budget = sum(len(work.sentences[i]) + 1 for work, i in batch), self._budget(model)
        began = time.monotonic()
        try:
            if await self._tried(batch):
                seconds = time.monotonic() - began
                self._metrics.searched(model, [work.sentences[i] for work, i in batch], seconds)
                # A few sentences say little about how fast many are.
                if 2 * characters > budget or model not in self._speed:
                    self._speed[model] = characters / max(seconds, 1e-6)
            elif len({work for work, _ in batch}) > 1:
                # One request's mistake must not be another's: each is searched by itself.
                for work in dict.fromkeys(work for work, _ in batch):
                    await self._tried([(other, i) for other, i in batch if other is work])
        finally:
            self._idle += 1
            self._begin()

    async def _tried(self, batch: list[tuple[_Work, int]]) -> bool:
        """Search a batch in a thread. Where that fails, a request that is alone in it is given up."""
        kind, beside = batch[0][0].kind, None
        if kind.request.prefixes or kind.request.references:
            beside = [work.beside[i] for work, i in batch if work.beside is not None]
        question = Batch(kind.model, kind.request, kind.full, [work.sentences[i] for work, i in batch], beside)
        try:
            answers = await self._in_thread(question)
        except Exception as error:
            work = batch[0][0]
            if all(other is work for other, _ in batch):
                if not isinstance(error, UserError):
                    log_places(error)
                self._forget(work)
                work.fail(error)
            return False
        for (work, i), answer in zip(batch, answers, strict=True):
            work.answers[i] = answer
            work.unanswered -= 1
            if not work.unanswered and not work.done.done():
                work.done.set_result(work.answers)
        return True

    async def _in_thread(self, question: Batch) -> list[Answer]:
        """The answer of a worker; of another one if the first is killed, for which the batch may not be the reason."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._search, question)
        except WorkerLost:
            log.warning("a worker process was killed; another one has its place")
            return await loop.run_in_executor(self._threads, self._search, question)


def log_places(error: BaseException) -> None:
    """Log what kind of error there was and where, but not its message, which may have the text of a client in it."""
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    # Of an error in a worker process the traceback comes as text, with the message at its end.
    there = re.findall(r'^  File "(.*)", line (\d+), in (\w+)$', str(error.__cause__ or ""), re.MULTILINE)
    places += [f"{file}:{line} {name}" for file, line, name in there]
    log.error("%s at\n  %s", type(error).__name__, "\n  ".join(places))
