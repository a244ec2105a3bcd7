"""One alignment out of two, of which one gives each target word a source word and the other the reverse.

The heuristics of Koehn et al. (2005), from few links that are mostly right to many. Links come sorted.
"""

from collections.abc import Iterable
from typing import Literal

from nmtkit.align.pharaoh import Link

Heuristic = Literal["intersection", "grow-diag", "grow-diag-final"]

# In the order of Koehn's program, which the result can depend on; the four diagonals last.
_NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def intersection(forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """The links of both."""
    return sorted(set(forward) & set(reverse))


def grow_diag(forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """The intersection, and links of either that touch what is there and bring in a word that had no link."""
    return sorted(_grow(set(forward), set(reverse)))


def grow_diag_final(forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """The links of ``grow_diag``, then those of either direction, anywhere, that bring in a word without a link."""
    forward, reverse = set(forward), set(reverse)
    links = _grow(forward, reverse)
    src, tgt = {s for s, _ in links}, {t for _, t in links}
    # In this order, as Koehn's program: a word that the first direction links is no longer new for the second.
    for direction in (forward, reverse):
        _add_new_words(links, src, tgt, sorted(direction, key=_by_target))
    return sorted(links)


def _grow(forward: set[Link], reverse: set[Link]) -> set[Link]:
    """The intersection, grown until nothing more touches it; each link that is added can be touched in its turn."""
    # Links that both directions have are precise; those of either one are the candidates to grow into.
    links, union = forward & reverse, forward | reverse
    src, tgt = {s for s, _ in links}, {t for _, t in links}
    places, before = sorted(union, key=_by_target), -1
    while len(links) > before:  # a link that was added may be the neighbour of another one
        before = len(links)
        for s, t in places:
            if (s, t) in links:
                around = [(s + ds, t + dt) for ds, dt in _NEIGHBOURS if (s + ds, t + dt) in union]
                _add_new_words(links, src, tgt, around)
    return links


def _add_new_words(links: set[Link], src: set[int], tgt: set[int], candidates: list[Link]) -> None:
    """Adds, one after the other, candidates with a source or a target word that has no link yet; src, tgt have some."""
    for s, t in candidates:
        # One of the two is enough: the other may be a word that several are linked to.
        if s not in src or t not in tgt:
            links.add((s, t))
            src.add(s)
            tgt.add(t)


def _by_target(link: Link) -> Link:
    """The key to sort by: target word, then source word, as Koehn's program goes through the matrix."""
    return link[::-1]


HEURISTICS = {"intersection": intersection, "grow-diag": grow_diag, "grow-diag-final": grow_diag_final}
