from hypothesis import given
from hypothesis import strategies as st

from nmtkit.evaluation.subsets import Subset, length_bins, longer_than, unknown_free

lengths = st.lists(st.integers(0, 100), max_size=30)


@given(lengths)
def test_every_sentence_is_in_one_bin(lengths: list[int]) -> None:
    found = [row for subset in length_bins(lengths) for row in subset.numbers]
    assert sorted(found) == list(range(len(lengths)))


@given(lengths)
def test_nested_subsets_have_the_longer_sentences(lengths: list[int]) -> None:
    for subset in longer_than(lengths):
        limit = int(subset.name.removeprefix(">"))
        assert [lengths[row] > limit for row in range(len(lengths))] == [
            row in subset.numbers for row in range(len(lengths))
        ]


def test_bins_are_closed_at_their_upper_edge() -> None:
    names = {length: subset.name for length in (0, 10, 11, 20, 21, 70, 71) for subset in length_bins([length])}
    assert names == {0: "≤10", 10: "≤10", 11: "11-20", 20: "11-20", 21: "21-30", 70: "61-70", 71: ">70"}


def test_bins_without_sentences_are_left_out() -> None:
    assert length_bins([3, 45, 3]) == [Subset("≤10", [0, 2]), Subset("41-50", [1])]
    assert [subset.name for subset in longer_than([3, 15])] == [">0", ">10"]
    assert length_bins([]) == longer_than([]) == []


def test_one_unknown_word_in_one_reference_excludes_a_sentence() -> None:
    first = [["a", "b"], ["a"], [], ["b"]]
    second = [["a"], ["c"], [], ["a", "b"]]
    assert unknown_free([first], {"a", "b"}).numbers == [0, 1, 2, 3]
    assert unknown_free([first, second], {"a", "b"}).numbers == [0, 2, 3]


def test_a_subset_selects_its_lines() -> None:
    assert Subset("x", [2, 0]).of(["a", "b", "c"]) == ["c", "a"]
