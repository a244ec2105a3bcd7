"""Products in 8-bit integers equal their plain form, row by row, and are done with weights only."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmtkit.errors import UserError
from nmtkit.ops import int8
from nmtkit.ops.int8 import Int8Products, check_int8, pack, product
from tests.ops import oracle

SIZES = [(1, 1, 1), (1, 2, 3), (3, 5, 4), (7, 64, 33), (33, 100, 257)]  # N, D, E


def factors(rows: int, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(rows)
    return torch.randn(rows, inputs, generator=random), torch.randn(inputs, outputs, generator=random)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_product_equals_the_plain_form_and_is_near_the_exact_one(sizes: tuple[int, int, int]) -> None:
    x, weight = factors(*sizes)
    found = product(x, pack(weight))
    torch.testing.assert_close(found, oracle.int8_product(x, weight), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found, x @ weight, rtol=0, atol=0.1 * math.sqrt(sizes[1]))


def test_a_row_does_not_depend_on_the_others() -> None:
    x, weight = factors(33, 100, 257)
    x[0] *= 1000
    together = product(x, pack(weight))
    for row, found in zip(x, together, strict=True):
        assert torch.equal(product(row[None], pack(weight))[0], found)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_numbers_do_not_overflow(sign: float) -> None:
    x, weight = torch.full((4, 1024), 3.0), torch.full((1024, 8), sign)
    torch.testing.assert_close(product(x, pack(weight)), torch.full((4, 8), sign * 3 * 1024))


def test_zero_is_exact_and_what_is_no_number_stays_none() -> None:
    x, weight = factors(3, 5, 4)
    x[0], x[1, 2] = 0, math.nan
    weight[:, 1] = 0
    found = product(x, pack(weight))
    assert not found[0].any()
    assert found[1, 0].isnan()
    assert found[2, 1] == 0
    assert found[2].isfinite().all()


class Two(nn.Module):
    """One weight of each orientation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.weight = nn.Parameter(torch.randn(6, 4))

    def forward(self, x: Tensor) -> Any:
        return self.linear(x), x @ self.weight, torch.matmul(x, self.weight), x @ self.weight[:, :2]


@torch.inference_mode()
def test_every_product_with_a_weight_is_replaced_and_no_other() -> None:
    torch.manual_seed(0)
    model, x, other = Two(), torch.randn(2, 3, 6), torch.randn(6, 4)
    with Int8Products(model.parameters()):
        ours, theirs = model(x), (x @ other, functional.linear(x, other.t()), x @ other[:, 0])
    rows = x.flatten(0, 1)
    weights = [model.linear.weight.t(), model.weight, model.weight, model.weight[:, :2]]
    plain = [oracle.int8_product(rows, weight).view(2, 3, -1) for weight in weights]
    plain[0] += model.linear.bias
    for mine, expected in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)
    assert not torch.equal(ours[1], x @ model.weight)
    for mine, exact in zip(theirs, (x @ other, x @ other, x @ other[:, 0]), strict=True):
        assert torch.equal(mine, exact)
    assert torch.equal(model(x)[0], functional.linear(x, model.linear.weight, model.linear.bias))  # outside it


def test_another_device_is_refused() -> None:
    check_int8(torch.device("cpu"))
    with pytest.raises(UserError, match="--precision int8: is for the cpu, not meta; use float32, or --device cpu"):
        check_int8(torch.device("meta"))


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, NotImplementedError])
def test_a_processor_that_cannot_is_refused(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(weight: Tensor) -> None:
        raise error

    monkeypatch.setattr(int8, "pack", missing)
    with pytest.raises(UserError, match="no products of 8-bit integers for this processor; use float32"):
        check_int8(torch.device("cpu"))
