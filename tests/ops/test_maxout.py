"""Maxout is the greater of two neighbours."""

import pytest
import torch

from nmtkit.ops.maxout import maxout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2,), (1, 2), (5, 66), (3, 4, 130), (0, 6)])
def test_maxout_is_the_greater_of_two_neighbours_and_only_that_has_a_gradient(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
    a, b = x.detach()[..., 0::2], x.detach()[..., 1::2]
    result = maxout(x)
    assert torch.equal(result, torch.maximum(a, b))
    given = torch.randn(result.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    (gradient,) = torch.autograd.grad(result, x, given)
    half = torch.where(a == b, given / 2, 0)
    assert torch.equal(gradient[..., 0::2], torch.where(a > b, given, half))
    assert torch.equal(gradient[..., 1::2], torch.where(b > a, given, half))


def test_equal_neighbours_have_half_of_the_gradient_each() -> None:
    x = torch.ones(3, 40, requires_grad=True)
    maxout(x).sum().backward()
    assert torch.equal(x.grad, torch.full((3, 40), 0.5))


def test_not_a_number_stays_what_it_is() -> None:
    x = torch.zeros(2, 70)
    x[0, 4] = x[1, 9] = torch.nan
    assert maxout(x).isnan().nonzero().tolist() == [[0, 2], [1, 4]]


def test_rows_with_gaps_between_them_are_read_as_they_are() -> None:
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(3))
    assert torch.equal(maxout(x.t()), maxout(x.t().contiguous()))
