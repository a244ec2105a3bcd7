import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align.posunk import annotate, nearest, replace_unknown
from nmtkit.symbols import SPELLINGS, UNK, UNKPOS

SYMBOLS = (*SPELLINGS, *UNKPOS)
LEXICON = {"ecotax": "Ökosteuer"}


def spelled(ids: list[int]) -> list[str]:
    return [SYMBOLS[id] if id < len(SYMBOLS) else "word" for id in ids]


def replaced(target: str, source: str, links: list[tuple[int, int]]) -> str:
    return " ".join(replace_unknown(target.split(), links, source.lower().split(), source.split(), LEXICON))


def test_there_are_sixteen_symbols() -> None:
    assert len(UNKPOS) == 16
    assert (UNKPOS[0], UNKPOS[7], UNKPOS[14], UNKPOS[15]) == (
        "<unkpos_-7>", "<unkpos_0>", "<unkpos_7>", "<unkpos_null>",
    )  # fmt: skip


def test_an_unknown_word_says_how_far_to_the_left_its_source_word_is() -> None:
    # The target's 0 and 2 are linked to the source's 1 and 0: i = j - d.
    assert spelled(annotate([UNK, 50, UNK, UNK], [(1, 0), (0, 1), (0, 2)])) == [
        "<unkpos_-1>", "word", "<unkpos_2>", "<unkpos_null>",
    ]  # fmt: skip


@pytest.mark.parametrize(("s", "symbol"), [(1, "<unkpos_7>"), (15, "<unkpos_-7>"), (0, UNKPOS[-1]), (16, UNKPOS[-1])])
def test_seven_places_are_the_farthest(s: int, symbol: str) -> None:
    assert spelled(annotate([50] * 8 + [UNK], [(s, 8)]))[8] == symbol


def test_of_several_links_the_nearest_counts_and_then_the_left_one() -> None:
    assert nearest([(0, 3), (5, 3), (4, 3), (2, 3)]) == {3: 2}
    assert nearest([(4, 3), (9, 3), (0, 0), (7, 1)]) == {3: 4, 0: 0, 1: 7}


def test_a_word_is_translated_by_the_lexicon_or_copied_as_the_user_wrote_it() -> None:
    assert replaced("die <unkpos_0> in <unkpos_-1>", "the Ecotax in Greater Pontypridd", []) == (
        "die Ökosteuer in Pontypridd"
    )
    assert replaced("die <unk> in <unk>", "the Ecotax in Pontypridd", [(1, 1), (3, 3)]) == "die Ökosteuer in Pontypridd"


@pytest.mark.parametrize("symbol", ["<unkpos_1>", "<unkpos_-2>", "<unkpos_null>", "<unk>"])
def test_where_no_source_word_is_named_the_word_stays_unknown(symbol: str) -> None:
    assert replaced(f"{symbol} b", "one two", [(1, 1)]) == "<unk> b"


@given(st.lists(st.sampled_from([UNK, 30]), max_size=12), st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11))))
def test_replacing_undoes_annotating(ids: list[int], links: set[tuple[int, int]]) -> None:
    source = [f"s{i}" for i in range(12)]
    places = nearest(links)
    result = replace_unknown(spelled(annotate(ids, links)), [], source, source, {})
    for t, (id, word) in enumerate(zip(ids, result, strict=True)):
        near = t in places and abs(places[t] - t) <= 7
        assert word == ("word" if id != UNK else source[places[t]] if near else "<unk>")
