"""Counts of words in bounded memory: sorted runs on disk that are merged as they are read.

A run is text, ``word<TAB>count`` in the order of the words.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from nmtkit.lines import atomic_write, staging_folder

_AT_ONCE = 100  # files that are read together: some systems let a process open no more than 256


def write_run(path: Path, counts: Mapping[str, int]) -> None:
    """Put counts on disk as a run."""
    _write(path, ((word, counts[word]) for word in sorted(counts)))


def merged(runs: Sequence[Path]) -> Iterator[tuple[str, int]]:
    """Every word of the runs once, in order, with the sum of its counts."""
    if len(runs) <= _AT_ONCE:
        # Every run is sorted, so that equal words of all of them come one after the other.
        for word, entries in groupby(heapq.merge(*map(_read, runs)), key=itemgetter(0)):
            yield word, sum(count for _, count in entries)
        return
    # Groups of them first become one run each, on the disk where there was room for all.
    with staging_folder(runs[0].parent) as folder:
        larger = []
        for start in range(0, len(runs), _AT_ONCE):
            larger.append(folder / str(start))
            _write(larger[-1], merged(runs[start : start + _AT_ONCE]))
        yield from merged(larger)


def _write(run: Path, entries: Iterable[tuple[str, int]]) -> None:
    """Put words with their counts, which come in the order of the words, on disk."""
    with atomic_write(run) as file:
        file.writelines(f"{word}\t{count}\n" for word, count in entries)


def _read(run: Path) -> Iterator[tuple[str, int]]:
    """The words of a run with their counts, a line in memory at a time."""
    # Lines end in \n alone: a word may be, or have, another of Unicode's line separators.
    with open(run, encoding="utf-8", newline="\n") as file:
        for line in file:
            word, _, count = line.partition("\t")
            yield word, int(count)


def most_frequent(runs: Sequence[Path], limit: int) -> list[tuple[str, int]]:
    """The words with the highest counts, at most ``limit``, highest first; ties go by the alphabet."""
    return heapq.nsmallest(limit, merged(runs), key=lambda item: (-item[1], item[0]))
