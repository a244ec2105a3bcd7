"""The fast cells equal the plain ones, and their gradients are the slopes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nmtkit.ops import gated, nematus
from tests.laws import assert_near, gradients, one_at_a_time
from tests.ops import oracle

pytestmark = pytest.mark.usefixtures("operations")

Cell = Callable[..., Tensor]
KINDS = ["gru", "tgru", "lgru", "lau", "nematus", "nematus row", "nematus without input"]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}  # of the largest element
every_kind = pytest.mark.parametrize("kind", KINDS)
normalised = pytest.mark.parametrize("layer_norm", [True, False], ids=["LN", "plain"])


def cell(kind: str, layer_norm: bool, rows: int, width: int, dropout: bool) -> tuple[Cell, Cell, list[Tensor]]:
    """Fast and plain function of the tensors that are returned with them: x, s, h, then parameters; in float64."""
    random = torch.Generator().manual_seed(rows * 10 + width)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random).bfloat16().double()

    keep = torch.rand(rows, width, generator=random).gt(0.4).double().mul(1.5) if dropout else None
    if kind.startswith("nematus"):
        x = {"nematus": [drawn(rows, 3 * width)], "nematus row": [drawn(3 * width)]}.get(kind, [])
        bias = [drawn(3 * width)] if kind != "nematus" else []
        norms = [drawn(n) for n in (2 * width, 2 * width, width, width)] if layer_norm else []

        def called(function: Callable[..., Tensor]) -> Cell:
            def run(s: Tensor, h: Tensor, *rest: Tensor) -> Tensor:
                rest, given = rest[len(x) :], rest[: len(x)]
                b = rest[0] if bias else None
                return function(given[0] if given else None, s, h, b, rest[len(bias) :])

            return run

        tensors = [drawn(rows, 3 * width), drawn(rows, width), *x, *bias, *norms]
        return called(nematus.step), called(oracle.nematus), tensors
    gates = 3 if kind in ("lgru", "lau") else 2
    inputs = {"tgru": [], "gru": [drawn(rows, 3 * width)]}.get(kind, [drawn(rows, 5 * width)])
    gain = [drawn(gates, width)] if layer_norm else []

    def called(function: Callable[..., Tensor]) -> Cell:
        def run(s: Tensor, h: Tensor, bias: Tensor, other: Tensor, *rest: Tensor) -> Tensor:
            x, g = (rest[0] if inputs else None), (rest[-1] if gain else None)
            return function(x, s, h, g, bias, other, None if keep is None else keep.to(h))

        return run

    fast, plain = (gated.lau, oracle.gated_lau) if kind == "lau" else (gated.gru, oracle.gated_gru)
    tensors = [drawn(rows, (gates + 1) * width), drawn(rows, width), drawn(gates, width), drawn(width)]
    return called(fast), called(plain), [*tensors, *inputs, *gain]


@every_kind
@pytest.mark.parametrize(
    ("layer_norm", "dropout", "size", "dtype"),
    one_at_a_time([True, False], [True, False], [(3, 5), (1, 4), (7, 2), (16, 33)], [torch.float32, torch.bfloat16]),
)
def test_results_and_all_gradients_equal_the_plain_cell(
    kind: str, layer_norm: bool, dropout: bool, size: tuple[int, int], dtype: torch.dtype
) -> None:
    fast, plain, tensors = cell(kind, layer_norm, *size, dropout)
    theirs = [x.requires_grad_() for x in tensors]
    ours = [x.detach().float() for x in tensors]
    ours = [(x.to(dtype) if k == 0 else x).requires_grad_() for k, x in enumerate(ours)]  # the product's dtype decides
    before = [x.detach().clone() for x in ours]
    result, expected = fast(*ours), plain(*theirs)
    assert result.dtype == torch.float32
    assert_near(result, expected, TOLERANCE[torch.float32])
    found = gradients(result, ours)
    for x, mine, other in zip(ours, found, gradients(expected, theirs), strict=True):
        assert mine.dtype == x.dtype
        assert_near(mine, other, 10 * TOLERANCE[torch.float32] if x.dtype == torch.float32 else TOLERANCE[dtype])
    assert all(torch.equal(x, y) for x, y in zip(ours, before, strict=True))


@every_kind
@normalised
def test_a_gradient_is_the_slope(kind: str, layer_norm: bool) -> None:
    fast, _, tensors = cell(kind, layer_norm, 3, 4, dropout=True)
    assert torch.autograd.gradcheck(fast, [x.requires_grad_() for x in tensors])


@every_kind
def test_a_frozen_input_does_not_change_the_other_gradients(kind: str) -> None:
    fast, _, tensors = cell(kind, True, 3, 4, dropout=True)
    tensors = [x.requires_grad_() for x in tensors]
    everything = gradients(fast(*tensors), tensors)
    for frozen in range(len(tensors)):
        others = [x.detach().requires_grad_(k != frozen) for k, x in enumerate(tensors)]
        found = gradients(fast(*others), [x for x in others if x.requires_grad])
        torch.testing.assert_close(found, everything[:frozen] + everything[frozen + 1 :])
