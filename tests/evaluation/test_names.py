from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align.posunk import UNKNOWN
from nmtkit.evaluation.names import Names, count_symbols, names, names_kept


def test_a_name_is_capitalised_not_only_at_the_beginning_of_a_sentence() -> None:
    said = 'Tom met Zoë , NATO and Zoë . Then ( " He left " , said Ann ) .'
    assert names(said.split(), {"then", "he"}) == Counter({"Tom": 1, "Zoë": 2, "NATO": 1, "He": 1, "Ann": 1})
    assert names('" Then left " !'.split(), {"then"}) == Counter()
    assert names([], set()) == Counter()


def test_a_word_that_occurs_in_lower_case_is_not_a_name_at_the_beginning_of_a_sentence() -> None:
    sources = ["In Rome it rains .".split(), "It rains in Rome .".split()]
    refs = ["In Rome regnet it .".split(), "It regnet in Rome .".split()]
    assert names_kept(sources, [refs], refs, ()) == Names(2, 2)
    assert names_kept(sources, [refs], [["In"], ["It", "Rome"]], ()) == Names(2, 1)


words = st.sampled_from(["a", "Ann", "Bob", "Cid", "A", "."])
sentences = st.lists(st.tuples(*[st.lists(words, max_size=8)] * 4), max_size=4)


@given(sentences, st.sets(words))
def test_a_name_counts_as_often_as_source_reference_and_translation_all_have_it(
    rows: list[tuple[list[str], list[str], list[str], list[str]]], but: set[str]
) -> None:
    total = kept = 0
    common = {"a"} if any("a" in words for source, _, one, two in rows for words in (source, one, two)) else set[str]()
    for source, translation, one, two in rows:
        due = names(source, common) & (Counter(one) | Counter(two))
        due = Counter({name: times for name, times in due.items() if name not in but})
        total += due.total()
        kept += (due & Counter(translation)).total()
    sources, translations, *refs = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
    assert names_kept(sources, refs, translations, but) == Names(total, kept)


def test_every_spelling_of_an_unknown_word_counts() -> None:
    assert count_symbols(["<unk>, <unk>.", "", *UNKNOWN, "unk <unkpos>"]) == 2 + len(UNKNOWN)
