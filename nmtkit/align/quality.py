"""Alignment quality against a manual gold standard (Och & Ney 2003)."""

from collections.abc import Iterable
from typing import NamedTuple

from nmtkit.align.pharaoh import Gold, Link


class Quality(NamedTuple):
    """Figures over all sentence pairs; A: alignment links, S: sure gold links, P: possible ones, which include S."""

    precision: float  # |A & P| / |A|
    recall: float  # |A & S| / |S|
    aer: float  # alignment error rate, 1 - (|A & S| + |A & P|) / (|A| + |S|)


def measure(alignments: Iterable[Iterable[Link]], golds: Iterable[Gold]) -> Quality:
    """The quality of alignments against gold ones, of the same number; precision is 0 without links."""
    # Summed over the whole set; a mean over sentences would overweight short ones.
    links = sure = right_sure = right_possible = 0
    for alignment, gold in zip(map(set, alignments), golds, strict=True):
        links += len(alignment)
        sure += len(gold.sure)
        right_sure += len(alignment & gold.sure)
        right_possible += len(alignment & gold.possible)
    return Quality(
        right_possible / max(1, links),
        right_sure / max(1, sure),
        1 - (right_sure + right_possible) / max(1, links + sure),
    )
