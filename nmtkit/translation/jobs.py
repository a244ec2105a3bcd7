"""Windows of lines translated by this process or by several."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import torch

from nmtkit.align.lexicon import load_lexicon
from nmtkit.data.parallel import Workers, available_cores
from nmtkit.errors import UserError
from nmtkit.ops.matrix import Precision
from nmtkit.search.ensemble import Combine
from nmtkit.translation import loading
from nmtkit.translation.translator import Translation, Translator

SHARED_WINDOW = 256  # lines that a process is given at once; fewer at hand are not worth starting processes

Window: TypeAlias = list[tuple[str, str]]  # lines, each with its prefix or reference


@dataclass(frozen=True)
class Work:
    """What is to be done with a window of lines; a worker process is sent it, and loads the models itself."""

    models: tuple[Path, ...]
    device: str
    combine: Combine | None
    weights: tuple[float, ...] | None
    precision: Precision
    search: tuple[tuple[str, Any], ...]  # settings that differ from the model's own
    n_best: int
    tokenized: bool
    alignment: bool
    attention: bool
    replace_unk: bool
    lexicon: Path | None  # instead of the model's own
    shortlist: int | None  # how many frequent words are in it
    has_prefixes: bool
    has_references: bool
    seed: int | None

    def __call__(self, window: Window) -> list[list[Translation]]:
        lines, others = [line for line, _ in window], [other for _, other in window]
        translator = translator_of(self)
        if self.has_references:
            return [[best] for best in translator.forced(lines, others, tokenized=self.tokenized)]
        return translator.n_best(
            lines, self.n_best, tokenized=self.tokenized, alignment=self.alignment, attention=self.attention,
            lexicon=_lexicon(self), prefixes=others if self.has_prefixes else None, seed=self.seed,
        )  # fmt: skip


@lru_cache(maxsize=1)
def translator_of(work: Work) -> Translator:
    """Raises UserError for models that cannot be used, and settings that do not fit together."""
    if multiprocessing.parent_process():  # each process has a core
        torch.set_num_threads(1)
    translator = loading.load(work.models, work.device, work.combine, work.weights, work.precision)
    try:
        search = replace(translator.search, **dict(work.search))
    except ValueError as error:
        raise UserError(f"--{str(error).replace('_', '-')}") from None
    if "alpha" in dict(work.search) and search.length_penalty not in ("gnmt", "power"):
        raise UserError(
            f"--alpha: without effect on --length-penalty {search.length_penalty}; it belongs to gnmt and power"
        )
    translator = replace(translator, search=search)
    if work.shortlist is None:
        return translator
    path = work.lexicon or translator.lexicon
    if path is None:
        raise UserError(f"--shortlist: {work.models[0]} has no lexicon; give one of nmtkit align with --lexicon")
    return translator.with_shortlists(work.shortlist, path)


@lru_cache(maxsize=1)
def _lexicon(work: Work) -> dict[str, str] | None:
    if not work.replace_unk:
        return None
    path = work.lexicon or translator_of(work).lexicon
    return load_lexicon(path) if path else {}


def processes_for(translator: Translator) -> int:
    """One on a GPU, else one for each core, as far as half the memory holds their models."""
    if translator.device.type != "cpu":
        return 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(available_cores(), memory // 2 // max(1, translator.model_bytes)))


def answers(
    work: Work, windows: Iterator[Window], jobs: int, at_hand: Callable[[], bool]
) -> Iterator[list[list[Translation]]]:
    """The translations of each window, from this process until there is enough to do for several."""
    for window in windows:
        if jobs == 1 or len(window) < SHARED_WINDOW:
            yield work(window)
            continue
        with Workers(jobs) as workers:
            yield from workers.map(work, itertools.chain([window], windows), at_hand)
