"""Word counts in bounded memory: sorted runs on disk, merged while they are read.

A run is a text file of ``word<TAB>count`` lines, sorted by word.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from nmtkit.writing import atomic_write, staging_folder

_AT_ONCE = 100  # open files; some systems allow only 256 per process


def write_run(path: Path, entries: Iterable[tuple[str, int]]) -> None:
    """Write words, sorted, with their counts."""
    with atomic_write(path) as file:
        file.writelines(f"{word}\t{count}\n" for word, count in entries)


def merged(runs: Sequence[Path]) -> Iterator[tuple[str, int]]:
    """The words of all runs, sorted, with their total counts."""
    if len(runs) <= _AT_ONCE:
        for word, entries in groupby(heapq.merge(*map(_read, runs)), key=itemgetter(0)):
            yield word, sum(count for _, count in entries)
        return
    # Merge groups of runs into larger runs first.
    with staging_folder(runs[0].parent) as folder:
        larger = []
        for start in range(0, len(runs), _AT_ONCE):
            larger.append(folder / str(start))
            write_run(larger[-1], merged(runs[start : start + _AT_ONCE]))
        yield from merged(larger)


def _read(run: Path) -> Iterator[tuple[str, int]]:
    """The words of a run and their counts, read line by line."""
    # newline="\n": words may contain other line separators of Unicode.
    with open(run, encoding="utf-8", newline="\n") as file:
        for line in file:
            word, _, count = line.partition("\t")
            yield word, int(count)


def most_frequent(counts: Iterable[tuple[str, int]], limit: int) -> list[tuple[str, int]]:
    """The ``limit`` most frequent words, most frequent first; ties in alphabetical order."""
    return heapq.nsmallest(limit, counts, key=lambda item: (-item[1], item[0]))
