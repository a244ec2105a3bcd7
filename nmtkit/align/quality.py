"""The quality of an alignment against a gold standard made by people (Och & Ney 2003)."""

from collections.abc import Iterable
from typing import NamedTuple

from nmtkit.align.pharaoh import Gold, Link


class Quality(NamedTuple):
    """Figures over all sentence pairs: A are the links of the alignment, S the sure gold links, P the possible ones.

    Every sure link is a possible one.
    """

    precision: float  # |A & P| / |A|
    recall: float  # |A & S| / |S|
    aer: float  # alignment error rate, 1 - (|A & S| + |A & P|) / (|A| + |S|)


def measure(alignments: Iterable[Iterable[Link]], golds: Iterable[Gold]) -> Quality:
    """The quality of alignments, pair by pair, beside the gold ones, of which there must be as many.

    Without any link there is no precision, which is then 0.
    """
    # Counted over the whole set and divided once: a mean over sentences would weigh short ones as much as long ones.
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
