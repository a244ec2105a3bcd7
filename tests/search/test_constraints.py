"""Words that a translation must contain, over tables of probabilities."""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nmtkit.search.beam import Hypothesis, beam_search
from nmtkit.search.constraints import Automaton, Constraints, Edges, Form, Term
from nmtkit.search.settings import Search
from nmtkit.symbols import EOS, UNK
from tests.search.found import translate_ids
from tests.search.test_beam import Constant, Table, batch, configs, enumerate_all, same, sources

NO = frozenset[int]()
PLAIN = Edges(NO, NO, NO, NO)
BPE = Edges(frozenset({5}), NO, frozenset({4}), NO)  # after 5 a word goes on, after 4 a sentence begins
PIECES = Edges(NO, frozenset({5}), NO, NO)  # 5 goes on with a word
QUOTES = Edges(NO, NO, frozenset({4}), frozenset({5}))  # 5 may precede the first word of a sentence
EDGES = (PLAIN, BPE, PIECES, QUOTES)

forms = st.builds(Form, st.lists(st.sampled_from([UNK, 4, 5]), min_size=1, max_size=2).map(tuple), st.just(False))
initial = st.builds(Form, st.lists(st.sampled_from([UNK, 4, 5]), min_size=1, max_size=2).map(tuple), st.booleans())
terms = st.lists(st.builds(lambda form, more: (form, *more), forms, st.lists(initial, max_size=1)), max_size=2)
many_terms = st.lists(terms, max_size=2).map(lambda two: list(itertools.chain(*two)))


def contains(ids: Sequence[int], own: Sequence[Term], edges: Edges) -> bool:
    """Whether a form of every term stands in a translation, as whole words and where it may stand.

    No two forms with unknown words have a word in common.
    """

    def at(place: int, form: Form) -> bool:
        end = place + len(form.ids)
        before = ids[place - 1] if place else None
        first = place
        while first and ids[first - 1] in edges.opening:
            first -= 1
        return (
            tuple(ids[place:end]) == form.ids
            and before not in edges.unfinished
            and not (end < len(ids) and ids[end] in edges.continuing)
            and (not form.initial or first == 0 or before in edges.final or ids[first - 1] in edges.final)
        )

    every = [
        [set(range(place, place + len(form.ids))) if UNK in form.ids else set[int]()
         for form in term for place in range(len(ids)) if at(place, form)]
        for term in own
    ]  # fmt: skip
    return any(sum(map(len, taken)) == len(set().union(*taken)) for taken in itertools.product(*every))


def constrained(
    config: Search,
    table: Table,
    srcs: Sequence[Sequence[int]],
    every: Sequence[Sequence[Term]],
    edges: Edges,
    n: int = 1,
) -> list[list[Hypothesis]]:
    automata = [Automaton(own, edges) for own in every]
    return beam_search(table, *batch(*srcs), config, n_best=n, automata=automata)


@given(seed=st.integers(0, 10**6), own=terms, edges=st.sampled_from(EDGES))
@settings(max_examples=60, deadline=None)
def test_a_wide_beam_finds_the_best_of_all_translations_that_contain_the_terms(
    seed: int, own: list[Term], edges: Edges
) -> None:
    config = Search(length_penalty="avg", max_len_a=0.5, max_len_b=3, beam_size=400, stop="all")
    table, src = Table(seed), [4, 5]
    expected = [h for h in enumerate_all(table, src, config) if contains(h.ids, own, edges)]
    assume(expected)  # the length leaves room
    [found] = constrained(config, table, [src], [own], edges, n=400)
    assert same(found, expected)


@given(seed=st.integers(0, 10**6), config=configs, src=sources, own=terms, edges=st.sampled_from(EDGES))
@settings(max_examples=150, deadline=None)
def test_every_term_is_met_by_a_beam_of_any_size_if_the_length_leaves_room(
    seed: int, config: Search, src: list[int], own: list[Term], edges: Edges
) -> None:
    config = replace(config, max_len_b=8)
    for hypothesis in constrained(config, Table(seed), [src], [own], edges, n=config.beam_size)[0]:
        assert contains(hypothesis.ids, own, edges)
        assert len(hypothesis.ids) <= config.longest(len(src))


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), config=configs, srcs=st.lists(sources, min_size=1, max_size=4), data=st.data())
@settings(max_examples=60, deadline=None)
def test_batch_mates_and_the_order_of_terms_change_nothing(
    seed: int, config: Search, srcs: list[list[int]], data: st.DataObject
) -> None:
    every = [data.draw(terms) for _ in srcs]
    n = config.beam_size
    together = constrained(config, Table(seed), srcs, every, BPE, n)
    for src, own, found in zip(srcs, every, together, strict=True):
        assert same(found, constrained(config, Table(seed), [src], [own[::-1]], BPE, n)[0])


@given(seed=st.integers(0, 10**6), config=configs, src=sources, own=terms)
@settings(max_examples=30, deadline=None)
def test_with_terms_the_beam_narrows_in_any_case(seed: int, config: Search, src: list[int], own: list[Term]) -> None:
    wide = replace(config, narrowing=False)
    ours, theirs = (constrained(each, Table(seed), [src], [own], BPE, each.beam_size) for each in (wide, config))
    assert same(ours[0], theirs[0])


@given(seed=st.integers(0, 10**6), config=configs, srcs=st.lists(sources, min_size=1, max_size=4), data=st.data())
@settings(max_examples=60, deadline=None)
def test_only_a_sentence_whose_translations_lack_a_term_is_searched_with_it(
    seed: int, config: Search, srcs: list[list[int]], data: st.DataObject
) -> None:
    every, n = [data.draw(terms) for _ in srcs], config.beam_size
    plain = beam_search(Table(seed), *batch(*srcs), config, n_best=n)
    needed = constrained(config, Table(seed), srcs, every, BPE, n)
    found = translate_ids(
        Table(seed),
        srcs,
        config,
        device=torch.device("cpu"),
        n_best=n,
        constraints=Constraints(every, BPE),
    )
    for own, without, within, ours in zip(every, plain, needed, found, strict=True):
        met = all(contains(h.ids, own, BPE) for h in without)
        assert same(ours, without if met else within)


def test_all_of_the_n_best_have_the_terms_also_if_the_best_has_them_by_itself() -> None:
    config = Search(beam_size=3, length_penalty="avg", max_len_a=0, max_len_b=2)
    table, own, cpu = Constant(0, 0, 0.4, 0, 0.5, 0.1), [[[Form((4,), False)]]], torch.device("cpu")
    [without] = translate_ids(table, [[7]], config, device=cpu, n_best=3)
    assert [h.ids for h in without] == [[4, 4], [4], []]
    [found] = translate_ids(table, [[7]], config, device=cpu, n_best=3, constraints=Constraints(own, PLAIN))
    assert all(4 in h.ids for h in found)


@given(ids=st.lists(st.sampled_from([UNK, 4, 5]), max_size=7), own=many_terms, edges=st.sampled_from(EDGES))
@settings(max_examples=300, deadline=None)
def test_the_places_of_all_terms_are_found_if_a_translation_contains_them(
    ids: list[int], own: list[Term], edges: Edges
) -> None:
    places = Automaton(own, edges).places(ids)
    assert (len(places) == len(own)) == contains(ids, own, edges)
    for number, (form, place) in places.items():
        assert form in own[number]
        assert tuple(ids[place : place + len(form.ids)]) == form.ids
    taken = [place + i for form, place in places.values() if UNK in form.ids for i in range(len(form.ids))]
    assert len(taken) == len(set(taken))


def test_terms_with_unknown_words_share_none() -> None:
    own = [[Form((UNK,), False)], [Form((UNK, UNK), False)]]
    [[found]] = constrained(Search(beam_size=5, max_len_a=0, max_len_b=9), Table(3), [[7]], [own], PLAIN)
    assert found.ids.count(UNK) >= 3


@given(seed=st.integers(0, 10**6), config=configs, src=sources, own=terms)
@settings(max_examples=50, deadline=None)
def test_scores_are_the_models_own(seed: int, config: Search, src: list[int], own: list[Term]) -> None:
    table = Table(seed)
    for h in constrained(config, table, [src], [own], PLAIN, n=config.beam_size)[0]:
        history = [1, *h.ids]
        expected = [float(table.row([*src, EOS], history[: t + 1])[w]) for t, w in enumerate([*h.ids, EOS])]
        np.testing.assert_allclose(h.log_probs, expected, atol=1e-4)
        assert math.isclose(h.score, config.score(sum(h.log_probs), len(expected)), rel_tol=1e-9)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_term_may_come_in_part_from_the_prefix(beam: int) -> None:
    config = Search(beam_size=beam, max_len_a=0, max_len_b=9)
    own = [[Form((4, 5, UNK), False)]]
    automata = [Automaton(own, PLAIN)]
    [[found]] = beam_search(Table(2), *batch([7]), config, forced=[[UNK, 4, 5]], automata=automata)
    assert found.ids[:3] == [UNK, 4, 5]
    assert contains(found.ids, own, PLAIN)


@pytest.mark.parametrize("unk", [True, False])
def test_a_beam_of_one_goes_on_with_a_word_that_the_model_would_leave_unfinished(unk: bool) -> None:
    class Breaking(Table):
        """After 5, which a word cannot end with, the likeliest words are the end and then UNK."""

        def row(self, src: Sequence[int], history: Sequence[int]) -> torch.Tensor:
            likely = [0.0, 0.0, 20.0, 10.0, 5.0, 0.0] if history[-1] == 5 else [0.0, 0.0, 0.0, 0.0, 0.0, 20.0]
            return torch.tensor(likely).log_softmax(0)

    config, own = Search(beam_size=1, max_len_a=0, max_len_b=9, unk=unk), [[Form((4,), False)]]
    [[found]] = constrained(config, Breaking(0), [[7]], [own], BPE)
    assert found.ids[0] == 5
    assert contains(found.ids, own, BPE)


def test_where_the_length_leaves_no_room_the_translation_is_as_long_as_it_may_be() -> None:
    config = Search(beam_size=2, max_len_a=0, max_len_b=2)
    [[found]] = constrained(config, Table(1), [[7]], [[[Form((4, 5, 5), False)]]], PLAIN)
    assert len(found.ids) == 2


@given(ids=st.lists(st.sampled_from([UNK, 4, 5]), max_size=7), own=many_terms, edges=st.sampled_from(EDGES))
@settings(max_examples=300, deadline=None)
def test_what_is_left_of_a_hypothesis_is_nothing_once_it_contains_the_terms(
    ids: list[int], own: list[Term], edges: Edges
) -> None:
    automaton = Automaton(own, edges)
    most, least = automaton.left(functools.reduce(automaton.after, ids, automaton.start))
    assert most >= least
    assert (most == 0) == (least == 0) == contains(ids, own, edges)


@given(ids=st.lists(st.sampled_from([UNK, 4, 5]), max_size=4), own=terms, edges=st.sampled_from(EDGES))
@settings(max_examples=100, deadline=None)
def test_a_hypothesis_needs_at_least_the_least_and_at_most_the_most_of_what_is_left(
    ids: list[int], own: list[Term], edges: Edges
) -> None:
    automaton = Automaton(own, edges)
    most, least = automaton.left(functools.reduce(automaton.after, ids, automaton.start))
    longer = (more for n in itertools.count() for more in itertools.product((UNK, 4, 5), repeat=n))
    assert least <= len(next(more for more in longer if contains([*ids, *more], own, edges))) <= most
