import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.evaluation.forced import CrossEntropy, cross_entropy, score_candidates
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.tree import Tree
from nmtkit.search.beam import Search
from nmtkit.search.ensemble import Ensemble
from nmtkit.search.scorer import Scorer
from nmtkit.symbols import EOS
from tests.search.found import translate_ids
from tests.toys import TGT_WORDS, toy_model

CPU = torch.device("cpu")
SOURCES = [[4, 5, 6, 7], [8], [], [9, 4]]
CANDIDATES = [[[5, 6], [7], []], [[4, 4, 4, 4, 4]], [[6, 6], [8]], []]


def scores(scorer: Scorer, max_tokens: int) -> list[list[np.ndarray]]:
    return score_candidates(scorer, [SOURCES], CANDIDATES, device=CPU, max_tokens=max_tokens)


class Stepping:
    """A model as a plain Scorer that counts the sentences that it encodes, at most ``most`` at once."""

    def __init__(self, model: Seq2Seq, most: int = 100) -> None:
        self.model, self.encoded, self.most = model, 0, most

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        self.encoded += len(src)
        if len(src) > self.most:
            torch.empty(1 << 55)  # raises the error of the CPU allocator
        return self.model.begin(src, src_mask)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        return self.model.step(memory, state, y)


@pytest.mark.parametrize("preset", ["rnnsearch", "deep-att", "deep-ed", "deep-lau", "dtmt4"])
@pytest.mark.parametrize("max_tokens", [1, 1000])
def test_unroll_scores_like_step(preset: str, max_tokens: int) -> None:
    model = toy_model(preset)
    unrolled, stepped = scores(model, max_tokens), scores(Stepping(model), max_tokens)
    assert [[len(found) for found in group] for group in unrolled] == [[3, 2, 1], [6], [3, 2], []]
    for ours, theirs in zip(itertools.chain(*unrolled), itertools.chain(*stepped), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_scores_are_those_of_search() -> None:
    model = toy_model("rnnsearch")
    given = [(src, ids) for src, group in zip(SOURCES, CANDIDATES, strict=True) for ids in group if src]
    search = Search(beam_size=1, length_penalty="none")
    found = translate_ids(
        model, [src for src, _ in given], search, device=CPU, forced=[[*ids, EOS] for _, ids in given]
    )
    ours = [found for src, group in zip(SOURCES, scores(model, 1000), strict=True) for found in group if src]
    for log_probs, [hypothesis] in zip(ours, found, strict=True):
        np.testing.assert_allclose(log_probs, hypothesis.log_probs, atol=1e-5)


def test_a_source_is_encoded_once_for_all_its_candidates() -> None:
    counting = Stepping(toy_model("rnnsearch"))
    scores(counting, max_tokens=1)
    assert counting.encoded == 3  # the fourth has no candidate


@pytest.mark.parametrize("max_tokens", [1, 12, 17, 18, 24, 60])
def test_a_batch_has_at_most_the_given_number_of_padded_words(max_tokens: int) -> None:
    """Sentences with one or two candidates of two words, and EOS."""
    shapes = list[int]()

    class Sizes(Stepping):
        def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
            shapes.append(len(y))
            return super().step(memory, state, y)

    candidates = [[[5, 6], [6, 5]][: 1 + i % 2] for i in range(12)]
    score_candidates(Sizes(toy_model("rnnsearch")), [[[4]] * 12], candidates, device=CPU, max_tokens=max_tokens)
    batches = shapes[::3]
    assert sum(batches) == 18
    assert all(3 * rows <= max(max_tokens, 6) for rows in batches)
    assert all(3 * (rows + 2) > max_tokens for rows in batches[:-1])


def test_a_batch_that_does_not_fit_into_memory_is_scored_in_halves() -> None:
    scarce = Stepping(toy_model("rnnsearch"), most=1)
    plenty, found = scores(Stepping(scarce.model), max_tokens=1000), scores(scarce, max_tokens=1000)
    assert scarce.encoded > 3  # the three that have candidates, and those that were in vain
    for ours, theirs in zip(itertools.chain(*found), itertools.chain(*plenty), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_sentence_that_does_not_fit_into_memory_with_its_candidates_is_an_error() -> None:
    with pytest.raises(UserError, match=r"a sentence of [14] tokens does not fit into the memory of cpu with its tr"):
        scores(Stepping(toy_model("rnnsearch"), most=0), max_tokens=1000)


def test_the_probabilities_of_all_translations_add_up_to_one() -> None:
    """All translations of up to two words, and all prefixes of three words without EOS."""
    words = [word for word in range(TGT_WORDS) if word != EOS]
    short = [list(ids) for length in range(2) for ids in itertools.product(words, repeat=length)]
    long = [list(ids) for ids in itertools.product(words, repeat=2)]
    [found] = score_candidates(toy_model("rnnsearch"), [[[4, 5]]], [[*short, *long]], device=CPU, max_tokens=100_000)
    ended = sum(math.exp(log_probs.sum()) for log_probs in found[: len(short)])
    going_on = sum(math.exp(log_probs[:2].sum()) for log_probs in found[len(short) :])
    assert math.isclose(ended + going_on, 1, rel_tol=1e-4)


def test_an_ensemble_is_the_mean_of_its_members_probabilities() -> None:
    members = [toy_model("rnnsearch"), toy_model("deep-ed")]
    sources = [SOURCES[:2], [list(reversed(src)) for src in SOURCES[:2]]]
    targets = CANDIDATES[:2]
    ensemble = Ensemble(members, [0, 1], [1.0, 3.0], "prob")
    together = score_candidates(ensemble, sources, targets, device=CPU, max_tokens=1000)
    first, second = (
        score_candidates(model, [source], targets, device=CPU, max_tokens=1000)
        for model, source in zip(members, sources, strict=True)
    )
    for ours, a, b in zip(*(itertools.chain(*found) for found in (together, first, second)), strict=True):
        np.testing.assert_allclose(np.exp(ours), 0.25 * np.exp(a) + 0.75 * np.exp(b), rtol=1e-4)


def test_cross_entropy_in_every_unit() -> None:
    found = cross_entropy([[-math.log(2), -math.log(8)], [-math.log(4)]], 1)
    assert found == CrossEntropy(sentences=2, tokens=3, nats=pytest.approx(6 * math.log(2)), unknown=1)
    assert found.units() == {
        "nats per sentence": pytest.approx(3 * math.log(2)),
        "nats per token": pytest.approx(2 * math.log(2)),
        "bits per token": pytest.approx(2),
        "perplexity per token": pytest.approx(4),
    }
