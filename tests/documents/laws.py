"""Made segments, and what must hold of their translations."""

import itertools
from collections import Counter

from hypothesis import strategies as st

from nmtkit.documents.segment import Mark, Segment

WORDS = ["a", "b", "c", "d", "lower", "zebra", ",", ".", "?", "{name}", "%1$s", "&nbsp;", "https://x.org/a?b=1"]


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """A paragraph of up to 14 words with nested markup at any characters, but as formats make it."""
    text = "".join(draw(st.lists(st.sampled_from([*WORDS, " ", " ", " "]), max_size=14)))
    marks: list[Mark] = []

    def fill(start: int, end: int, depth: int) -> None:
        place = start
        for _ in range(draw(st.integers(0, 3 - depth))):
            first = draw(st.integers(place, end))
            last = draw(st.one_of(st.just(first), st.integers(first, end)))
            if first == last == end and depth:
                return  # an empty mark at the end of another is after it
            marks.append(Mark(first, last, len(marks), draw(st.booleans())))
            if first < last:
                fill(first, last, depth + 1)
            place = last

    fill(0, len(text), 0)
    spaces = [0, *(place for place, letter in enumerate(text) if letter == " "), len(text)]
    keep = [(a, b) for a, b in itertools.pairwise(spaces) if draw(st.integers(0, 5)) == 0]
    return Segment(text, tuple(marks), tuple(keep))


def tree(marks: tuple[Mark, ...]) -> list[tuple[object, object]]:
    """Each mark's element with that of the mark around it, in document order. Fails unless they are nested."""
    path: list[Mark] = []
    found: list[tuple[object, object]] = []
    before = 0
    for mark in marks:
        assert before <= mark.start <= mark.end
        while path and not (path[-1].start < path[-1].end and mark.end <= path[-1].end and mark.start < path[-1].end):
            path.pop()
        assert not path or path[-1].start <= mark.start
        found.append((mark.element, path[-1].element if path else None))
        path.append(mark)
        before = mark.start
        for outer in path[:-1]:
            assert mark.end <= outer.end
    return found


def check(source: Segment, target: Segment) -> None:
    """The laws of markup: nested, every element once or, if it splits, at least once; empty ones stay empty."""
    before, after = tree(source.marks), tree(target.marks)
    times = Counter(element for element, _ in after)
    assert times.keys() == {element for element, _ in before}
    kinds = {mark.element: mark for mark in source.marks}
    for mark in target.marks:
        assert 0 <= mark.start <= mark.end <= len(target.text)
        own = kinds[mark.element]
        assert mark.splits == own.splits
        if not own.splits or own.start == own.end:
            assert times[mark.element] == 1
        if own.start == own.end:
            assert mark.start == mark.end
        if mark.start < mark.end:
            assert target.text[mark.start : mark.end].strip() == target.text[mark.start : mark.end]
