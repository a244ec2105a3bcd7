"""Every architecture translates in 8-bit integers, nearly as in float32."""

import pytest
import torch

from nmtkit.search.beam import Search, beam_search
from nmtkit.symbols import BOS
from tests.models.test_contracts import LENGTHS, leaves, one_of_each_architecture, repeat, sources, toy_model


@pytest.mark.parametrize("preset", one_of_each_architecture())
@torch.inference_mode()
def test_every_architecture_is_nearly_as_in_float32(preset: str) -> None:
    model, y = toy_model(preset), torch.full((2 * len(LENGTHS),), BOS)
    (exact, exact_state), (near, near_state) = (
        scorer.step(memory, repeat(state, 2), y)[:2]
        for scorer in (model, model.int8())
        for memory, state in [scorer.begin(*sources())]
    )
    assert not torch.equal(exact, near)
    assert (exact.exp() - near.exp()).abs().max() < 0.05
    torch.testing.assert_close(leaves(near_state), leaves(exact_state), rtol=0, atol=0)  # of the output layer only


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_every_architecture_is_searched(preset: str) -> None:
    model = toy_model(preset)
    config = Search(beam_size=3, length_penalty="none", max_len_a=0, max_len_b=4)
    exact, near = (beam_search(scorer, *sources(), config) for scorer in (model, model.int8()))
    for [a], [b] in zip(exact, near, strict=True):
        assert abs(a.score - b.score) < 0.2


@pytest.mark.parametrize("preset", one_of_each_architecture())
@torch.inference_mode()
def test_a_shortlist_is_that_of_the_model_in_float32(preset: str) -> None:
    model, words, y = toy_model(preset), torch.tensor([0, 1, 2, 3, 6, 9]), torch.full((len(LENGTHS),), BOS)
    ours, theirs = (
        scorer.step(*scorer.begin(*sources()), y)[0] for scorer in (model.int8().over(words), model.over(words))
    )
    assert torch.equal(ours, theirs)
