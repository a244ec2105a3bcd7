from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align.pharaoh import Link
from nmtkit.align.symmetrize import symmetrized

intersection = partial(symmetrized, "intersection")
grow_diag, grow_diag_final = partial(symmetrized, "grow-diag"), partial(symmetrized, "grow-diag-final")

links = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)))


# Worked by hand. A row per source word, a cell per target word: F and R are links of the forward and the reverse
# direction, B of both; a small letter is one that growing adds, x and y are F and R that only the final step adds.
@pytest.mark.parametrize(
    "matrix",
    [
        ["B..", ".B.", "..B"],
        ["BF.", "RB.", "..."],  # no word is new
        ["B...", ".f..", "..r.", "...f"],  # step by step
        ["Br.", "fF.", "..."],  # sides before diagonals: (1, 1) comes too late
        ["B...", "....", "..x.", "...y"],  # too far away to grow
        ["B.x", "...", "y.."],  # one new word each
        ["B....", ".....", "..x.R", ".....", "....x"],  # forward first: (2, 4) comes too late
        ["x...", "....", "....", "...y"],  # from nothing
    ],
)
def test_small_alignments_grow_as_computed_by_hand(matrix: list[str]) -> None:
    def cells(kinds: str) -> list[Link]:
        return [(s, t) for s, row in enumerate(matrix) for t, cell in enumerate(row) if cell in kinds]

    forward, reverse = cells("BFfx"), cells("BRry")
    assert intersection(forward, reverse) == cells("B")
    assert grow_diag(forward, reverse) == cells("Bfr")
    assert grow_diag_final(forward, reverse) == cells("Bfrxy")


def grow_diag_of_the_paper(forward: set[Link], reverse: set[Link], final: bool) -> set[Link]:
    """The pseudo-code of Koehn et al. (2005) over the whole matrix, e target and f source words."""
    points = {(e, f) for f, e in forward & reverse}
    union = {(e, f) for f, e in forward | reverse}
    neighbouring = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]

    def is_new(point: Link) -> bool:
        return all(e != point[0] for e, _ in points) or all(f != point[1] for _, f in points)

    added = True
    while added:
        added = False
        for e in range(6):
            for f in range(6):
                for de, df in neighbouring:
                    point = (e + de, f + df)
                    if (e, f) in points and is_new(point) and point in union:
                        points.add(point)
                        added = True
    if final:
        for direction in (forward, reverse):
            for e in range(6):
                for f in range(6):
                    if is_new((e, f)) and (f, e) in direction:
                        points.add((e, f))
    return {(f, e) for e, f in points}


@given(forward=links, reverse=links)
def test_growing_is_the_papers_pseudo_code(forward: set[Link], reverse: set[Link]) -> None:
    assert grow_diag(forward, reverse) == sorted(grow_diag_of_the_paper(forward, reverse, final=False))
    assert grow_diag_final(forward, reverse) == sorted(grow_diag_of_the_paper(forward, reverse, final=True))


@given(forward=links, reverse=links)
def test_each_heuristic_adds_links_and_the_last_leaves_no_word_unaligned(
    forward: set[Link], reverse: set[Link]
) -> None:
    few, more, most = (set(f(forward, reverse)) for f in (intersection, grow_diag, grow_diag_final))
    union = forward | reverse
    assert few <= more <= most <= union
    assert [{word[side] for word in most} for side in (0, 1)] == [{word[side] for word in union} for side in (0, 1)]
