"""Symmetrisation of alignments in both directions, with the heuristics of Koehn et al. (2005). Results are sorted."""

from collections.abc import Iterable
from typing import Literal

from nmtkit.align.pharaoh import Link

Heuristic = Literal["intersection", "grow-diag", "grow-diag-final"]

# In the order of Koehn's program, which can affect the result; diagonals last.
_NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def symmetrized(heuristic: Heuristic, forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """The links of both directions, combined.

    intersection: those in both directions. grow-diag: also neighbouring links of the union that cover an unaligned
    word. grow-diag-final: after that, also links of either direction that cover an unaligned word.
    """
    forward, reverse = set(forward), set(reverse)
    if heuristic == "intersection":
        return sorted(forward & reverse)
    links, union = forward & reverse, forward | reverse
    src, tgt = {s for s, _ in links}, {t for _, t in links}  # the aligned words

    def add_new_words(candidates: Iterable[Link]) -> None:
        for s, t in candidates:
            if s not in src or t not in tgt:
                links.add((s, t))
                src.add(s)
                tgt.add(t)

    places, before = sorted(union, key=lambda link: link[::-1]), -1  # by target word, like Koehn's program
    while len(links) > before:  # an added link can have neighbours itself
        before = len(links)
        for s, t in places:
            if (s, t) in links:
                add_new_words((s + ds, t + dt) for ds, dt in _NEIGHBOURS if (s + ds, t + dt) in union)
    if heuristic == "grow-diag-final":
        # In the order of Koehn's program: a word aligned by the first direction is no longer unaligned for the second.
        for direction in (forward, reverse):
            add_new_words(sorted(direction))
    return sorted(links)
