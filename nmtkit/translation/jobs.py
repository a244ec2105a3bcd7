"""Translation of windows of lines by one or several processes.

Each process has one thread, because several small products in parallel are faster than one product with several
threads. The main process is one of them. On Linux the others are forked and share the loaded models; elsewhere each
loads the models, which takes seconds, so they are started only on request.
"""

import itertools
import math
import multiprocessing
import zlib
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch

from nmtkit.folders import CHECKSUMS
from nmtkit.machine import memory, processes
from nmtkit.machine.processes import Workers, available_cores
from nmtkit.ops.matrix import usable
from nmtkit.ops.precision import Precision, Products
from nmtkit.search.ensemble import Combine
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator

SHARE, LEAST = 256, 64  # lines sent to a process at once: the maximum, and the approximate minimum

Window: TypeAlias = list[tuple[str, str]]  # lines, each with its prefix or reference


class Models(NamedTuple):
    """The models to load: the arguments of ``loading.load`` in their order, then a checksum.

    Processes are sent those ``resolved``.
    """

    folders: tuple[Path, ...]
    device: str
    combine: Combine | None
    weights: tuple[float, ...] | None
    precision: Precision
    lexicon: Path | None  # instead of the model's own
    products: Products | None = None  # the resolved precision, once known
    sums: int = 0  # the ``checksum``, once known: a model that has changed since then is another one

    def resolved(self) -> "Models":
        """The same with the precision resolved, because processes might measure different ones, and the checksum.

        Raises UserError for a device or a precision that cannot be used.
        """
        products = usable(self.precision, loading.choose_device(self.device))
        return self._replace(products=products, sums=self.checksum())

    def checksum(self) -> int:
        """A CRC-32 of the folders' absolute paths and of the checksums in them."""
        files = [file for folder in self.folders for file in sorted(folder.rglob(CHECKSUMS)) if file.is_file()]
        places = "\n".join(str(folder.absolute()) for folder in self.folders)
        return zlib.crc32(b"".join([places.encode(errors="surrogateescape"), *(file.read_bytes() for file in files)]))


@dataclass(frozen=True)
class Job:
    """A translation task, sent to workers with each window. They load the models once, or inherit them by fork."""

    models: Models
    request: Request

    def __call__(self, window: Window) -> list[list[Translation]]:
        """The translations of every line of a window, best first. Raises UserError like ``Translator.answer``."""
        lines, others = [line for line, _ in window], [other for _, other in window]
        targets = others if self.request.prefixes or self.request.references else None
        return translator_of(self.models).answer(lines, self.request, targets)


def load_here(models: Models) -> Translator:
    """A translator, with this process prepared for search. Raises UserError for models that cannot be used."""
    if multiprocessing.parent_process():  # a worker, which has its own core
        torch.set_num_threads(1)
    memory.keep()
    with processes.loading():
        return loading.load(*models[:-1])


translator_of = lru_cache(maxsize=1)(load_here)  # the only translator of a process


def processes_for(translator: Translator) -> int:
    """The fastest number of processes: one on a GPU, else one per core if half the memory can hold their models."""
    if translator.device.type != "cpu":
        return 1
    # A process that is not forked has its own weights; search needs about as much memory again.
    return max(1, min(available_cores(), memory.installed_memory() // 2 // max(1, translator.model_bytes)))


def answers(
    job: Job, windows: Iterator[Window], jobs: int, ready: Callable[[], bool], *, copies: bool
) -> Iterator[list[list[Translation]]]:
    """The translations of each window, by ``jobs`` processes, which are started for the first window of many lines.

    ready: whether the next line can be read without blocking; if not, all pending translations are yielded first.
    """
    for window in windows:
        if jobs == 1 or len(window) < 2 * LEAST:
            yield job(window)
            continue
        with one_thread(), Workers(jobs, helping=True, fork=copies) as workers:
            yield from shared(job, (Parts(each, jobs) for each in itertools.chain([window], windows)), workers, ready)


def shared(
    job: Job, windows: Iterator["Parts"], workers: Workers, ready: Callable[[], bool]
) -> Iterator[list[list[Translation]]]:
    """The translations of each window, whose parts are sent to the next idle process."""
    begun = deque[Parts]()

    def parts() -> Iterator[Window]:
        for window in windows:
            begun.append(window)
            while window.left:
                yield window.next()

    # Within a window, the next part is ready even if the input is not.
    for found in workers.map(job, parts(), lambda: bool(begun[-1].left) or ready()):
        begun[0].put(found)
        if begun[0].done == begun[0].size:
            yield begun.popleft().answers


class Parts:
    """A window in parts for ``jobs`` processes, with lines of similar length, longest first; and their translations.

    In text order, a fifth of a part's batches would be padding. All parts are about the same amount of work, and their
    number is a multiple of ``jobs``. The amount of work is the number of characters plus one per line.
    """

    def __init__(self, window: Window, jobs: int) -> None:
        order = sorted(range(len(window)), key=lambda i: -len(window[i][0]))
        self._window = window
        amounts = list(itertools.accumulate(self._amount([i]) for i in order))
        self.size = self.left = amounts[-1]  # left: not yet in any part
        count = max(1, min(math.ceil(len(order) / (SHARE * jobs)) * jobs, len(order) // LEAST))
        ends = [bisect_left(amounts, self.size * number / count) + 1 for number in range(1, count + 1)]
        self._todo = deque(order[i:j] for i, j in itertools.pairwise([0, *ends]) if i < j)
        self._begun = deque[list[int]]()
        self.done = 0
        self.answers = [list[Translation]() for _ in window]  # in the order of the window, complete when all is done

    def next(self) -> Window:
        """The next part."""
        part = self._todo.popleft()
        self._begun.append(part)
        self.left -= self._amount(part)
        return [self._window[i] for i in part]

    def put(self, found: list[list[Translation]]) -> None:
        """Store the answers to the earliest part without answers."""
        part = self._begun.popleft()
        for i, translations in zip(part, found, strict=True):
            self.answers[i] = translations
        self.done += self._amount(part)

    def _amount(self, part: list[int]) -> int:
        return sum(len(self._window[i][0]) + 1 for i in part)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit this process to one thread while the others run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
