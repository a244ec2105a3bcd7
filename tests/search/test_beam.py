import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.ops.tree import Tree
from nmtkit.search.beam import Hypothesis, Search, beam_search
from nmtkit.symbols import BOS, EOS, PAD, UNK

WORDS = (UNK, 4, 5)  # words that a Table may produce besides EOS
Penalty: TypeAlias = Literal["none", "avg", "gnmt"]
PENALTIES = get_args(Penalty)
Stop: TypeAlias = Literal["all", "bound", "first"]
CONFIG = Search(beam_size=3, length_penalty="none", alpha=0.6, max_len_a=0.5, max_len_b=2)


class Table:
    """Random probabilities of the next word for each source and target prefix."""

    def __init__(self, seed: int, size: int = 6) -> None:
        self.seed, self.size, self.batches = seed, size, list[int]()

    def row(self, src: Sequence[int], history: Sequence[int]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *src, -7, *history)) % 2**31)
        return (2 * torch.randn(self.size, generator=generator)).log_softmax(0)

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        return (src, src_mask), src.new_empty(len(src), 0)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        assert isinstance(memory, tuple)
        assert isinstance(state, Tensor)
        src, src_mask = memory
        assert isinstance(src, Tensor)
        assert isinstance(src_mask, Tensor)
        self.batches.append(len(src))
        state = torch.cat([state, y[:, None]], dim=1)
        sources = [s[m].tolist() for s, m in zip(src, src_mask, strict=True) for _ in range(len(y) // len(src))]
        log_probs = [self.row(s, h) for s, h in zip(sources, state.tolist(), strict=True)]
        look = [[code(h) + j for j in range(src.size(1))] for h in state.tolist()]
        return torch.stack(log_probs), state, torch.tensor(look, dtype=torch.float32)


def code(history: Sequence[int]) -> int:
    """A number that encodes the whole history and is exact in float32."""
    return hash(tuple(history)) % 2**20


def batch(*sources: Sequence[int]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, sources)) + 1
    src = torch.tensor([[*s, EOS] + [PAD] * (longest - len(s) - 1) for s in sources])
    return src, src != PAD


def search(scorer: Table, config: Search, *sources: Sequence[int], n_best: int = 1) -> list[list[Hypothesis]]:
    return beam_search(scorer, *batch(*sources), config, n_best=n_best)


def same(a: list[Hypothesis], b: list[Hypothesis]) -> bool:
    return [h.ids for h in a] == [h.ids for h in b] and np.allclose(
        [h.score for h in a], [h.score for h in b], rtol=1e-5
    )


def enumerate_all(table: Table, src: Sequence[int], config: Search) -> list[Hypothesis]:
    """All possible translations, best first."""
    found = []
    for length in range(config.longest(len(src)) + 1):
        for ids in itertools.product(WORDS, repeat=length):
            steps = zip(itertools.count(), (*ids, EOS))
            log_prob = sum(float(table.row([*src, EOS], (BOS, *ids[:t]))[word]) for t, word in steps)
            found.append(Hypothesis(list(ids), config.score(log_prob, length + 1), [log_prob], None))
    return sorted(found, key=lambda h: -h.score)


def textbook(table: Table, src: Sequence[int], config: Search) -> list[Hypothesis]:
    """GroundHog's loop: one sentence, no early stop, every continuation sorted."""
    alive, finished = [(0.0, [BOS])], list[Hypothesis]()
    while alive:
        last = len(alive[0][1]) - 1 == config.longest(len(src))
        continued = []
        for log_prob, history in alive:
            row = table.row([*src, EOS], history).tolist()
            continued += [(log_prob + row[w], [*history, w]) for w in ((EOS,) if last else (EOS, *WORDS))]
        alive = []
        for log_prob, history in sorted(continued, reverse=True)[: config.beam_size - len(finished)]:
            if history[-1] == EOS:
                finished.append(Hypothesis(history[1:-1], config.score(log_prob, len(history) - 1), [log_prob], None))
            else:
                alive.append((log_prob, history))
    return sorted(finished, key=lambda h: -h.score)


def fairseq(table: Table, src: Sequence[int], config: Search) -> list[Hypothesis]:
    """fairseq's loop: one sentence, a full beam of unfinished hypotheses until as many are finished."""
    alive, finished, size = [(0.0, [BOS])], list[Hypothesis](), config.beam_size
    while alive and len(finished) < size:
        last = len(alive[0][1]) - 1 == config.longest(len(src))
        continued = []
        for log_prob, history in alive:
            row = table.row([*src, EOS], history).tolist()
            continued += [(log_prob + row[w], [*history, w]) for w in ((EOS,) if last else (EOS, *WORDS))]
        best = sorted(continued, reverse=True)[: 2 * size]
        finished += [
            Hypothesis(history[1:-1], config.score(log_prob, len(history) - 1), [log_prob], None)
            for log_prob, history in best[:size]
            if history[-1] == EOS
        ][: size - len(finished)]
        alive = [each for each in best if each[1][-1] != EOS][:size]
    return sorted(finished, key=lambda h: -h.score)


configs = st.builds(
    Search,
    beam_size=st.integers(1, 5),
    length_penalty=st.sampled_from(PENALTIES),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    max_len_a=st.sampled_from([0.0, 0.5, 1.5]),
    max_len_b=st.integers(1, 4),
)
sources = st.lists(st.integers(UNK, 20), min_size=1, max_size=5)


@pytest.mark.parametrize("penalty", PENALTIES)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_a_wide_beam_finds_what_exhaustive_enumeration_finds(penalty: Penalty, seed: int) -> None:
    config = Search(length_penalty=penalty, alpha=1.3, max_len_a=0.5, max_len_b=2, beam_size=200, stop="all")
    src, table = [4, 5], Table(seed)
    everything = enumerate_all(table, src, config)
    assert len(everything) == 1 + 3 + 9 + 27
    assert same(search(table, config, src, n_best=200)[0], everything)
    assert same(search(table, config, src, n_best=7)[0], everything[:7])


@given(seed=st.integers(0, 10**6), config=configs, src=sources)
@settings(max_examples=150, deadline=None)
def test_a_narrow_beam_finds_what_the_textbook_loop_finds(seed: int, config: Search, src: list[int]) -> None:
    config = dataclasses.replace(config, stop="all")
    expected = textbook(Table(seed), src, config)
    assert same(search(Table(seed), config, src, n_best=config.beam_size)[0], expected)
    assert same(search(Table(seed), config, src)[0], expected[:1])  # stopped early, with the same result


@given(seed=st.integers(0, 10**6), config=configs, src=sources)
@settings(max_examples=60, deadline=None)
def test_a_beam_without_narrowing_is_fairseqs(seed: int, config: Search, src: list[int]) -> None:
    config = dataclasses.replace(config, narrowing=False, stop="all")
    expected = fairseq(Table(seed), src, config)
    [found] = search(Table(seed), config, src, n_best=config.beam_size)
    assert same(found, expected)


@given(seed=st.integers(0, 10**6), config=configs, srcs=st.lists(sources, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_batch_mates_padding_and_order_change_nothing(seed: int, config: Search, srcs: list[list[int]]) -> None:
    n_best = config.beam_size
    config = dataclasses.replace(config, narrowing=bool(seed % 2))
    together = search(Table(seed), config, *srcs, n_best=n_best)
    alone = [search(Table(seed), config, src, n_best=n_best)[0] for src in srcs]
    reverse = search(Table(seed), config, *reversed(srcs), n_best=n_best)
    assert all(map(same, together, alone))
    assert all(map(same, together, reversed(reverse)))


@given(seed=st.integers(0, 10**6), src=sources)
@settings(max_examples=50, deadline=None)
def test_a_beam_of_one_is_the_argmax_loop(seed: int, src: list[int]) -> None:
    config = dataclasses.replace(CONFIG, beam_size=1, max_len_b=8)
    table, history = Table(seed), [BOS]
    while history[-1] != EOS:
        allowed = [EOS, *WORDS] if len(history) <= config.longest(len(src)) else [EOS]
        row = table.row([*src, EOS], history)
        history.append(max(allowed, key=lambda word: float(row[word])))
    assert search(table, config, src)[0][0].ids == history[1:-1]


@given(seed=st.integers(0, 10**6), config=configs, srcs=st.lists(sources, min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_log_prob_is_that_of_the_model_and_attention_follows_the_back_pointers(
    seed: int, config: Search, srcs: list[list[int]]
) -> None:
    table = Table(seed)
    for src, found in zip(srcs, beam_search(table, *batch(*srcs), config, n_best=5, attention=True), strict=True):
        for hypothesis in found:
            history = [BOS, *hypothesis.ids]
            steps = [(history[: t + 1], word) for t, word in enumerate([*hypothesis.ids, EOS])]
            expected = [float(table.row([*src, EOS], h)[w]) for h, w in steps]
            np.testing.assert_allclose(hypothesis.log_probs, expected, atol=1e-5)
            assert math.isclose(hypothesis.score, config.score(sum(hypothesis.log_probs), len(steps)), rel_tol=1e-9)
            assert hypothesis.attention is not None
            assert hypothesis.attention.tolist() == [[code(h) + j for j in range(len(src) + 1)] for h, _ in steps]


@given(seed=st.integers(0, 10**6), config=configs, srcs=st.lists(sources, min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_forced_decoding_of_hypotheses_gives_their_scores(seed: int, config: Search, srcs: list[list[int]]) -> None:
    for src, found in zip(srcs, search(Table(seed), config, *srcs, n_best=config.beam_size), strict=True):
        forced = [[*h.ids, EOS] for h in found]
        greedy = dataclasses.replace(config, beam_size=1)
        again = beam_search(Table(seed), *batch(*[src] * len(found)), greedy, forced=forced)
        for hypothesis, [scored] in zip(found, again, strict=True):
            assert scored.ids == hypothesis.ids
            np.testing.assert_allclose(scored.log_probs, hypothesis.log_probs, atol=1e-4)
            assert math.isclose(scored.score, hypothesis.score, abs_tol=1e-4)


@given(seed=st.integers(0, 10**6), length=st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_after_a_prefix_the_best_continuation_is_found(seed: int, length: int) -> None:
    config = Search(length_penalty="avg", max_len_a=0.5, max_len_b=2, beam_size=100, stop="all")  # at most 3 words
    src, prefix = [4, 5], ([5, UNK, 4, 5])[:length]
    table = Table(seed)
    expected = [h for h in enumerate_all(table, src, config) if h.ids[:length] == prefix]
    if length == 4:  # longer than translations are: the prefix, and then the end
        expected = [Hypothesis(prefix, 0.0, [0.0], None)]
    [found] = beam_search(table, *batch(src), config, n_best=100, forced=[prefix])
    assert [h.ids for h in found] == [h.ids for h in expected]


def test_a_prefix_applies_to_its_own_sentence() -> None:
    srcs, prefixes = [[4, 5], [6], [7, 8, 9]], [[5], [], [4, 4]]
    together = beam_search(Table(1), *batch(*srcs), CONFIG, forced=prefixes)
    for src, prefix, found in zip(srcs, prefixes, together, strict=True):
        assert found[0].ids[: len(prefix)] == prefix
        assert same(found, beam_search(Table(1), *batch(src), CONFIG, forced=[prefix])[0])


class Looking(Table):
    """Attends to the source with random weights that sum to one."""

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        log_probs, state, _ = super().step(memory, state, y)
        assert isinstance(memory, tuple)
        mask = memory[1]
        assert isinstance(mask, Tensor)
        draws = torch.stack([self.row([-1], [*h]).repeat(5)[: mask.size(1)] for h in state.tolist()])  # type: ignore[union-attr]
        rows = mask.repeat_interleave(len(y) // len(mask), dim=0)
        return log_probs, state, draws.masked_fill(~rows, -math.inf).softmax(-1)


@given(seed=st.integers(0, 10**6), srcs=st.lists(sources, min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_the_coverage_penalty_is_for_source_words_with_too_little_attention(seed: int, srcs: list[list[int]]) -> None:
    plain = dataclasses.replace(CONFIG, beam_size=100, max_len_a=0)
    covering = dataclasses.replace(plain, coverage_penalty=0.7)
    table = Looking(seed)
    found = beam_search(table, *batch(*srcs), covering, n_best=100, attention=True)
    without = beam_search(table, *batch(*srcs), plain, n_best=100)
    for hypotheses, others in zip(found, without, strict=True):
        for h in hypotheses:
            assert h.attention is not None
            penalty = 0.7 * np.log(np.minimum(h.attention[:, :-1].sum(0), 1)).sum()
            assert math.isclose(h.score, sum(h.log_probs) + penalty, rel_tol=1e-4)
        assert sorted(h.ids for h in hypotheses) == sorted(h.ids for h in others)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def test_the_coverage_penalty_needs_attention() -> None:
    class Blind(Table):
        def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
            return *super().step(memory, state, y)[:2], None

    with pytest.raises(UserError, match="the coverage penalty needs attention"):
        search(Blind(0), dataclasses.replace(CONFIG, coverage_penalty=0.1), [4])


def test_attention_is_not_kept_unless_asked_for() -> None:
    assert search(Table(0), CONFIG, [4])[0][0].attention is None


def test_finished_sentences_leave_the_batch() -> None:
    table = Table(3)
    search(table, dataclasses.replace(CONFIG, max_len_a=2.0), [4], [5, 6, 7, 8, 9, 10], [6, 7])
    assert table.batches[0] == 3
    assert table.batches[-1] < 3


class Constant(Table):
    """The same probabilities at every step; the words are 2 (the end), 3, 4, ..."""

    def __init__(self, *probabilities: float) -> None:
        super().__init__(0)
        self.probabilities = torch.tensor(probabilities)

    def row(self, src: Sequence[int], history: Sequence[int]) -> Tensor:
        return self.probabilities.log()


@given(seed=st.integers(0, 10**6), config=configs, src=sources)
@settings(max_examples=60, deadline=None)
def test_a_rule_that_stops_earlier_finds_nothing_better_than_the_full_search(
    seed: int, config: Search, src: list[int]
) -> None:
    best, steps = list[Hypothesis](), list[int]()
    for rule in ("all", "bound", "first"):
        table = Table(seed)
        [[hypothesis]] = search(table, dataclasses.replace(config, stop=rule), src)
        best.append(hypothesis)
        steps.append(len(table.batches))
    assert steps == sorted(steps, reverse=True)
    assert best[0].score >= best[1].score >= best[2].score
    assert all(any(same([h], [one]) for one in textbook(Table(seed), src, config)) for h in best)
    if config.length_penalty == "none":  # log P only falls, so every rule finds the result of the full search
        assert same(best[:1], best[1:2])
        assert same(best[:1], best[2:])


@pytest.mark.parametrize(
    ("ending", "found"), [(0.75, {"all": 20, "bound": 20, "first": 0}), (0.8, {"all": 20, "bound": 0, "first": 0})]
)
def test_stopping_rules_assume_different_lengths(ending: float, found: dict[Stop, int]) -> None:
    """Either no word, or twenty words, all but the first certain, which have the better mean."""

    class Certain(Table):
        def row(self, src: Sequence[int], history: Sequence[int]) -> Tensor:
            row = torch.full((self.size,), -torch.inf)
            if len(history) == 1:
                row[EOS], row[4] = math.log(ending), math.log(1 - ending)
            else:
                row[EOS if len(history) == 21 else 4] = 0.0
            return row

    config = Search(beam_size=2, length_penalty="avg", max_len_a=0.0, max_len_b=20)
    for rule, words in found.items():
        [[hypothesis]] = search(Certain(1), dataclasses.replace(config, stop=rule), [4])
        assert len(hypothesis.ids) == words


def test_at_the_maximum_length_eos_is_forced_and_scored() -> None:
    config = Search(beam_size=1, length_penalty="none", max_len_a=2.0, max_len_b=1)
    [[found]] = search(Constant(0, 0, 0.1, 0.2, 0.7), config, [9, 9])
    assert found.ids == [4] * 5
    assert math.isclose(sum(found.log_probs), 5 * math.log(0.7) + math.log(0.1), rel_tol=1e-5)


def test_translations_end_even_if_the_model_never_ends_them() -> None:
    [[found]] = search(Constant(0, 0, 0, 0.3, 0.7), dataclasses.replace(CONFIG, max_len_b=3), [9])
    assert found.ids == [4, 4, 4]
    assert sum(found.log_probs) < -9999


def test_padding_and_the_start_mark_are_never_produced_but_unknown_words_are() -> None:
    config = Search(beam_size=8, max_len_a=0, max_len_b=3)
    [found] = search(Constant(0.6, 0.3, 0.02, 0.05, 0.03), config, [9], n_best=8)
    produced = {word for hypothesis in found for word in hypothesis.ids}
    assert produced == {UNK, 4}


def test_a_beam_larger_than_the_vocabulary_finds_what_there_is() -> None:
    config = Search(beam_size=50, length_penalty="none", max_len_a=0, max_len_b=2)
    [found] = search(Constant(0, 0, 0.2, 0.3, 0.5), config, [9], n_best=50)
    assert len(found) == 1 + 2 + 4
    assert found[0].ids == []  # log 0.2 is better than log 0.5 * 0.5 * 0.2


def test_a_finished_hypothesis_keeps_its_slot() -> None:
    # With two slots, one is finished immediately; only the other is continued, so [3] never is.
    config = Search(beam_size=2, length_penalty="avg", max_len_a=0, max_len_b=2)
    [found] = search(Constant(0, 0, 0.45, 0.05, 0.5), config, [9], n_best=2)
    assert [h.ids for h in found] == [[4, 4], []]


@pytest.mark.parametrize(("penalty", "score"), [("none", -3.0), ("avg", -0.5), ("gnmt", -3.0 / (11 / 6) ** 0.6),
                                                 ("power", -3.0 / 6**0.6)])  # fmt: skip
def test_length_penalties_count_eos(penalty: Penalty, score: float) -> None:
    config = Search(length_penalty=penalty, alpha=0.6)
    assert math.isclose(config.score(-3.0, 6), score)


def test_the_power_of_the_length_ranges_from_no_penalty_to_the_mean() -> None:
    for log_prob, length in ((-3.0, 6), (-0.5, 1), (-70.0, 41)):
        power, none, mean = (Search(length_penalty=p, alpha=a).score(log_prob, length)
                             for p, a in (("power", 0.0), ("none", 0.6), ("avg", 0.6)))  # fmt: skip
        assert power == none
        assert Search(length_penalty="power", alpha=1.0).score(log_prob, length) == mean


@pytest.mark.parametrize("bad", [math.nan, math.inf, 8.0])
def test_probabilities_that_are_not_numbers_are_an_error(bad: float) -> None:
    table = Table(1)
    row = table.row
    table.row = lambda src, history: row(src, history).index_fill(0, torch.tensor([4]), bad)  # type: ignore[method-assign]
    with pytest.raises(UserError, match=r"log-probabilities are NaN or above zero.*use an earlier checkpoint"):
        search(table, CONFIG, [4, 5], [6])


def test_a_log_probability_that_rounding_lifts_above_zero_is_no_error() -> None:
    [[found]] = search(Constant(0, 0, 1.0005, 0, 0), CONFIG, [4])
    assert found.ids == []


def test_a_sentence_is_done_when_nothing_can_enter_the_n_best_even_if_it_would_be_better_than_the_others() -> None:
    class Later(Table):
        def row(self, src: Sequence[int], history: Sequence[int]) -> Tensor:
            ending = 0.1 if len(history) == 1 else 0.5
            return torch.tensor([0, 0, ending, 0, 1 - ending, 0]).log()

    table, config = Later(1), dataclasses.replace(CONFIG, length_penalty="none", beam_size=3, max_len_b=9)
    [[best]] = search(table, config, [4])  # 0.45 for one word, 0.225 for two, and 0.1 for none
    assert (best.ids, len(table.batches)) == ([4], 2)


def test_a_translation_is_never_longer_than_a_times_its_source_words_and_b() -> None:
    config = Search(max_len_a=0.5, max_len_b=1)
    assert [config.longest(words) for words in range(1, 6)] == [1, 2, 2, 3, 3]


def test_a_model_without_any_continuation_is_an_error() -> None:
    with pytest.raises(UserError, match="every continuation has probability zero"):
        search(Constant(0.5, 0.5, 0, 0, 0), CONFIG, [4])


@pytest.mark.parametrize(
    ("name", "value"),
    [("beam_size", 0), ("alpha", -0.1), ("alpha", math.nan), ("alpha", 11.0), ("max_len_a", -1.0),
     ("max_len_a", math.inf), ("max_len_b", 0), ("max_tokens", 0)],
)  # fmt: skip
def test_impossible_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}: {value} is not between"):
        dataclasses.replace(CONFIG, **{name: value})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 3])
def test_without_unk_search_is_that_of_a_model_with_probability_0_for_it(seed: int, k: int) -> None:
    class Without(Table):
        def row(self, src: Sequence[int], history: Sequence[int]) -> Tensor:
            return super().row(src, history).index_fill(0, torch.tensor([UNK]), -torch.inf)

    config = dataclasses.replace(CONFIG, beam_size=k)
    ours = beam_search(Table(seed), *batch([4, 5, 6], [7]), dataclasses.replace(config, unk=False), n_best=k)
    theirs = beam_search(Without(seed), *batch([4, 5, 6], [7]), config, n_best=k)
    assert [[h.ids for h in best] for best in ours] == [[h.ids for h in best] for best in theirs]
    assert [[h.score for h in best] for best in ours] == [[h.score for h in best] for best in theirs]


def test_a_prefix_may_have_unk_even_without_unk() -> None:
    config = dataclasses.replace(CONFIG, unk=False)
    [[best]] = beam_search(Table(0), *batch([4, 5]), config, forced=[[UNK]])
    assert best.ids[0] == UNK
    assert UNK not in best.ids[1:]
