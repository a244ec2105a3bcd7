import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align.posunk import (
    LEAST,
    UNKNOWN,
    Replacement,
    annotate,
    counts,
    match,
    match_unknown,
    nearest,
    nearness,
    replace_unknown,
)
from nmtkit.symbols import SPELLINGS, UNK, UNKPOS

SYMBOLS = (*SPELLINGS, *UNKPOS)
LEXICON = {"ecotax": "Ökosteuer"}


def spelled(ids: list[int]) -> list[str]:
    return [SYMBOLS[id] if id < len(SYMBOLS) else "word" for id in ids]


def replaced(target: str, source: str, links: list[tuple[int, int]]) -> str:
    words, _ = replace_unknown(target.split(), links, source.lower().split(), source.split(), LEXICON)
    return " ".join(words)


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
    result, _ = replace_unknown(spelled(annotate(ids, links)), [], source, source, {})
    for t, (id, word) in enumerate(zip(ids, result, strict=True)):
        near = t in places and abs(places[t] - t) <= 7
        assert word == ("word" if id != UNK else source[places[t]] if near else "<unk>")


def matched(target: str, source: str, looks: dict[int, list[float]], links: list[tuple[int, int]]) -> str:
    read = source.lower().split()
    known = {"die", "in", "kommt"}
    lexicon = LEXICON | {"the": "die", "in": "in", "comes": "kommt"}
    words, replacements = match_unknown(target.split(), links, looks, read, source.split(), lexicon, known)
    assert counts(replacements).left == words.count("<unk>")
    assert sum(counts(replacements)) == sum(word in UNKNOWN for word in target.split())
    for t, s, translated in replacements:
        assert words[t] == ("<unk>" if s is None else lexicon[read[s]] if translated else source.split()[s])
    return " ".join(words)


def test_an_unknown_word_comes_from_no_word_whose_translation_is_known() -> None:
    looks = {0: [0.05, 0.75, 0.2]}
    assert replaced("<unk> kommt", "Alsara comes in", [(1, 0)]) == "comes kommt"
    assert matched("<unk> kommt", "Alsara comes in", looks, [(1, 0)]) == "Alsara kommt"


def test_what_was_hardly_looked_at_is_no_origin() -> None:
    assert matched("<unk>", "Alsara comes in", {0: [LEAST, 0.7, 0.2]}, [(1, 0)]) == "Alsara"
    assert matched("<unk>", "Alsara comes in", {0: [LEAST / 2, 0.7, 0.2]}, [(1, 0)]) == "kommt"


def test_unknown_words_have_origins_of_their_own_as_far_as_there_are_some() -> None:
    looks = {0: [0.6, 0.3], 1: [0.9, 0.1]}
    assert match({}, looks, [True, True]) == {0: 1, 1: 0}
    assert match({0: 1, 1: 1}, looks, [True, False]) == {0: 1, 1: 0}
    assert match({0: 1, 1: 0}, looks, [False, False]) == {0: 1, 1: 0}


def test_a_word_that_looks_at_the_end_of_the_sentence_may_come_from_an_unknown_one() -> None:
    assert matched("die <unk>", "the Alsara", {1: [0.1, 0.3]}, []) == "die Alsara"
    assert matched("die <unk>", "the comes", {1: [0.1, 0.3]}, []) == "die <unk>"


def test_a_place_whose_word_cannot_be_the_origin_is_corrected_nearby() -> None:
    def corrected(target: str, links: list[tuple[int, int]]) -> str:
        looks = nearness(target.split(), links, 4)
        return matched(target, "Alsara comes in Pontypridd", looks, links)

    assert corrected("<unkpos_-1> kommt in <unkpos_0>", []) == "Alsara kommt in Pontypridd"
    assert corrected("<unk> kommt in <unk>", [(1, 0), (2, 3)]) == "Alsara kommt in Pontypridd"
    assert corrected("die die die <unkpos_1>", []) == "die die die Pontypridd"
    assert corrected("die die die <unkpos_null>", []) == "die die die <unk>"
    assert nearness(["<unkpos_0>"], [], 4) == {0: [1.0, 0.5, 0.25, 0.0]}


@pytest.mark.parametrize(
    "typed", ["1,000", "3.14", "-5%", "24.12.2026", "10:30", "A.B@c-d.org", "https://x.org/?q=1", "WWW.x.org"]
)
def test_numbers_dates_and_addresses_are_copied_as_typed(typed: str) -> None:
    result = match_unknown(["<unk>"], [(0, 0)], {0: [1.0]}, [typed.lower()], [typed], {typed.lower(): "other"}, set())
    assert result == ([typed], [Replacement(0, 0, False)])


@pytest.mark.parametrize("typed", ["1990s", "B2B", "@", "x@", "www.", "A.B"])
def test_other_words_are_translated_by_the_lexicon(typed: str) -> None:
    assert match_unknown(["<unk>"], [(0, 0)], {0: [1.0]}, [typed], [typed], {typed: "other"}, set()) == (
        ["other"],
        [Replacement(0, 0, True)],
    )


words = st.sampled_from(["a", "b", "<unk>", "<unkpos_1>", "<unkpos_-2>", "<unkpos_null>"])


some_looks = st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=6, max_size=6)


@given(st.lists(words, max_size=6), some_looks, st.sets(st.sampled_from("wxyz")))
def test_only_unknown_words_change_and_where_none_can_be_unknown_it_is_the_papers_rule(
    target: list[str], weights: list[list[int]], known: set[str]
) -> None:
    source = list("wxyz")
    looks = {t: [w / 10 for w in weights[t]] for t, word in enumerate(target) if word == "<unk>"}
    links = [(row.index(max(row)), t) for t, row in looks.items()]
    looks |= nearness(target, [], 4)
    result, _ = match_unknown(target, links, looks, source, source, {}, known)
    assert [a for a, b in zip(result, target, strict=True) if b not in UNKNOWN] == [
        w for w in target if w not in UNKNOWN
    ]
    assert match_unknown(target, links, looks, source, source, {}, set(source)) == replace_unknown(
        target, links, source, source, {}
    )
    if len(looks) == 1:
        for t, row in looks.items():
            if any(look >= LEAST and word not in known for look, word in zip(row, source, strict=True)):
                assert result[t] not in known


@given(st.lists(st.lists(st.floats(LEAST, 1.0), min_size=5, max_size=5), min_size=1, max_size=5))
def test_as_many_unknown_words_as_there_are_origins_have_one_of_their_own(rows: list[list[float]]) -> None:
    origins = match({}, dict(enumerate(rows)), [True] * 5)
    assert len(set(origins.values())) == len(rows)
    # None would rather swap: of two words and their origins, the closest look is one of those chosen.
    for t, s in origins.items():
        for u, v in origins.items():
            assert max(rows[t][s], rows[u][v]) >= max(rows[t][v], rows[u][s])
