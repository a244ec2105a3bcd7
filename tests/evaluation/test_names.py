from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align.posunk import UNKNOWN
from nmtkit.evaluation.names import Names, count_symbols, names, names_kept


def test_a_name_has_a_capital_where_no_sentence_begins() -> None:
    said = 'Tom met Zoë , NATO and Zoë . Then ( " He left " , said Ann ) .'
    assert names(said.split()) == Counter({"Zoë": 2, "NATO": 1, "He": 1, "Ann": 1})
    assert names('" Tom left " !'.split()) == Counter()
    assert names([]) == Counter()


words = st.sampled_from(["a", "Ann", "Bob", "Cid", "."])
sentences = st.lists(st.tuples(*[st.lists(words, max_size=8)] * 4), max_size=4)


@given(sentences, st.sets(words))
def test_a_name_counts_as_often_as_source_reference_and_translation_have_it(
    rows: list[tuple[list[str], list[str], list[str], list[str]]], but: set[str]
) -> None:
    total = kept = 0
    for source, translation, one, two in rows:
        due = names(source) & (Counter(one) | Counter(two))
        due = Counter({name: times for name, times in due.items() if name not in but})
        total += due.total()
        kept += (due & Counter(translation)).total()
    sources, translations, *refs = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
    assert names_kept(sources, refs, translations, but) == Names(total, kept)


def test_every_spelling_of_an_unknown_word_counts() -> None:
    assert count_symbols(["<unk>, <unk>.", "", *UNKNOWN, "unk <unkpos>"]) == 2 + len(UNKNOWN)
