"""Windows of lines translated by this process or by several.

Processes share nothing: each loads the models for itself, and has one thread, since several small products at once are
faster than one after the other with several threads each.
"""

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
from nmtkit.ops.precision import Precision
from nmtkit.search.ensemble import Combine
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translation, Translator

SHARED_WINDOW = 256  # lines that a process is given at once; fewer at hand are not worth starting processes

Window: TypeAlias = list[tuple[str, str]]  # lines, each with its prefix or reference


class Models(NamedTuple):
    """The models to load: the arguments of ``loading.load`` in their order."""

    folders: tuple[Path, ...]
    device: str
    combine: Combine | None
    weights: tuple[float, ...] | None
    precision: Precision
    lexicon: Path | None  # instead of the model's own


@dataclass(frozen=True)
class Job:
    """The work to be done on windows of lines. Workers are sent it with each window, and load the models once."""

    models: Models
    request: Request

    def __call__(self, window: Window) -> list[list[Translation]]:
        """The translations of every line of a window, best first; raises UserError as ``Translator.answer`` does."""
        lines, others = [line for line, _ in window], [other for _, other in window]
        beside = others if self.request.prefixes or self.request.references else None
        return translator_of(self.models).answer(lines, self.request, beside)


@lru_cache(maxsize=1)
def translator_of(models: Models) -> Translator:
    """The translator of this process, loaded once. Raises UserError for models that cannot be used."""
    if multiprocessing.parent_process():  # a worker, which has a core of its own
        torch.set_num_threads(1)
    return loading.load(*models)


def processes_for(translator: Translator) -> int:
    """The fastest number of processes: one on a GPU, else one a core, as far as half the memory holds their models."""
    if translator.device.type != "cpu":
        return 1
    # Each process has a copy of the weights, and needs about as much again to work in.
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(available_cores(), memory // 2 // max(1, translator.model_bytes)))


def answers(
    job: Job, windows: Iterator[Window], jobs: int, at_hand: Callable[[], bool]
) -> Iterator[list[list[Translation]]]:
    """The translations of each window, from this process until there is enough to do for ``jobs`` of them.

    at_hand: whether there is another window without waiting for it; else all answers so far come first.
    """
    for window in windows:
        # Starting processes takes seconds, which a few lines of a dialogue are not worth.
        if jobs == 1 or len(window) < SHARED_WINDOW:
            yield job(window)
            continue
        with Workers(jobs) as workers:
            yield from workers.map(job, itertools.chain([window], windows), at_hand)
