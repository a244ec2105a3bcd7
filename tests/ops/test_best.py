"""The best few of many columns are those of PyTorch's ``topk``."""

import pytest
import torch

from nmtkit.kernels.search import GROUP
from nmtkit.ops.best import best, softmax_of, whole


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


@pytest.mark.parametrize("columns", [3, 7, 20 * GROUP + 3])
def test_columns_before_the_first_do_not_count(columns: int) -> None:
    values = torch.randn(20, columns, generator=torch.Generator().manual_seed(2))
    values[:, :2] += 100
    found, places = best(values, 5, 2)
    expected = values[:, 2:].topk(min(5, columns - 2))
    assert torch.equal(found, expected.values)
    assert torch.equal(places, expected.indices + 2)


@pytest.mark.usefixtures("operations")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_probabilities_that_are_normalised_later_are_the_same(dtype: torch.dtype) -> None:
    logits = torch.randn(20, 5 * GROUP + 3, generator=torch.Generator().manual_seed(3)).to(dtype)
    log_probs, exact = softmax_of(logits), logits.double().log_softmax(dim=-1).float()
    torch.testing.assert_close(whole(log_probs), exact, rtol=1e-6, atol=5e-6)
    found, places = best(log_probs, 4, 1)
    torch.testing.assert_close(found, exact[:, 1:].topk(4).values, rtol=1e-6, atol=5e-6)
    torch.testing.assert_close(exact.gather(1, places), found, rtol=1e-6, atol=5e-6)
