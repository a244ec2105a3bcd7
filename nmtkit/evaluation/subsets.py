"""Subsets of a test set on which papers compare systems: by source length, and without unknown words."""

import itertools
from collections.abc import Container, Sequence
from typing import NamedTuple

BINS = (10, 20, 30, 40, 50, 60, 70)  # maximum length of each bin except the last
LIMITS = (0, 10, 20, 30, 40, 50, 60)  # sources of the nested sets are longer than these


class Subset(NamedTuple):
    """Some sentences of a test set."""

    name: str
    numbers: list[int]  # of the sentences, from 0

    def of(self, lines: Sequence[str]) -> list[str]:
        """The lines of these sentences; ``lines`` has the whole test set."""
        return [lines[number] for number in self.numbers]


def length_bins(lengths: Sequence[int]) -> list[Subset]:
    """Bins of up to 10 words, 11 to 20, ..., more than 70 (Zhou et al. 2016, Fig. 3), without empty ones."""
    names = [f"≤{BINS[0]}", *(f"{low + 1}-{high}" for low, high in itertools.pairwise(BINS)), f">{BINS[-1]}"]
    places = [sum(length > edge for edge in BINS) for length in lengths]  # the bin of each sentence
    bins = [Subset(name, [n for n, place in enumerate(places) if place == i]) for i, name in enumerate(names)]
    return [subset for subset in bins if subset.numbers]


def longer_than(lengths: Sequence[int]) -> list[Subset]:
    """Nested sets of sentences of more than 0, 10, ..., 60 words, without empty ones.

    Meng and Zhang 2019, Fig. 3; Wang et al. 2017, Fig. 2.
    """
    nested = [Subset(f">{limit}", [n for n, length in enumerate(lengths) if length > limit]) for limit in LIMITS]
    return [subset for subset in nested if subset.numbers]


def unknown_free(references: Sequence[Sequence[Sequence[str]]], known: Container[str]) -> Subset:
    """The sentences whose references, as lists of words, have no unknown word (Zhou et al. 2016, Table 9)."""
    sentences = enumerate(zip(*references, strict=True))
    free = [number for number, refs in sentences if all(word in known for words in refs for word in words)]
    return Subset("without unknown words", free)
