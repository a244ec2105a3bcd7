"""Parts of a test set on which papers compare systems: by length of the source, and without unknown words."""

import itertools
from collections.abc import Container, Sequence
from typing import NamedTuple

BINS = (10, 20, 30, 40, 50, 60, 70)
LIMITS = (0, 10, 20, 30, 40, 50, 60)


class Subset(NamedTuple):
    name: str
    rows: list[int]  # sentence numbers from 0

    def of(self, lines: Sequence[str]) -> list[str]:
        return [lines[row] for row in self.rows]


def length_bins(lengths: Sequence[int]) -> list[Subset]:
    """Disjoint: up to 10 words, 11 to 20, ..., more than 70 (Zhou et al. 2016, Fig. 3). Without empty ones."""
    names = [f"≤{BINS[0]}", *(f"{low + 1}-{high}" for low, high in itertools.pairwise(BINS)), f">{BINS[-1]}"]
    numbers = [sum(length > edge for edge in BINS) for length in lengths]
    bins = [Subset(name, [row for row, i in enumerate(numbers) if i == n]) for n, name in enumerate(names)]
    return [subset for subset in bins if subset.rows]


def longer_than(lengths: Sequence[int]) -> list[Subset]:
    """Nested: more than 0, 10, ..., 60 words (Meng and Zhang 2019, Fig. 3; Wang et al. 2017). Without empty ones."""
    nested = [Subset(f">{limit}", [row for row, n in enumerate(lengths) if n > limit]) for limit in LIMITS]
    return [subset for subset in nested if subset.rows]


def unknown_free(references: Sequence[Sequence[Sequence[str]]], known: Container[str]) -> Subset:
    """The sentences of whose references, lists of words, every word is known (Zhou et al. 2016, Table 9)."""
    free = [
        row
        for row, sentences in enumerate(zip(*references, strict=True))
        if all(word in known for words in sentences for word in words)
    ]
    return Subset("without unknown words", free)
