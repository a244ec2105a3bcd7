import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align.lexicon import NO_LEXICON, Lexicon
from nmtkit.align.posunk import (
    LEAST,
    UNKNOWN,
    Matcher,
    Replacement,
    annotate,
    counts,
    match,
    most_looked_at,
    nearest,
    nearness,
    replace_unknown,
    respelled,
)
from nmtkit.symbols import SPELLINGS, UNK, UNKPOS

SYMBOLS = (*SPELLINGS, *UNKPOS)
LEXICON = {"ecotax": "Ökosteuer"}


def spelled(ids: list[int]) -> list[str]:
    return [SYMBOLS[id] if id < len(SYMBOLS) else "word" for id in ids]


def replaced(target: str, source: str, links: list[tuple[int, int]]) -> str:
    words, _ = replace_unknown(target.split(), links, source.lower().split(), source.split(), LEXICON)
    return " ".join(words)


def test_there_are_sixteen_unkpos_symbols() -> None:
    assert len(UNKPOS) == 16
    assert (UNKPOS[0], UNKPOS[7], UNKPOS[14], UNKPOS[15]) == (
        "<unkpos_-7>", "<unkpos_0>", "<unkpos_7>", "<unkpos_null>",
    )  # fmt: skip


def test_an_unknown_word_has_the_offset_to_its_source_word() -> None:
    # The target's 0 and 2 are linked to the source's 1 and 0: i = j - d.
    assert spelled(annotate([UNK, 50, UNK, UNK], [(1, 0), (0, 1), (0, 2)])) == [
        "<unkpos_-1>", "word", "<unkpos_2>", "<unkpos_null>",
    ]  # fmt: skip


@pytest.mark.parametrize(("s", "symbol"), [(1, "<unkpos_7>"), (15, "<unkpos_-7>"), (0, UNKPOS[-1]), (16, UNKPOS[-1])])
def test_offsets_are_at_most_seven(s: int, symbol: str) -> None:
    assert spelled(annotate([50] * 8 + [UNK], [(s, 8)]))[8] == symbol


def test_the_nearest_of_several_links_is_used_and_on_a_tie_the_left_one() -> None:
    assert nearest([(0, 3), (5, 3), (4, 3), (2, 3)]) == {3: 2}
    assert nearest([(4, 3), (9, 3), (0, 0), (7, 1)]) == {3: 4, 0: 0, 1: 7}


def test_a_word_is_translated_by_the_lexicon_or_copied_as_the_user_wrote_it() -> None:
    assert replaced("die <unkpos_0> in <unkpos_-1>", "the Ecotax in Greater Pontypridd", []) == (
        "die Ökosteuer in Pontypridd"
    )
    assert replaced("die <unk> in <unk>", "the Ecotax in Pontypridd", [(1, 1), (3, 3)]) == "die Ökosteuer in Pontypridd"


@pytest.mark.parametrize("symbol", ["<unkpos_1>", "<unkpos_-2>", "<unkpos_null>", "<unk>"])
def test_without_a_source_word_the_word_stays_unknown(symbol: str) -> None:
    assert replaced(f"{symbol} b", "one two", [(1, 1)]) == "<unk> b"


@given(st.lists(st.sampled_from([UNK, 30]), max_size=12), st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11))))
def test_replacing_undoes_annotating(ids: list[int], links: set[tuple[int, int]]) -> None:
    source = [f"s{i}" for i in range(12)]
    places = nearest(links)
    result, _ = replace_unknown(spelled(annotate(ids, links)), [], source, source, {})
    for t, (id, word) in enumerate(zip(ids, result, strict=True)):
        near = t in places and abs(places[t] - t) <= 7
        assert word == ("word" if id != UNK else source[places[t]] if near else "<unk>")


def sure(lexicon: dict[str, str]) -> Lexicon:
    """A lexicon in which every word has one translation."""
    return Lexicon("sure", lambda: {word: {translation: 1.0} for word, translation in lexicon.items()})


def matched(target: str, source: str, looks: dict[int, list[float]], links: list[tuple[int, int]]) -> str:
    read = source.lower().split()
    known = {"die", "in", "kommt"}
    lexicon = LEXICON | {"the": "die", "in": "in", "comes": "kommt"}
    matcher = Matcher(sure(lexicon), known, capitals=False)
    words, replacements = matcher.replace(target.split(), links, looks, read, source.split())
    assert counts(replacements).left == words.count("<unk>")
    assert sum(counts(replacements)) == sum(word in UNKNOWN for word in target.split())
    for t, s, translated in replacements:
        assert words[t] == ("<unk>" if s is None else lexicon[read[s]] if translated else source.split()[s])
    return " ".join(words)


def test_source_words_with_a_known_translation_are_not_matched() -> None:
    looks = {0: [0.05, 0.7, 0.2, 0.05]}
    assert replaced("<unk> kommt", "Alsara comes in", [(1, 0)]) == "comes kommt"
    assert matched("<unk> kommt", "Alsara comes in", looks, []) == "Alsara kommt"


def test_a_source_word_with_little_attention_is_not_matched() -> None:
    assert matched("<unk>", "Alsara comes in", {0: [LEAST, 0.7, 0.2, 0.0]}, []) == "Alsara"
    assert matched("<unk>", "Alsara comes in", {0: [LEAST / 2, 0.7, 0.2, 0.0]}, []) == "kommt"


def test_unknown_words_are_matched_to_different_source_words_if_possible() -> None:
    looks = {0: [0.6, 0.3], 1: [0.9, 0.1]}
    assert match(looks, {0: 1.0, 1: 1.0}) == {0: 1, 1: 0}
    assert match(looks, {0: 1.0}) == {1: 0}
    assert match(looks, {0: 0.1, 1: 1.0}) == {0: 1, 1: 0}
    assert match(looks, {}) == {}


def test_of_source_words_with_known_translations_the_one_with_most_unknown_links_is_matched() -> None:
    lexicon = Lexicon("some", lambda: {"a": {"A": 0.9, "x": 0.1}, "b": {"B": 0.5, "y": 0.1}, "c": {"C": 1.0}})
    looks = {0: [0.4, 0.3, 0.3, 0.0]}
    matcher = Matcher(lexicon, {"A", "B", "C"}, capitals=False)
    assert 0 < matcher.weights["c"] < matcher.weights["a"] < matcher.weights["b"] < 1
    result, _ = matcher.replace(["<unk>"], [], looks, list("abc"), list("abc"))
    assert result == ["B"]
    # The square root of the share: more attention can outweigh more links to unknown words.
    assert matcher.weights["b"] == pytest.approx(0.5**0.5)
    result, _ = matcher.replace(["<unk>"], [], {0: [0.7, 0.2, 0.1, 0.0]}, list("abc"), list("abc"))
    assert result == ["A"]
    # A source word without a known translation has precedence, however little attention it gets.
    result, _ = matcher.replace(["<unk>"], [], looks, list("abd"), list("abd"))
    assert result == ["d"]


def test_the_first_source_word_is_as_plausible_as_in_lower_case() -> None:
    lexicon = Lexicon("some", lambda: {"old": {"alt": 0.5, "früher": 0.1}, "cat": {"Katze": 0.9}})
    matcher = Matcher(lexicon, {"alt", "Katze"}, capitals=False)
    for source, look, said in (
        ("Old Alsara", [0.8, 0.2, 0.0], "Alsara"),  # the vocabulary has the translation of old
        ("Old cat", [0.3, 0.4, 0.0], "alt"),  # of which more links are to unknown words
    ):
        result, _ = matcher.replace(["<unk>"], [], {0: look}, source.split(), source.split())
        assert result == [said]


def test_attention_has_precedence_over_links_and_positions_are_used_for_words_without_it() -> None:
    source, looks = "Alsara Zeta Pontypridd", {0: [0.9, 0.1, 0.0, 0.0]}
    assert matched("<unk> <unkpos_-1>", source, looks, [(2, 0)]) == "Alsara Pontypridd"


@pytest.mark.parametrize(
    ("target", "source", "look", "said"),
    [
        ("<unk> kommt", "Pandas come", 0, "Pandas kommt"),  # as the lexicon has it
        ("<unk> kommt", "Bears come", 0, "Bären kommt"),  # as it has the word without its capital
        ("kommt <unk>", "Never come", 0, "kommt nie"),  # what begins the source, but not the target
        ("<unk> kommt", "come never", 1, "Nie kommt"),  # what begins the target
        ('Ja . " <unk>', "never", 0, 'Ja . " Nie'),
        ("Ja , <unk>", "never", 0, "Ja , nie"),
        ("Ja ￭. <unk>", "never", 0, "Ja ￭. Nie"),  # the reversible tokenizer's marks
        ("Ja ￭. (￭ <unk> ￭)", "never", 0, "Ja ￭. (￭ Nie ￭)"),
        ("አዎ ￭። <unk>", "never", 0, "አዎ ￭። Nie"),
        ("<unk> kommt", "iPhone comes", 0, "iPhone kommt"),  # a copy is as the user wrote it
        ("Ja . <unk>", "come Bears", 1, "Ja . Bears"),  # a name: the sentence does not begin with it
    ],
)
def test_the_first_word_of_a_sentence_gets_a_capital(target: str, source: str, look: int, said: str) -> None:
    lexicon, words = sure({"Pandas": "Pandas", "never": "nie", "bears": "Bären"}), source.split()
    looks = {target.split().index("<unk>"): [float(s == look) for s in range(len(words) + 1)]}
    result, _ = Matcher(lexicon, set(), capitals=True).replace(target.split(), [], looks, words, words)
    assert " ".join(result) == said
    result, _ = Matcher(lexicon, set(), capitals=False).replace(target.split(), [], looks, words, words)
    assert " ".join(result) == said.replace("Nie", "nie")


def test_a_capital_also_follows_an_unknown_quotation_mark() -> None:
    source, looks = ["«", "never"], {0: [1.0, 0.0, 0.0], 1: [0.0, 1.0, 0.0]}
    result, _ = Matcher(sure({"never": "nie"}), set(), capitals=True).replace(["<unk>"] * 2, [], looks, source, source)
    assert result == ["«", "Nie"]


def test_a_word_that_attends_to_eos_can_be_matched_to_an_unknown_source_word() -> None:
    assert matched("die <unk>", "the Alsara", {1: [0.1, 0.3, 0.6]}, []) == "die Alsara"
    assert matched("die <unk>", "the comes", {1: [0.1, 0.3, 0.6]}, []) == "die kommt"
    assert matched("die <unk>", "the comes", {1: [LEAST / 2, LEAST / 2, 1 - LEAST]}, []) == "die <unk>"


@pytest.mark.parametrize(
    ("source", "look", "links", "result"),
    [
        ("comes .", [0.1, 0.6, 0.3], [], "kommt kommt"),
        ("comes .", [0.0, 0.6, 0.4], [], "kommt <unk>"),
        ("comes .", [LEAST / 2, 1 - LEAST / 2, 0.0], [], "kommt kommt"),  # the most attention besides
        ("comes .", None, [(1, 1)], "kommt <unk>"),
        ("comes . →", [0.1, 0.6, 0.1, 0.2], [], "kommt →"),  # not in the vocabulary
    ],
)
def test_punctuation_of_the_vocabulary_is_not_copied(
    source: str, look: list[float] | None, links: list[tuple[int, int]], result: str
) -> None:
    matcher, read = Matcher(sure({"comes": "kommt"}), {"kommt", "."}, capitals=False), source.split()
    words, _ = matcher.replace(["kommt", "<unk>"], links, {} if look is None else {1: look}, read, read)
    assert " ".join(words) == result


def test_attention_finds_the_source_word_of_an_unknown_word_with_position_null() -> None:
    assert matched("kommt <unkpos_null>", "comes Alsara", {1: [0.1, 0.8, 0.1]}, []) == "kommt Alsara"
    assert matched("kommt <unkpos_null>", "comes Alsara", {}, []) == "kommt <unk>"


def test_an_implausible_source_position_is_corrected_to_a_neighbour() -> None:
    def corrected(target: str, links: list[tuple[int, int]]) -> str:
        return matched(target, "Alsara comes in Pontypridd", {}, links)

    assert corrected("<unkpos_-1> kommt in <unkpos_0>", []) == "Alsara kommt in Pontypridd"
    assert corrected("<unk> kommt in <unk>", [(1, 0), (2, 3)]) == "Alsara kommt in Pontypridd"
    assert corrected("die die die <unkpos_1>", []) == "die die die Pontypridd"
    assert corrected("die die die <unkpos_null>", []) == "die die die <unk>"
    assert nearness(["<unkpos_0>"], [], 4) == {0: [1.0, 0.5, 0.25, 0.0]}
    assert nearness(["<unk>"], [(0, 0), (3, 0)], 5) == {0: [1.0, 0.5, 0.5, 1.0, 0.5]}


@pytest.mark.parametrize(
    "typed", ["1,000", "3.14", "-5%", "24.12.2026", "10:30", "A.B@c-d.org", "https://x.org/?q=1", "WWW.x.org"]
)
def test_numbers_dates_and_addresses_are_copied_as_typed(typed: str) -> None:
    matcher = Matcher(sure({typed.lower(): "other"}), set(), capitals=False)
    result = matcher.replace(["<unk>"], [], {0: [1.0, 0.0]}, [typed.lower()], [typed])
    assert result == ([typed], [Replacement(0, 0, False)])


def test_a_number_that_the_tokenizer_joins_to_its_neighbour_is_copied_as_typed() -> None:
    matcher = Matcher(sure({"￭1,000": "other"}), set(), capitals=False)
    result, _ = matcher.replace(["<unk>"], [], {0: [0.0, 1.0, 0.0]}, ["$", "￭1,000"], ["$", "1,000"])
    assert result == ["1,000"]


@pytest.mark.parametrize("typed", ["1990s", "B2B", "@", "x@", "www.", "A.B"])
def test_other_words_are_translated_by_the_lexicon(typed: str) -> None:
    matcher = Matcher(sure({typed: "other"}), set(), capitals=False)
    result = matcher.replace(["<unk>"], [], {0: [1.0, 0.0]}, [typed], [typed])
    assert result == (["other"], [Replacement(0, 0, True)])


words = st.sampled_from(["a", "b", "<unk>", "<unkpos_1>", "<unkpos_-2>", "<unkpos_null>"])


some_looks = st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), min_size=6, max_size=6)


@given(st.lists(words, max_size=6), some_looks, st.sets(st.sampled_from("wxyz")))
def test_only_unknown_words_change_and_without_a_plausible_source_word_the_papers_rule_applies(
    target: list[str], weights: list[list[int]], known: set[str]
) -> None:
    source = list("wxyz")
    looks = {t: [w / 10 for w in weights[t]] for t, word in enumerate(target) if word == "<unk>"}
    links = most_looked_at(looks)
    assert all(looks[t][s] == max(looks[t]) > 0 and s < len(source) for s, t in links)
    result, _ = Matcher(NO_LEXICON, known, capitals=True).replace(target, [], looks, source, source)
    assert [a for a, b in zip(result, target, strict=True) if b not in UNKNOWN] == [
        w for w in target if w not in UNKNOWN
    ]
    nowhere = Matcher(NO_LEXICON, set(source), capitals=True)
    assert nowhere.replace(target, links, {}, source, source) == replace_unknown(target, links, source, source, {})
    if sum(word in UNKNOWN for word in target) == 1:
        for t, row in looks.items():
            if any(look >= LEAST and word not in known for look, word in zip(row[:-1], source, strict=True)):
                assert result[t] not in known


@given(st.lists(st.lists(st.floats(LEAST, 1.0), min_size=5, max_size=5), min_size=1, max_size=5))
def test_unknown_words_are_greedily_matched_to_different_source_words(rows: list[list[float]]) -> None:
    origins = match(dict(enumerate(rows)), dict.fromkeys(range(5), 1.0))
    assert len(set(origins.values())) == len(rows)
    # None would rather swap: of two words and their origins, the closest look is one of those chosen.
    for t, s in origins.items():
        for u, v in origins.items():
            assert max(rows[t][s], rows[u][v]) >= max(rows[t][v], rows[u][s])


def placed(target: str, source: str, looks: list[list[float]], whole: str = "") -> dict[int, tuple[int, int]]:
    """The target ranges of names; all words of the source are split except those in ``whole``."""
    words, lexicon = source.split(), sure({"of": "von", "the": "die", "Rome": "Rom"})
    split = [word not in whole.split() for word in words]
    return respelled(target.split(), np.array(looks, np.float32), words, words, split, lexicon)


def test_a_name_misspelled_by_subwords_replaces_the_words_that_attend_to_it() -> None:
    looks = [[0.0, 0.0, 0.6], [0.0, 0.1, 0.9], [0.5, 0.5, 0.0], [0.0, 0.0, 0.5]]
    assert placed("Zemes lourdes von .", "the of Zebulonka", looks) == {2: (0, 2)}
    assert placed("Zemes von lourdes .", "the of Zebulonka", looks) == {2: (0, 1)}
    assert placed("Zemes lourdes", "the Zebulonka", [[0.1, 0.9], [0.4, 0.6]]) == {1: (0, 2)}


@pytest.mark.parametrize("name", ["Zebulonka", "Rome", "zebulonka", "rome"])
def test_only_misspelled_names_are_replaced(name: str) -> None:
    looks = [[0.1, 0.9]]
    expected = {1: (0, 1)} if name == "Zebulonka" else {}
    assert placed("Zemes", f"the {name}", looks) == expected
    assert placed(name, f"the {name}", looks) == {}
    assert placed("Zemes", f"the {name}", looks, whole=name) == {}
    assert placed("Zemes", f"the {name}", [[1.0, LEAST / 2]]) == {}
    for other in ("die", "..."):
        assert placed(other, f"the {name}", looks) == {}


def test_a_name_does_not_replace_the_copy_of_another_source_word() -> None:
    looks = [[0.3, 0.7], [0.2, 0.8], [0.1, 0.9]]
    assert placed("Ze mes Talamanca", "Talamanca Zebulonka", looks) == {1: (0, 2)}
    assert placed("Talamanca", "Talamanca Zebulonka", looks[:1]) == {}
    assert placed("Talamanca Talamanca", "Talamanca Zebulonka", [[0.9, 0], [0.2, 0.8]]) == {1: (1, 2)}


@pytest.mark.parametrize("before", ["", "— ", "- “ ", "the . ", "the ! ¡ ", "the : ", "the : « "])
def test_a_word_whose_capital_may_be_of_a_sentence_is_no_name(before: str) -> None:
    row = [0.0] * len(before.split())
    assert placed("Zemes", f"{before}Zebulonka the", [[*row, 0.9, 0.1]]) == {}
    assert placed("Zemes", f"{before}the Zebulonka", [[*row, 0.1, 0.9]]) == {len(row) + 1: (0, 1)}


@pytest.mark.parametrize("before", ["the", "the ,", "the (", "the “", "the -", "the . the"])
def test_a_word_within_a_sentence_is_a_name_after_punctuation_too(before: str) -> None:
    row = [0.0] * len(before.split())
    assert placed("Zemes", f"{before} Zebulonka", [[*row, 0.9]]) == {len(row): (0, 1)}


@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=7))
def test_no_two_names_replace_the_same_word(weights: list[list[int]]) -> None:
    looks = [[0.0, *(w / 10 for w in row)] for row in weights]
    places = placed(" ".join(f"t{i}" for i in range(len(looks))), "the Aa Bb Cc Dd", looks)
    taken = [t for start, end in places.values() for t in range(start, end)]
    assert len(taken) == len(set(taken))
    assert all(looks[t][s] >= LEAST for s, (start, end) in places.items() for t in range(start, end))
    assert places or not any(look >= LEAST for row in looks for look in row)
