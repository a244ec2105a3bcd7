from dataclasses import replace

import pytest
import torch

from nmtkit.ops.cross_entropy import chunk_rows
from nmtkit.training.estimate import Estimate, estimate
from tests.training.conftest import small_experiment

CPU = torch.device("cpu")
CHUNKS = 3 * 4 * 1000 * chunk_rows(1000)


def estimated(words: int = 1000, **training: object) -> Estimate:
    planned = small_experiment(**training)
    return estimate(planned.build(20, 20), planned.training, 1_000_000, words, CPU)


@pytest.mark.parametrize(("name", "states"), [("sgd", 0), ("adam", 2), ("adadelta", 2)])
def test_a_parameter_takes_four_bytes_for_itself_its_gradient_and_every_state(name: str, states: int) -> None:
    found = estimated(optimizer={"name": name, "lr": 0.1})
    assert found.weights == 4_000_000
    assert found.optimizer == 4_000_000 * (1 + states)


def test_what_a_pass_takes_grows_with_its_words() -> None:
    one, two = (estimated(pass_tokens=tokens).activations - CHUNKS for tokens in (4096, 8192))
    assert 0 < one < two
    assert two == pytest.approx(2 * one, rel=0.01)


def test_a_large_vocabulary_costs_time() -> None:
    assert estimated(words=5_000_000).words_per_second < 0.5 * estimated(words=1000).words_per_second


def test_the_models_own_size_is_measured() -> None:
    planned = small_experiment()
    wide = replace(planned, model=replace(planned.model, width=4 * planned.model.width))
    narrow_one, wide_one = (
        estimate(e.build(20, 20), e.training, 1, 1000, CPU).activations - CHUNKS for e in (planned, wide)
    )
    assert wide_one > 2 * narrow_one
