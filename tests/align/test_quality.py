import pytest

from nmtkit.align.pharaoh import Gold
from nmtkit.align.quality import measure

GOLD = [Gold({(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2)}), Gold({(0, 0)}, {(0, 0)})]


def test_precision_counts_possible_links_and_recall_sure_ones() -> None:
    found = [[(0, 0), (1, 2), (2, 2)], [(0, 0)]]  # of 4 links 2 are sure, 3 possible; 3 are sure in the gold
    assert measure(found, GOLD) == pytest.approx((3 / 4, 2 / 3, 1 - (2 + 3) / (4 + 3)))


def test_an_alignment_between_sure_and_possible_links_has_no_error() -> None:
    for gold in (GOLD[0].sure, GOLD[0].possible):
        assert measure([gold, GOLD[1].sure], GOLD) == (1, 1, 0)


def test_without_links_precision_and_recall_are_0() -> None:
    assert measure([[], []], GOLD) == (0, 0, 1)
