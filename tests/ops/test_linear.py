"""Products of whole sequences in bfloat16: those of PyTorch, in few shapes."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmtkit.ops.linear import linear, times, with_zeros
from tests.laws import representable

INPUTS, OUTPUTS = 24, 40
SIZES = [(INPUTS, OUTPUTS), (64, 96)]  # those of the second a processor multiplies by tiles, if it has any
ROWS = [1, 128, 129, 300, 512, 513, 769, 1300]  # few, one block, two, and next to the limits


def tensors(rows: int, inputs: int = INPUTS, outputs: int = OUTPUTS) -> tuple[Tensor, Tensor, Tensor]:
    """x (R, D), weight (E, D) and bias (E,), whose products are exact in bfloat16 times a rounding of the sum."""
    shapes = [(rows, inputs), (outputs, inputs), (outputs,)]
    x, weight, bias = (x.float().requires_grad_() for x in representable(*shapes, seed=rows))
    return x, weight, bias


def results(rows: int, sizes: tuple[int, int], *, plain: bool, with_bias: bool) -> list[Tensor]:
    """The product and the gradients of all tensors, under a gradient that weighs every element differently."""
    given = tensors(rows, *sizes)
    x, weight, bias = given
    used = given if with_bias else given[:2]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = (functional.linear if plain else linear)(x, weight, bias if with_bias else None)
    d_y = torch.randn(y.shape, generator=torch.Generator().manual_seed(7)).to(y.dtype)
    return [y, *torch.autograd.grad(y, used, d_y)]


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("rows", ROWS)
def test_a_product_and_its_gradients_are_those_of_pytorch(rows: int, sizes: tuple[int, int], with_bias: bool) -> None:
    both = (results(rows, sizes, plain=plain, with_bias=with_bias) for plain in (False, True))
    for ours, theirs in zip(*both, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        # Each was rounded to bfloat16 once or twice: 2^-8 of its size, and of the largest term of a sum.
        torch.testing.assert_close(ours, theirs, rtol=2**-7, atol=2**-7 * theirs.abs().max().item())


@pytest.mark.parametrize("frozen", range(3), ids=["x", "weight", "bias"])
def test_a_frozen_input_does_not_change_the_other_gradients(frozen: int) -> None:
    given = tensors(300)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        every = torch.autograd.grad(linear(*given).sum(), given)
        given[frozen].requires_grad_(False)
        rest = torch.autograd.grad(linear(*given).sum(), [x for x in given if x.requires_grad])
    assert all(map(torch.equal, rest, [*every[:frozen], *every[frozen + 1 :]]))


def test_a_product_over_sentences_and_words_keeps_its_shape() -> None:
    x, weight, bias = tensors(20 * 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = linear(x.view(20, 30, INPUTS), weight, bias)
        flat = linear(x, weight, bias)
    assert torch.equal(y.view(-1, OUTPUTS), flat)


def test_without_autocast_it_is_the_product_in_float32() -> None:
    x, weight, bias = tensors(300)
    assert torch.equal(linear(x, weight, bias), functional.linear(x, weight, bias))


@pytest.mark.parametrize("rows", ROWS)
def test_padding_rows_do_not_affect_the_results(rows: int) -> None:
    x, weight, _ = tensors(rows)
    padded = with_zeros(x.detach(), torch.bfloat16)
    assert torch.equal(padded[:rows], x.detach().bfloat16())
    assert not padded[rows:].any()
    w = weight.detach().bfloat16().t()
    torch.testing.assert_close(times(padded, w, rows), x.detach().bfloat16() @ w, rtol=2**-7, atol=0.01)


def test_batches_of_all_sizes_are_multiplied_in_few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = set()
    multiply = torch.mm

    def mm(x: Tensor, weight: Tensor, *, out: Tensor) -> Tensor:
        shapes.add((*x.shape, weight.shape[1]))
        return multiply(x, weight, out=out)

    monkeypatch.setattr(torch, "mm", mm)
    sums = set()
    for rows in range(129, 2000, 7):
        padded = with_zeros(torch.ones(rows, 8), torch.bfloat16)
        times(padded, torch.ones(8, 8, dtype=torch.bfloat16), rows)
        sums.add(len(padded))
    assert len(shapes) <= 4
    assert len(sums) <= 9
