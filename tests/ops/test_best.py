"""The best few of many columns are those of PyTorch's ``topk``."""

import pytest
import torch

from nmtkit.kernels.search import GROUP
from nmtkit.ops.best import best, softmax_of, whole

pytestmark = pytest.mark.usefixtures("operations")


@pytest.mark.parametrize("columns", [5, 20 * GROUP - 1, 20 * GROUP, 33 * GROUP + 7])
@pytest.mark.parametrize("k", [1, 5])
def test_they_are_those_of_topk(columns: int, k: int) -> None:
    torch.manual_seed(columns)
    values = torch.randn(50, columns + 2)[:, 2:]
    found, expected = best(values, k), values.topk(k)
    assert torch.equal(found[0], expected.values)
    assert torch.equal(found[1], expected.indices)


@pytest.mark.parametrize("columns", [5, 20 * GROUP - 1, 20 * GROUP, 33 * GROUP + 7])
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("different", [1, 3, 30, 1000])
def test_ties_go_to_the_last_column(columns: int, k: int, first: int, different: int) -> None:
    values = 2.0 - torch.randint(different, (50, columns), generator=torch.Generator().manual_seed(1))
    found, places = best(values, k, first)
    order = values[:, first:].flip(1).sort(dim=1, descending=True, stable=True)
    assert torch.equal(places, columns - 1 - order.indices[:, : min(k, columns - first)])
    assert torch.equal(found, values.gather(1, places))


@pytest.mark.parametrize("wrong", [torch.nan, -torch.nan])
@pytest.mark.parametrize("place", [0, 29 * GROUP, 30 * GROUP + 4])
def test_nan_of_either_sign_comes_first(wrong: float, place: int) -> None:
    values = torch.zeros(3, 30 * GROUP + 5)
    values[0], values[1, place] = torch.inf, wrong
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [3, 5 * GROUP + 3])
def test_log_probabilities_that_are_normalised_later_are_the_same(columns: int, dtype: torch.dtype) -> None:
    logits, k = torch.randn(20, columns, generator=torch.Generator().manual_seed(3)).to(dtype), min(4, columns - 1)
    log_probs, exact = softmax_of(logits), logits.double().log_softmax(dim=-1).float()
    torch.testing.assert_close(whole(log_probs), exact, rtol=1e-6, atol=5e-6)
    found, places = best(log_probs, 4, 1)
    torch.testing.assert_close(found, exact[:, 1:].topk(k).values, rtol=1e-6, atol=5e-6)
    order = logits[:, 1:].flip(1).sort(dim=1, descending=True, stable=True)
    assert torch.equal(places, columns - 1 - order.indices[:, :k])  # in bfloat16 many are equal
