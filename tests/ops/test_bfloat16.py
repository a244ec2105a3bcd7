"""Products in bfloat16 for search are those of PyTorch, row by row, for every layout of oneDNN."""

import pytest
import torch
from torch import Tensor

from nmtkit.ops.bfloat16 import MOST_ROWS, SIZES, LaidOut, Low, by_blocks, pack
from nmtkit.ops.matrix import product
from tests.laws import factors


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 4), (7, 65, 33), (MOST_ROWS + 3, 100, 257)])
def test_a_product_is_that_of_the_rounded_factors_rounded(sizes: tuple[int, int, int]) -> None:
    x, weight = factors(*sizes)
    exact = (x.bfloat16().double() @ weight.bfloat16().double()).float()
    for matrix in (pack(weight, None), Low(weight.t().bfloat16(), None)):
        found = product(x, matrix)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, exact, rtol=2**-7, atol=1e-3)
        assert torch.equal(found, found.bfloat16().float())


def test_results_stay_in_bfloat16_if_requested() -> None:
    x, weight = factors(MOST_ROWS + 3, 100, 257)
    for matrix in (pack(weight, None), Low(weight.t().bfloat16(), None)):
        found = product(x, matrix._replace(results=torch.bfloat16))
        assert found.dtype == torch.bfloat16
        assert torch.equal(found.float(), product(x, matrix))
        assert torch.equal(product(x.bfloat16(), matrix), product(x, matrix))


def test_a_row_does_not_depend_on_the_others() -> None:
    x, weight = factors(2 * MOST_ROWS + 33, 100, 257)
    matrix = pack(weight, None)
    together = product(x, matrix)
    for row, found in zip(x, together, strict=True):
        torch.testing.assert_close(product(row[None], matrix)[0], found, rtol=2**-7, atol=1e-3)


def test_a_packed_weight_multiplies_rows_of_any_shape_and_is_a_copy() -> None:
    x, weight = factors(6, 5, 4)
    matrix = pack(weight, None)
    weight.zero_()
    together = product(x, matrix)
    assert together.any()
    assert torch.equal(product(x.view(2, 3, 5), matrix), together.view(2, 3, 4))
    assert product(x[:0], matrix).shape == (0, 4)


def test_a_processor_with_bfloat16_has_its_own_layout() -> None:
    supported = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    assert isinstance(pack(torch.ones(2, 2), None), LaidOut if supported else Low)


@pytest.mark.parametrize("rows", [0, 1, 8, 9, MOST_ROWS, MOST_ROWS + 1, 3 * MOST_ROWS + 100])
def test_blocks_have_few_sizes_and_give_what_the_rows_give(rows: int) -> None:
    x, sizes = torch.randn(rows, 6), list[int]()

    def doubled(part: Tensor, place: Tensor) -> None:
        sizes.append(len(part))
        assert not part[len(place) :].any()
        place.copy_(2 * part[: len(place), :4])

    assert torch.equal(by_blocks(doubled, x, 4), 2 * x[:, :4])
    assert set(sizes) <= {*SIZES}
    assert sum(sizes) <= 2 * rows + 8
