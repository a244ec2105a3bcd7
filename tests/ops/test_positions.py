"""Sinusoidal positions."""

import math

import pytest
import torch

from nmtkit.ops.positions import sinusoid


@pytest.mark.parametrize("position", [0, 1, 7, 3000])
def test_the_frequency_of_pair_i_is_10000_to_the_minus_i_over_the_last_index_or_their_number(position: int) -> None:
    for last, formula in ((3, False), (4, True)):
        vector = sinusoid(torch.tensor([position]), 8, formula=formula)[0].tolist()
        rates = [10000 ** -(i / last) for i in range(4)]
        expected = [math.sin(position * rate) for rate in rates] + [math.cos(position * rate) for rate in rates]
        assert vector == pytest.approx(expected, abs=3e-4)  # float32 angles


def test_positions_may_have_any_shape() -> None:
    positions = torch.arange(6).view(2, 3)
    assert torch.equal(
        sinusoid(positions, 4, formula=False).flatten(0, 1), sinusoid(positions.flatten(), 4, formula=False)
    )


@pytest.mark.parametrize("formula", [False, True])
def test_two_units_are_the_sine_and_the_cosine(formula: bool) -> None:
    positions = torch.arange(5)
    expected = torch.stack([positions.sin(), positions.cos()], dim=1)
    torch.testing.assert_close(sinusoid(positions, 2, formula=formula), expected)
