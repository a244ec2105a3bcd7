"""The type of a matrix decides how rows are multiplied by it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from nmtkit.kernels import pairs, tiles
from nmtkit.layers import converted
from nmtkit.layers.recurrent import GRU, LAU, LSTMState, PeepholeLSTM
from nmtkit.ops import bfloat16, int8
from nmtkit.ops.loop import share
from nmtkit.ops.matrix import SMALL, Matrix, convert, product
from nmtkit.ops.precision import Products


class Doubled:
    """A matrix that multiplies by twice itself."""

    def __init__(self, matrix: Tensor):
        self.matrix = matrix

    def product(self, rows: Tensor) -> Tensor:
        return 2 * (rows @ self.matrix)


def test_a_tensor_is_multiplied_by_pytorch_and_other_matrices_by_their_method() -> None:
    rows, matrix = torch.randn(2, 3, 5), torch.randn(5, 4)
    assert torch.equal(product(rows, matrix), rows @ matrix)
    assert torch.equal(product(rows, Doubled(matrix)), 2 * (rows @ matrix))


def test_a_tensor_is_multiplied_as_autocast_says() -> None:
    rows, matrix = torch.randn(3, 5), torch.randn(5, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = product(rows, matrix)
    assert low.dtype == torch.bfloat16
    assert torch.equal(low, rows.bfloat16() @ matrix.bfloat16())


def next_state(cell: PeepholeLSTM | GRU | LAU, x: Tensor, h: Tensor, weights: list[Matrix]) -> Tensor:
    if isinstance(cell, PeepholeLSTM):
        return cell.step(x, *LSTMState(h, h.flip(0)), *weights)[0]
    return cell.step(x, h, *weights)


@pytest.mark.parametrize(("kind", "terms"), [(PeepholeLSTM, 4), (GRU, 3), (LAU, 5)])
@torch.no_grad()
def test_every_cell_works_with_every_kind_of_matrix(kind: type[PeepholeLSTM | GRU | LAU], terms: int) -> None:
    torch.manual_seed(0)
    cell, x, h = kind(16), torch.randn(6, terms * 16), torch.randn(6, 16)
    exact = next_state(cell, x, h, [*cell.weights()])
    first, shared = share(h, *cell.weights())
    torch.testing.assert_close(next_state(cell, x, first, [*shared]), exact)
    for module in (bfloat16, int8):
        near = next_state(cell, x, h, [module.pack(weight, None) for weight in cell.weights()])
        assert not torch.equal(near, exact)
        torch.testing.assert_close(near, exact, rtol=0, atol=0.05)


@pytest.mark.parametrize(("kind", "terms"), [(PeepholeLSTM, 4), (GRU, 3), (LAU, 5)])
@pytest.mark.parametrize("reverse", [False, True])
@torch.no_grad()
def test_a_sequence_with_converted_weights_is_the_loop_over_the_steps(
    kind: type[PeepholeLSTM | GRU | LAU], terms: int, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    cell, x, zero = kind(16), torch.randn(5, 3, terms * 16), torch.zeros(3, 16)
    mask = torch.arange(5)[:, None] < torch.tensor([5, 3, 1])
    first: Any = LSTMState(zero, zero) if isinstance(cell, PeepholeLSTM) else zero
    exact = cell(x, first, mask, reverse)
    # No tensor, and yet the same products.
    monkeypatch.setattr(converted, "convert", lambda weight, bias, precision: Doubled(weight / 2))
    cell = cell.for_search("bfloat16")
    torch.testing.assert_close(cell(x, first, mask, reverse), exact)


def test_a_weight_is_converted_unless_it_is_small_or_float32_is_requested() -> None:
    large, small = torch.randn(128, SMALL // 128), torch.randn(127, SMALL // 128)
    assert convert(large, None, "float32") is large
    kinds: dict[Products, tuple[type, ...]] = {
        "bfloat16": (bfloat16.Low, bfloat16.LaidOut, tiles.Tiled),
        "int8": (int8.Packed, pairs.Paired),
    }
    for precision in kinds:
        assert isinstance(convert(large, None, precision), kinds[precision])
        assert convert(small, None, precision) is small


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_bias_that_was_converted_with_the_weight_is_added_to_every_row(precision: Products) -> None:
    torch.manual_seed(0)
    rows, weight, bias = torch.randn(200, 128), torch.randn(128, SMALL // 128), 10 * torch.randn(SMALL // 128)
    with_bias, without = (product(rows, convert(weight, each, precision)) for each in (bias, None))
    torch.testing.assert_close(with_bias, without + bias, rtol=2**-7, atol=0.5)
