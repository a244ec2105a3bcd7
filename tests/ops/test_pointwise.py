"""Fast dropout has the distribution and gradients of dropout."""

import pytest
import torch

from nmtkit.ops.pointwise import dropout, dropout_mask


@pytest.mark.parametrize(
    "dropout", [0.1, pytest.param(0.5, marks=pytest.mark.slow), pytest.param(0.9, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("shape", [(301, 333), (100_003,)])
def test_a_mask_drops_as_often_as_it_should_and_keeps_the_mean(dropout: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    mask = dropout_mask(torch.empty(shape), dropout)
    assert mask.shape == shape
    zero = mask == 0
    assert zero.float().mean().item() == pytest.approx(dropout, abs=0.006)
    assert mask[~zero].tolist() == pytest.approx([1 / (1 - dropout)] * int((~zero).sum()), rel=1e-3)


def test_the_elements_of_a_mask_are_independent() -> None:
    torch.manual_seed(1)
    zero = (dropout_mask(torch.empty(400_000), 0.5) == 0).float() - 0.5
    for apart in (1, 2, 3, 4, 5, 8):
        assert abs((zero[apart:] * zero[:-apart]).mean().item()) < 0.25 * 0.01


def test_the_seed_decides_the_mask() -> None:
    masks = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masks.append(dropout_mask(torch.empty(7, 5), 0.3))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_dropout_multiplies_by_a_mask_and_so_does_its_gradient() -> None:
    x = torch.randn(30, 7).requires_grad_()
    torch.manual_seed(5)
    y = dropout(x, 0.4, True)
    torch.manual_seed(5)
    mask = dropout_mask(x, 0.4)
    y.sum().backward()
    assert torch.equal(y, x * mask)
    assert torch.equal(x.grad, mask)


@pytest.mark.parametrize(("p", "training"), [(0.4, False), (0.0, True)])
def test_without_dropout_nothing_is_sampled_or_copied(p: float, training: bool) -> None:
    x, before = torch.randn(3), torch.get_rng_state()
    assert dropout(x, p, training) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_a_probability_next_to_one_still_gives_numbers() -> None:
    assert dropout(torch.ones(1000), 0.9999999, True).isfinite().all()
    assert (
        dropout_mask(torch.empty(10**6), 0.9999999).max() == 2**16
    )  # units are kept with a probability of at least 2^-16
