"""Symmetrisation of alignments in both directions, with the heuristics of Koehn et al. (2005). Results are sorted."""

from collections.abc import Iterable
from typing import Literal

from nmtkit.align.pharaoh import Link

Heuristic = Literal["intersection", "grow-diag", "grow-diag-final"]

# In the order of Koehn's program, which can affect the result; diagonals last.
_NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def intersection(forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """The links in both directions."""
    return sorted(set(forward) & set(reverse))


def grow_diag(forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """The intersection, extended by neighbouring links of the union that cover an unaligned word."""
    return sorted(_grow(set(forward), set(reverse)))


def grow_diag_final(forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """``grow_diag``, extended by links of either direction that cover an unaligned word."""
    forward, reverse = set(forward), set(reverse)
    links = _grow(forward, reverse)
    src, tgt = {s for s, _ in links}, {t for _, t in links}
    # In the order of Koehn's program: a word aligned by the first direction is no longer unaligned for the second.
    for direction in (forward, reverse):
        _add_new_words(links, src, tgt, sorted(direction, key=_by_target))
    return sorted(links)


def _grow(forward: set[Link], reverse: set[Link]) -> set[Link]:
    """The intersection, grown through neighbouring links until nothing changes."""
    links, union = forward & reverse, forward | reverse
    src, tgt = {s for s, _ in links}, {t for _, t in links}
    places, before = sorted(union, key=_by_target), -1
    while len(links) > before:  # an added link can have neighbours itself
        before = len(links)
        for s, t in places:
            if (s, t) in links:
                around = [(s + ds, t + dt) for ds, dt in _NEIGHBOURS if (s + ds, t + dt) in union]
                _add_new_words(links, src, tgt, around)
    return links


def _add_new_words(links: set[Link], src: set[int], tgt: set[int], candidates: list[Link]) -> None:
    """Add, one by one, the candidates whose source or target word is unaligned; src, tgt are the aligned words."""
    for s, t in candidates:
        if s not in src or t not in tgt:
            links.add((s, t))
            src.add(s)
            tgt.add(t)


def _by_target(link: Link) -> Link:
    """Sort key: target word, then source word, the order of Koehn's program."""
    return link[::-1]


HEURISTICS = {"intersection": intersection, "grow-diag": grow_diag, "grow-diag-final": grow_diag_final}
