"""The best few of many columns are those of PyTorch's ``topk``."""

import pytest
import torch

from nmtkit.ops.best import best
from nmtkit.ops.native.search import GROUP


@pytest.mark.parametrize("columns", [5, 20 * GROUP - 1, 20 * GROUP, 33 * GROUP + 7])
@pytest.mark.parametrize("k", [1, 5])
def test_they_are_those_of_topk(columns: int, k: int) -> None:
    torch.manual_seed(columns)
    values = torch.randn(50, columns + 2)[:, 2:]
    found, expected = best(values, k), values.topk(k)
    assert torch.equal(found[0], expected.values)
    assert torch.equal(found[1], expected.indices)


def test_among_equal_values_any_may_be_found_but_each_once() -> None:
    values = torch.randint(3, (50, 30 * GROUP + 5), generator=torch.Generator().manual_seed(1)).float()
    found, columns = best(values, 5)
    assert torch.equal(found, values.topk(5).values)
    assert torch.equal(values.gather(1, columns), found)
    assert all(len(set(row)) == 5 for row in columns.tolist())


@pytest.mark.parametrize("place", [0, 29 * GROUP, 30 * GROUP + 4])
def test_what_is_no_number_comes_first(place: int) -> None:
    values = torch.zeros(3, 30 * GROUP + 5)
    values[1, place] = torch.nan
    found, columns = best(values, 2)
    assert found[:, 0].isnan().tolist() == [False, True, False]
    assert columns[1, 0] == place
