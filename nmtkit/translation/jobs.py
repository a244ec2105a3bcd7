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
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch

from nmtkit.folders import CHECKSUMS
from nmtkit.machine import memory, processes
from nmtkit.machine.processes import Workers, available_cores
from nmtkit.ops.matrix import usable
from nmtkit.ops.precision import Precision, Products
from nmtkit.search.settings import Combine
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translation import Translation
from nmtkit.translation.translator import Translator

SHARE, LEAST = 256, 64  # lines sent to a process at once: the maximum, and the approximate minimum

Window: TypeAlias = list[tuple[str, str]]  # lines, each with its prefix or reference
Job: TypeAlias = Callable[[Window], list[list[Translation]]]  # ``translate_window`` with models and request


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


def load_here(models: Models) -> Translator:
    """A translator, with this process prepared for search. Raises UserError for models that cannot be used."""
    if multiprocessing.parent_process():  # a worker, which has its own core
        torch.set_num_threads(1)
    memory.keep()
    with processes.loading():
        return loading.load(*models[:-1])


translator_of = lru_cache(maxsize=1)(load_here)  # the only translator of a process


def translate_window(models: Models, request: Request, window: Window) -> list[list[Translation]]:
    """The translations of every line of a window, best first. Raises UserError like ``Translator.answer``.

    A worker loads the models once, or inherits them by fork.
    """
    lines, others = [line for line, _ in window], [other for _, other in window]
    return translator_of(models).answer(lines, request, others if request.prefixes or request.references else None)


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
            yield from shared(job, itertools.chain([window], windows), jobs, workers, ready)


def shared(
    job: Job, windows: Iterator[Window], jobs: int, workers: Workers, ready: Callable[[], bool]
) -> Iterator[list[list[Translation]]]:
    """The translations of each window, whose ``parts`` are sent to the next idle process."""
    begun = deque[list[list[int]]]()  # the parts of each window that is not translated yet
    more = False  # whether the window of the part that was sent last has another

    def sent() -> Iterator[Window]:
        nonlocal more
        for window in windows:
            begun.append(parts(window, jobs))
            for number, part in enumerate(begun[-1], 1):
                more = number < len(begun[-1])
                yield [window[i] for i in part]

    found = list[list[Translation]]()  # for the earliest window, in the order of its parts
    # Within a window, the next part is ready even if the input is not.
    for translations in workers.map(job, sent(), lambda: more or ready()):
        found += translations
        order = list(itertools.chain.from_iterable(begun[0]))
        if len(found) == len(order):
            of_line = dict(zip(order, found, strict=True))
            yield [of_line[i] for i in range(len(order))]
            begun.popleft()
            found.clear()


def parts(window: Window, jobs: int) -> list[list[int]]:
    """The numbers of the lines of a window, in parts with lines of similar length, longest first.

    In text order, a fifth of a part's batches would be padding. All parts are about the same amount of work, and their
    number is a multiple of ``jobs``. The amount of work is the number of characters plus one per line.
    """
    order = sorted(range(len(window)), key=lambda i: -len(window[i][0]))
    amounts = list(itertools.accumulate(len(window[i][0]) + 1 for i in order))
    count = max(1, min(math.ceil(len(order) / (SHARE * jobs)) * jobs, len(order) // LEAST))
    ends = [bisect_left(amounts, amounts[-1] * number / count) + 1 for number in range(1, count + 1)]
    return [order[i:j] for i, j in itertools.pairwise([0, *ends]) if i < j]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit this process to one thread while the others run."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
