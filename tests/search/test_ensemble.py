import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmtkit.ops.tree import Tree
from nmtkit.search.beam import Hypothesis, Search
from nmtkit.search.ensemble import Ensemble
from nmtkit.search.settings import Combine
from nmtkit.symbols import BOS, EOS
from tests.search.found import translate_ids
from tests.search.test_beam import WORDS, Constant, Table, batch, search

CPU = torch.device("cpu")


class Blind(Table):
    """A table without attention."""

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        log_probs, state, _ = super().step(memory, state, y)
        return log_probs, state, None


def first_step(ensemble: Ensemble, src: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    memory, state = ensemble.begin(src, mask)
    log_probs, _, attention = ensemble.step(memory, state, torch.full((len(src),), BOS))
    return log_probs, attention


def of_one_source(*members: Table, weights: list[float] | None = None, combine: Combine = "prob") -> Ensemble:
    return Ensemble(members, [0] * len(members), weights or [1.0] * len(members), combine)


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [4.0, 0.5, 1.0]])
def test_probabilities_or_their_logarithms_are_averaged(weights: list[float]) -> None:
    members = [Table(seed) for seed in range(3)]
    rows = np.stack([member.row([4, 5, EOS], [BOS]).double().numpy() for member in members])
    share = np.array(weights)[:, None] / sum(weights)
    mean, _ = first_step(of_one_source(*members, weights=weights), *batch([4, 5]))
    np.testing.assert_allclose(mean[0], np.log((np.exp(rows) * share).sum(0)), atol=1e-6)
    mean, _ = first_step(of_one_source(*members, weights=weights, combine="logprob"), *batch([4, 5]))
    np.testing.assert_allclose(mean[0], (rows * share).sum(0), atol=1e-6)


@given(power=st.integers(-1000, 1021), combine=st.sampled_from(["prob", "logprob"]))
@example(power=1021, combine="prob")  # their sum is infinite
def test_only_the_ratios_of_weights_count(power: int, combine: Combine) -> None:
    members, source = [Table(seed) for seed in range(3)], batch([4, 5])
    weights = [4.0, 5.0, 7.0]  # times a power of two they are as exact as before
    expected, _ = first_step(of_one_source(*members, weights=weights, combine=combine), *source)
    scaled = [weight * 2.0**power for weight in weights]
    mean, _ = first_step(of_one_source(*members, weights=scaled, combine=combine), *source)
    assert torch.equal(mean, expected)


def test_a_word_that_is_impossible_for_all_stays_impossible() -> None:
    class Silent(Table):
        def row(self, src: object, history: object) -> Tensor:
            return torch.tensor([0, 0, 0.5, 0.5]).log()

    mean, _ = first_step(of_one_source(Silent(0), Silent(1)), *batch([4]))
    assert mean[0].exp().tolist() == [0, 0, 0.5, 0.5]


@given(seed=st.integers(0, 10**6), copies=st.integers(1, 7), combine=st.sampled_from(["prob", "logprob"]))
@settings(max_examples=30)
def test_a_model_with_itself_is_the_model_to_the_last_bit(seed: int, copies: int, combine: Combine) -> None:
    alone, _ = first_step(of_one_source(Table(seed)), *batch([4, 5], [6]))
    together, _ = first_step(of_one_source(*[Table(seed)] * copies, combine=combine), *batch([4, 5], [6]))
    if combine == "prob":
        assert torch.equal(together, torch.stack([Table(seed).row([*s, EOS], [BOS]) for s in ([4, 5], [6])]))
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("combine", ["prob", "logprob"])
def test_a_wide_beam_finds_what_exhaustive_enumeration_finds(combine: Combine) -> None:
    config = Search(length_penalty="avg", max_len_a=0.5, max_len_b=1, beam_size=100)
    members, src = [Table(1), Table(2)], [4, 5]
    everything = []
    for length in range(config.longest(2) + 1):
        for ids in itertools.product(WORDS, repeat=length):
            log_prob = 0.0
            for t, word in enumerate((*ids, EOS)):
                a, b = (float(member.row([*src, EOS], (BOS, *ids[:t]))[word]) for member in members)
                log_prob += (a + b) / 2 if combine == "logprob" else math.log((math.exp(a) + math.exp(b)) / 2)
            everything.append((config.score(log_prob, length + 1), list(ids)))
    everything.sort(reverse=True)
    ensemble = of_one_source(*members, combine=combine)
    [found] = search(ensemble, config, src, n_best=100)  # type: ignore[arg-type]
    assert [h.ids for h in found] == [ids for _, ids in everything]
    np.testing.assert_allclose([h.score for h in found], [score for score, _ in everything], rtol=1e-5)


def test_members_read_their_own_source() -> None:
    def translate(scorer: object, sentences: list[list[int]], *others: list[list[int]]) -> list[list[Hypothesis]]:
        return translate_ids(scorer, sentences, Search(beam_size=3), *others, device=CPU, n_best=3)  # type: ignore[arg-type]

    words, pieces = [[4], [5, 6], [], [7]], [[8, 9, 10], [11], [], []]
    both = Ensemble([Table(1), Table(2), Table(1)], [0, 1, 0], [1, 1, 1], "prob")
    for i, found in enumerate(translate(both, words, pieces)):
        assert found == translate(both, words[i : i + 1], pieces[i : i + 1])[0]
    first = Ensemble([Table(1)], [0], [1], "prob")
    second = Ensemble([Table(2)], [1], [1], "prob")
    assert translate(first, words, pieces) == translate(Table(1), words)
    alone = translate(Table(2), pieces[:2])
    assert [[h.ids for h in found] for found in translate(second, words[:2], pieces[:2])] == [
        [h.ids for h in found] for found in alone
    ]


@pytest.mark.parametrize("seed", [None, 1])
def test_the_first_source_limits_the_length(seed: int | None) -> None:
    both = Ensemble([Constant(0, 0, 1e-9, 0.5, 0.5)] * 2, [0, 1], [1, 1], "prob")
    config = Search(beam_size=1, max_len_a=1.0, max_len_b=1)
    found = translate_ids(both, [[4], [4, 5, 6]], config, [[7, 8, 9], [7]], device=CPU, seed=seed)
    assert [len(best.ids) for [best] in found] == [2, 4]


def test_attention_is_the_mean_over_members_with_the_first_source() -> None:
    _, alone = first_step(of_one_source(Table(1)), *batch([4, 5]))
    _, look = first_step(of_one_source(Table(2), Blind(1), Table(3)), *batch([4, 5]))
    assert alone is not None
    assert look is not None
    assert torch.equal(look, alone)  # all tables have the same attention
    _, look = first_step(of_one_source(Blind(1), Blind(2)), *batch([4, 5]))
    assert look is None
    src, mask = (tensor[:, None].repeat(1, 2, 1) for tensor in batch([4, 5], [6, 7]))
    _, look = first_step(Ensemble([Blind(1), Table(1)], [0, 1], [1, 1], "prob"), src, mask)
    assert look is None
