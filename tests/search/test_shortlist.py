"""With a shortlist, a model has its probabilities renormalised over the words of the shortlist."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from nmtkit.search.beam import Hypothesis, Search
from nmtkit.search.ensemble import Ensemble
from nmtkit.search.settings import Combine
from nmtkit.search.shortlist import Narrowing, Shortlist, Shortlists
from nmtkit.symbols import SPELLINGS
from tests.laws import assert_same
from tests.search.found import translate_ids
from tests.toys import TGT_WORDS, one_of_each_architecture, repeat, sources, toy_model

SYMBOLS = len(SPELLINGS)
SOME = [*range(SYMBOLS), 5, 8, 11]
SENTENCES = [[4, 5, 6], [7], [8, 9, 10, 4], []]
CONFIG = Search(beam_size=3, max_len_a=0, max_len_b=5)


def steps(scorer: Narrowing, words: list[int] | None) -> Iterator[Tensor]:
    """Log-probabilities of the whole vocabulary, or over ``words``, after the same three words."""
    narrow = scorer if words is None else scorer.over(torch.tensor(words))
    memory, state = narrow.begin(*sources())
    state = repeat(state, 2)
    for word in (1, 5, 11):
        y = torch.full((8,), word if words is None else words.index(word))
        log_probs, state, _ = narrow.step(memory, state, y)
        yield log_probs


@pytest.mark.parametrize("preset", one_of_each_architecture())
@torch.inference_mode()
def test_over_all_words_nothing_changes(preset: str) -> None:
    model = toy_model(preset).for_search("float32")
    for whole, narrow in zip(steps(model, None), steps(model, list(range(TGT_WORDS))), strict=True):
        assert_same(narrow, whole)


@pytest.mark.parametrize("preset", one_of_each_architecture())
@torch.inference_mode()
def test_over_a_shortlist_probabilities_are_renormalised(preset: str) -> None:
    model = toy_model(preset).for_search("float32")
    for whole, narrow in zip(steps(model, None), steps(model, SOME), strict=True):
        assert_same(narrow, whole[:, SOME].log_softmax(dim=-1))


@pytest.mark.parametrize("combine", ["prob", "logprob"])
@torch.inference_mode()
def test_an_ensemble_is_narrowed_by_its_members(combine: Combine) -> None:
    members = [toy_model(preset).for_search("float32") for preset in ("rnnsearch", "deep-att-1x1")]
    ensemble = Ensemble(members, [0, 0], [1.0, 3.0], combine)
    for mean, one, other in zip(steps(ensemble, SOME), *(steps(member, SOME) for member in members), strict=True):
        of_logs = 0.25 * one + 0.75 * other
        assert_same(mean, (0.25 * one.exp() + 0.75 * other.exp()).log() if combine == "prob" else of_logs)


def translate(
    shortlists: Shortlists | None, forced: list[list[int]] | None = None, seed: int | None = None
) -> list[list[Hypothesis]]:
    return translate_ids(
        toy_model("rnnsearch").for_search("float32"), SENTENCES, CONFIG,
        device=torch.device("cpu"), n_best=3, forced=forced, seed=seed, shortlists=shortlists,
    )  # fmt: skip


SEARCHED_OR_DRAWN = pytest.mark.parametrize("seed", [None, 1])


@SEARCHED_OR_DRAWN
def test_a_shortlist_of_all_words_changes_nothing(seed: int | None) -> None:
    assert translate(Shortlists(TGT_WORDS, [[], [], [], []]), seed=seed) == translate(None, seed=seed)


@SEARCHED_OR_DRAWN
def test_words_outside_the_shortlist_are_never_produced(seed: int | None) -> None:
    allowed = {*range(SYMBOLS), 5, 8, 11}
    assert any(set(h.ids) - allowed for best in translate(None, seed=seed) for h in best)
    found = translate(Shortlists(SYMBOLS, [[5], [8, 5], [11], []]), seed=seed)
    assert {word for best in found for h in best for word in h.ids} <= allowed
    assert {word for best in found for h in best for word in h.ids} & {5, 8, 11}


def test_prefixes_are_in_the_shortlist() -> None:
    prefixes = [[12], [9, 6], [], []]
    for best, prefix in zip(translate(Shortlists(SYMBOLS, [[5], [], [], []]), prefixes), prefixes, strict=True):
        assert all(h.ids[: len(prefix)] == prefix for h in best)


def test_a_batch_has_the_words_of_its_sentences_once_and_in_order() -> None:
    shortlists = Shortlists(5, [[9, 7], [30, 7], [12]])
    assert shortlists.of([1, 0], []) == Shortlist([0, 1, 2, 3, 4, 7, 9, 30])
    assert shortlists.of([2], [[3, 40]]) == Shortlist([0, 1, 2, 3, 4, 12, 40])
