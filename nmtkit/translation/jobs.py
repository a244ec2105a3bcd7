"""Windows of lines translated by this process or by several."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch

from nmtkit.data.parallel import Workers, available_cores
from nmtkit.ops.matrix import Precision
from nmtkit.search.ensemble import Combine
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translation, Translator

SHARED_WINDOW = 256  # lines that a process is given at once; fewer at hand are not worth starting processes

Window: TypeAlias = list[tuple[str, str]]  # lines, each with its prefix or reference


class Models(NamedTuple):
    """What ``loading.load`` is told to load."""

    folders: tuple[Path, ...]
    device: str
    combine: Combine | None
    weights: tuple[float, ...] | None
    precision: Precision
    lexicon: Path | None  # instead of the model's own


@dataclass(frozen=True)
class Job:
    """What is to be done with a window of lines; a worker process is sent it, and loads the models itself."""

    models: Models
    request: Request

    def __call__(self, window: Window) -> list[list[Translation]]:
        lines, others = [line for line, _ in window], [other for _, other in window]
        beside = others if self.request.prefixes or self.request.references else None
        return translator_of(self.models).answer(lines, self.request, beside)


@lru_cache(maxsize=1)
def translator_of(models: Models) -> Translator:
    """The translator of this process. Raises UserError for models that cannot be used."""
    if multiprocessing.parent_process():  # each process has a core
        torch.set_num_threads(1)
    return loading.load(*models)


def processes_for(translator: Translator) -> int:
    """One on a GPU, else one for each core, as far as half the memory holds their models."""
    if translator.device.type != "cpu":
        return 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(available_cores(), memory // 2 // max(1, translator.model_bytes)))


def answers(
    job: Job, windows: Iterator[Window], jobs: int, at_hand: Callable[[], bool]
) -> Iterator[list[list[Translation]]]:
    """The translations of each window, from this process until there is enough to do for several."""
    for window in windows:
        if jobs == 1 or len(window) < SHARED_WINDOW:
            yield job(window)
            continue
        with Workers(jobs) as workers:
            yield from workers.map(job, itertools.chain([window], windows), at_hand)
