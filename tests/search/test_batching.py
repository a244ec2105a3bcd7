import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.ops.tree import Tree
from nmtkit.search.batching import SHORT, token_batches
from nmtkit.search.beam import Hypothesis, Search
from nmtkit.symbols import EOS
from tests.search.found import translate_ids

CONFIG = Search(beam_size=2, max_tokens=100)
CPU = torch.device("cpu")


class Echo:
    """Copies the source word by word, and records the shapes of its inputs."""

    def __init__(self, most: int = 10**9) -> None:
        self.shapes, self.most = list[tuple[int, int]](), most

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        self.shapes.append((src.size(0), src.size(1)))
        if len(src) > self.most:
            torch.empty(1 << 55)  # raises the error of the CPU allocator
        return src, torch.zeros(len(src), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        assert isinstance(memory, Tensor)
        assert isinstance(state, Tensor)
        src = memory.repeat_interleave(len(y) // len(memory), dim=0)
        said = src.gather(1, state.clamp(max=src.size(1) - 1)[:, None])
        log_probs = torch.full((len(y), 30), 1e-4).scatter(1, said, 0.99).log()
        return log_probs, state + 1, None


def ids(found: list[list[Hypothesis]]) -> list[list[int]]:
    return [hypotheses[0].ids for hypotheses in found]


sentences = st.lists(st.lists(st.integers(3, 29), max_size=30), max_size=30)


@given(sentences, st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_every_sentence_has_its_translation_in_order(srcs: list[list[int]], max_tokens: int) -> None:
    found = translate_ids(Echo(), srcs, Search(beam_size=2, max_tokens=max_tokens), device=CPU)
    assert ids(found) == srcs


def test_an_empty_sentence_is_translated_without_asking_the_model() -> None:
    scorer = Echo()
    assert translate_ids(scorer, [[], []], CONFIG, device=CPU, n_best=2) == 2 * [[Hypothesis([], 0.0, [0.0], None)]]
    assert scorer.shapes == []
    assert translate_ids(scorer, [], CONFIG, device=CPU) == []


@given(st.lists(st.integers(0, 200), max_size=100), st.integers(1, 500))
@example([19] * 10, 190)  # exactly the budget, but for the EOS of each
def test_batches_hold_every_sentence_once_within_the_budget(lengths: list[int], max_tokens: int) -> None:
    batches = list(token_batches(lengths, max_tokens))
    assert sorted(i for batch in batches for i in batch) == [i for i, length in enumerate(lengths) if length]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(SHORT, max(lengths[i] + 1 for i in batch)) <= max_tokens


def test_a_very_long_line_is_alone_in_its_batch_by_default() -> None:
    config = Search()
    batches = list(token_batches([20] * 500 + [5000] * 2, config.max_tokens // config.beam_size))
    assert batches[-2:] == [[500], [501]]


def test_the_budget_counts_tokens_times_beam() -> None:
    scorer = Echo()
    translate_ids(scorer, [[5] * 19] * 12, Search(beam_size=5, max_tokens=400), device=CPU)
    assert scorer.shapes == 3 * [(4, 20)]
    translate_ids(scorer, [[5] * 3] * 50, Search(beam_size=1, max_tokens=10 * SHORT), device=CPU)
    assert scorer.shapes[3:] == 5 * [(10, 4)]


def test_the_model_gets_eos_and_the_longest_sentences_first() -> None:
    seen = []

    class Spy(Echo):
        def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
            seen.append([row[mask].tolist() for row, mask in zip(src, src_mask, strict=True)])
            return super().begin(src, src_mask)

    translate_ids(Spy(), [[7], [8] * 40, [9, 9]], CONFIG, device=CPU)
    assert seen == [[[8] * 40 + [EOS]], [[7, EOS], [9, 9, EOS]]]


def test_a_batch_that_does_not_fit_into_memory_is_searched_in_halves() -> None:
    scorer = Echo(most=3)
    srcs = [[5 + i] for i in range(20)]
    assert ids(translate_ids(scorer, srcs, Search(beam_size=1, max_tokens=20 * SHORT), device=CPU)) == srcs
    assert scorer.shapes[0] == (20, 2)


def test_a_sentence_that_does_not_fit_into_memory_is_an_error() -> None:
    with pytest.raises(UserError, match="a sentence of 7 tokens does not fit into the memory of cpu with a beam of 2"):
        translate_ids(Echo(most=0), [[5] * 7], CONFIG, device=CPU)


def test_other_errors_of_a_model_are_not_mistaken_for_out_of_memory() -> None:
    class Wrong(Echo):
        def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
            raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        translate_ids(Wrong(), [[5], [6]], CONFIG, device=CPU)


def test_more_translations_than_the_beam_holds_are_refused() -> None:
    with pytest.raises(UserError, match="3 best translations need a beam size of at least 3, not 2"):
        translate_ids(Echo(), [[5]], CONFIG, device=CPU, n_best=3)
