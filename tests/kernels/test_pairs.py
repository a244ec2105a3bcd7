"""Products in 8-bit integers by the kernel for processors that add them up in 16 bits are those of their integers.

It is tried on every processor for which nmtkit has kernels, whether or not it would be used there.
"""

import math

import pytest
import torch

from nmtkit.kernels import library, pairs
from tests.laws import drawn, one_at_a_time
from tests.ops import oracle

pytestmark = [
    pytest.mark.usefixtures("threads"),
    pytest.mark.skipif(not library.has("pairs_multiply"), reason="there is no kernel for this processor"),
]


# Rows around those of one block and of two; depths of one step and of several; columns of a part of a strip, of one,
# and of more.
@pytest.mark.parametrize(
    ("rows", "depth", "width"),
    one_at_a_time([13, 0, 1, 2, 5, 6, 7, 11, 12, 40], [24, 8, 512], [17, 1, 15, 16, 80]),
)
@pytest.mark.parametrize("results", [torch.float32, torch.bfloat16])
def test_a_product_equals_the_plain_version(rows: int, depth: int, width: int, results: torch.dtype) -> None:
    x, weight, bias = drawn(rows, depth), drawn(depth, width), drawn(width)
    expected = oracle.paired_product(x, weight)
    for given, added in ((None, 0), (bias, bias)):
        ours = pairs.lay_out(weight, given, results).product(x)
        assert ours.dtype == results
        tolerance = 2**-8 if results == torch.bfloat16 else 1e-5
        torch.testing.assert_close(ours.float(), expected + added, rtol=tolerance, atol=1e-4 * math.sqrt(depth))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("of_a_sum", range(1, 5))
def test_the_greatest_sums_do_not_overflow(sign: float, of_a_sum: int) -> None:
    """Some of the four rows whose products are summed in 16 bits are the column's largest, the others are zeros."""
    x, weight = torch.full((7, 1024), 3.0), torch.zeros(1024, 16)
    for row in (0, 1, 4, 5)[:of_a_sum]:
        weight[row::8] = sign
    torch.testing.assert_close(pairs.lay_out(weight, None).product(x), x @ weight, rtol=1e-5, atol=0)


def test_no_random_weight_overflows() -> None:
    """One that did would be wrong by 2 ** 16 parts of a column's scale, hundreds of times what rounding can come to."""
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        weight = torch.randn(64, 160, generator=random).pow(1 + seed % 3)
        x = 3 * torch.randn(12, 64, generator=random).sign()
        torch.testing.assert_close(
            pairs.lay_out(weight, None).product(x), oracle.paired_product(x, weight), rtol=1e-4, atol=1e-2
        )


def test_a_row_does_not_depend_on_the_others() -> None:
    x, weight = drawn(33, 96), pairs.lay_out(drawn(96, 50), drawn(50))
    x[0] *= 1000
    for row, found in zip(x, weight.product(x), strict=True):
        assert torch.equal(weight.product(row[None])[0], found)


def test_rows_may_have_several_dimensions_and_be_bfloat16() -> None:
    x, weight = drawn(2, 3, 32).bfloat16(), pairs.lay_out(drawn(32, 40), None)
    ours = weight.product(x)
    assert ours.shape == (2, 3, 40)
    assert torch.equal(ours.flatten(0, 1), weight.product(x.flatten(0, 1).float()))
    assert torch.equal(weight.product(x[0, 0]), ours[0, 0])
    assert torch.equal(weight.product(x.transpose(0, 1)), ours.transpose(0, 1))


def test_zero_is_exact_and_nan_stays_nan() -> None:
    x, weight = drawn(3, 8), drawn(8, 4)
    x[0], x[1, 2] = 0, math.nan
    weight[:, 1] = 0
    found = pairs.lay_out(weight, None).product(x)
    assert not found[0].any()
    assert found[1, 0].isnan()
    assert found[2, 1] == 0
    assert found[2].isfinite().all()


def test_a_weight_in_low_precision_is_as_good() -> None:
    x, weight = drawn(3, 16), drawn(16, 4).bfloat16()
    assert torch.equal(pairs.lay_out(weight, None).product(x), pairs.lay_out(weight.float(), None).product(x))


@pytest.mark.parametrize("depth", [7, 9, 12])
def test_other_depths_use_onednn(depth: int) -> None:
    assert not pairs.fits(torch.ones(depth, 64))
