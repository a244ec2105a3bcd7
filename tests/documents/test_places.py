import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.documents.places import Builder, divided, joined, paired, tagged, trimmed, untagged, walk
from nmtkit.documents.segment import Mark, Segment

steps = st.lists(st.sampled_from([" ", "a", "b c", "start", "end", "empty"]), max_size=20)


def built(steps: list[str]) -> Segment:
    """A segment in which each element that is not empty begins with an x."""
    builder, depth = Builder(), 0
    for number, step in enumerate(steps):
        match step:
            case "start":
                builder.start(number, splits=True)
                builder.text("x")
                depth += 1
            case "end" if depth:
                builder.end()
                depth -= 1
            case "empty":
                builder.empty(number)
            case "end":
                pass
            case _:
                builder.text(step)
    for _ in range(depth):
        builder.end()
    return builder.segment()


@given(steps)
def test_a_walk_has_all_text_and_each_element_once_and_nests(steps: list[str]) -> None:
    segment = built(steps)
    inside, texts, ended = [], [], []
    for kind, element, text in walk(segment):
        match kind:
            case "text":
                assert text
                texts.append(text)
            case "start":
                inside.append(element)
            case "end":
                assert inside.pop() == element
                ended.append(element)
    assert "".join(texts) == "".join({"start": "x"}.get(step, step.strip("empty")) for step in steps if step != "end")
    assert inside == []
    assert sorted(ended) == sorted(mark.element for mark in segment.marks)


@pytest.mark.parametrize(("place", "spaced", "after"), [(1, False, "B"), (2, False, "B"), (2, True, " B")])
def test_an_image_after_a_line_break_has_only_its_own_space_behind_it(place: int, spaced: bool, after: str) -> None:
    marks = Mark(place, place, "br", False, layout=True), Mark(place, place, "img", False, spaced)
    steps = [element or text for kind, element, text in walk(Segment("A B", marks)) if kind != "end"]
    assert steps == ["A", "br", "img", after]


@given(steps)
def test_a_segment_is_what_is_trimmed_of_it_and_the_rest(steps: list[str]) -> None:
    segment = built(steps)
    before, inner, after = parts = trimmed(segment)
    whole = joined(parts)
    assert whole.text == segment.text
    assert [mark.element for mark in whole.marks] == [mark.element for mark in segment.marks]
    assert inner.text == segment.text.strip()
    assert all(mark.start == mark.end for part in (before, after) for mark in part.marks)


@given(steps, st.lists(st.integers(0, 12), max_size=4))
def test_parts_of_a_segment_have_all_its_words_and_elements(steps: list[str], places: list[int]) -> None:
    segment = built(steps)
    cuts = sorted(min(place, len(segment.text)) for place in places)
    parts = divided(segment, cuts)
    assert len(parts) == len(cuts) + 1
    assert "".join("".join(part.text.split()) for part in parts) == "".join(segment.text.split())
    found = [mark.element for part in parts for mark in part.marks]
    assert set(found) == {mark.element for mark in segment.marks}
    empty = [mark.element for mark in segment.marks if mark.start == mark.end]
    assert [element for element in found if element in empty] == empty
    for part in parts:
        assert part.text == part.text.strip()
        assert sum(step.kind == "start" for step in walk(part)) == len(part.marks)


@given(st.text(st.sampled_from("ab <>/&;i!-=\"'{}\\1:.\n")))
def test_a_string_is_its_segment_with_its_tags(string: str) -> None:
    assert untagged(tagged(string)) == string


@pytest.mark.parametrize(
    "string", ["a<br>b", "a <b>b</b><br/><BR><i>c</i>", "a <br>b<br> c <br> d", "<br>a<br><br>b<br>"]
)
def test_a_line_break_in_a_string_separates_words_and_comes_back(string: str) -> None:
    assert tagged(string).text.split() == [*filter(str.islower, re.split("<[^<>]*>| ", string))]
    assert untagged(tagged(string)) == string


def test_tags_that_nest_are_markup_and_others_are_text() -> None:
    assert tagged("a <b>c</b><br/>").marks == (
        Mark(2, 3, ("<b>", "</b>"), True), Mark(3, 3, ("<br/>", ""), False))  # fmt: skip
    assert tagged('<A href="x">b</A>') == Segment("b", (Mark(0, 1, ('<A href="x">', "</A>"), False),))
    assert tagged("<c.d.e>b</c>") == Segment("b", (Mark(0, 1, ("<c.d.e>", "</c>"), True),))
    for string in ("a <b>c", "a</b>", "<i>a<b>c</i></b>", "a < b", "<b >a</b >", "<!-- a -->"):
        assert tagged(string) == Segment(string)


@pytest.mark.parametrize("unit", ["<a ", "<a b='c' ", "<a", "<!--", "</", "<?", "< ", "<b>x</b> "])
def test_tags_take_time_in_proportion_to_the_text(unit: str) -> None:
    began = time.process_time()
    for length in (20_000, 400_000):
        assert untagged(tagged(unit * (length // len(unit)))) == unit * (length // len(unit))
    assert time.process_time() - began < 5


def test_an_element_between_spaces_has_them_wherever_it_goes_and_the_text_has_one() -> None:
    segment = tagged("a <br> <hr> b.")
    assert segment.text == "a b."
    assert untagged(segment) == "a <br> <hr> b."
    for place, written in ((0, "<br> <hr> c d."), (1, "c <br> <hr> d."), (2, "c <br> <hr> d."), (3, "c d <br> <hr>.")):
        marks = tuple(mark._replace(start=place, end=place) for mark in segment.marks)
        assert untagged(Segment("c d.", marks)) == written


def test_times_and_positions_in_subtitles_are_copied() -> None:
    assert tagged("{\\an8}one <00:01.000>two").keep == ((0, 6), (10, 21))


def test_pairs_are_of_neighbours_that_nest() -> None:
    assert paired(["opens", "", "opens", "closes", "closes", "closes"]) == {0: 4, 4: 0, 2: 3, 3: 2}
