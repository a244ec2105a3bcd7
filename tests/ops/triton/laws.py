"""The laws of ``ops/triton/``, which test_kernels.py runs in processes of their own.

On a CPU they need TRITON_INTERPRET=1 before Triton is imported; without it they need a GPU.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nmtkit.ops import attention, gated, gru, lau, lstm, nematus, trusted
from nmtkit.ops.triton import attention as fused_attention
from nmtkit.ops.triton import gated as fused_gated
from nmtkit.ops.triton import gru as fused_gru
from nmtkit.ops.triton import lau as fused_lau
from nmtkit.ops.triton import lstm as fused_lstm
from nmtkit.ops.triton import nematus as fused_nematus
from tests.ops import test_gated
from tests.ops.test_recurrence import (
    OPS,
    TOLERANCE,
    Op,
    assert_near,
    both_ways,
    every_op,
    gradients,
    inputs,
    leaves,
    ragged,
)

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
SLACK = 1 if DEVICE == "cpu" else 5  # a GPU's exponential is coarser
SIZES = [(4, 3, 5), (1, 2, 33), (3, 1, 1), (1, 1, 1), (2, 3, 130)]  # of the last a step takes two programs


TWINS: list[tuple[Any, Any]] = [(lstm, fused_lstm), (gru, fused_gru), (lau, fused_lau)]
NORMALISED: list[tuple[Any, Any]] = [(gated, fused_gated), (nematus, fused_nematus)]


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has the recurrences use the kernels, and gives the names of those that ran."""
    names: list[str] = []

    def counting(launch: Callable[..., None]) -> Callable[..., None]:
        def counted(kernel: Any, *arguments: object) -> None:
            names.append(kernel.__name__)
            launch(kernel, *arguments)

        return counted

    if DEVICE == "cpu":
        monkeypatch.setattr(trusted, "choose", lambda plain, triton, native, compare, x: triton())
    for cell, twin in [*TWINS, *NORMALISED]:
        for dtype in TOLERANCE:
            tensor = torch.zeros(1, device=DEVICE, dtype=dtype)
            assert trusted.choose(cell.PLAIN, cell._triton, None, cell._compare, tensor) is twin
        launcher = "run_rows" if (cell, twin) in NORMALISED else "run"
        monkeypatch.setattr(twin, launcher, counting(getattr(twin, launcher)))
    return names


def drawn(op: Op, length: int, rows: int, width: int) -> list[Tensor]:
    """As in test_recurrence.py, with weights that leave a state its size."""
    sequence, *others = inputs(op, length, rows, width)
    weights = [x.div(width**0.5).bfloat16().double() for x in others[: -op.states]]
    return [sequence, *weights, *others[-op.states :]]


def found(op: Op, tensors: list[Tensor], mask: Tensor | None, reverse: bool) -> list[Tensor]:
    """Results, then all gradients, back on the CPU."""
    results = [r.cpu() for r in op.fast(*tensors, mask, reverse)]
    return [*results, *(g.cpu() for g in gradients(tuple(results), tensors))]


@every_op
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@both_ways
@pytest.mark.parametrize(("length", "rows", "width"), SIZES)
def test_outputs_and_all_gradients_equal_the_plain_loop(
    op: Op, dtype: torch.dtype, masked: bool, reverse: bool, length: int, rows: int, width: int, run: list[str]
) -> None:
    mask = ragged(length, rows) if masked else None
    plain = [x.requires_grad_() for x in drawn(op, length, rows, width)]
    fast = leaves(plain, dtype, DEVICE)
    expected = op.plain(*plain, mask, reverse)
    ours = found(op, fast, None if mask is None else mask.to(DEVICE), reverse)
    for mine, other in zip(ours, [*expected, *gradients(expected, plain)], strict=True):
        assert_near(mine, other, SLACK * TOLERANCE[dtype])
    assert [r.dtype for r in ours[: 1 + op.states]] == [dtype] + [torch.float32] * op.states
    kernels_a_step = 4 if op is OPS["gru"] else 2  # forward and backward
    assert len(run) == kernels_a_step * length


@every_op
@pytest.mark.parametrize("used", ["sequence", "last state"])
def test_a_result_that_nothing_uses_takes_no_part_in_the_gradient(op: Op, used: str) -> None:
    plain = [x.requires_grad_() for x in drawn(op, 3, 2, 3)]
    fast = leaves(plain, torch.float32, DEVICE)
    chosen = slice(0, 1) if used == "sequence" else slice(-1, None)
    ours = gradients(tuple(r.cpu() for r in op.fast(*fast, None, False)[chosen]), fast)
    theirs = gradients(op.plain(*plain, None, False)[chosen], plain)
    for mine, other in zip(ours, theirs, strict=True):
        assert_near(mine.cpu(), other, SLACK * 2e-6)


@every_op
def test_how_the_arguments_lie_in_memory_changes_nothing(op: Op) -> None:
    length, rows, width = 3, 4, 5
    sequence, *others = leaves(drawn(op, length, rows, width), torch.float32, DEVICE)
    others = [*others[: -op.states], *(x[:1].detach().expand(rows, -1) for x in others[-op.states :])]
    mask = ragged(length, rows).to(DEVICE)
    weights = torch.randn(length, rows, 2 * width, generator=torch.Generator().manual_seed(1)).to(DEVICE)[..., width:]

    def batch_first(x: Tensor) -> Tensor:
        return x.transpose(0, 1).contiguous().transpose(0, 1)

    wide = torch.cat([sequence, sequence], dim=-1).detach()
    strided = batch_first(wide)[..., op.gates * width :].requires_grad_()
    assert not strided.is_contiguous()
    there = [x.detach().contiguous() for x in others]
    scattered = op.fast(strided, *others, batch_first(mask), False)[0]
    straight = op.fast(sequence, *there, mask, False)[0]
    assert torch.equal(scattered, straight)
    (gradient,) = torch.autograd.grad(scattered, strided, weights)
    assert torch.equal(gradient, torch.autograd.grad(straight, sequence, weights.contiguous())[0])
    (constant,) = torch.autograd.grad(op.fast(sequence, *there, mask, False)[0].sum(), sequence)  # of stride 0
    ones = torch.ones_like(straight)
    assert torch.equal(constant, torch.autograd.grad(op.fast(sequence, *there, mask, False)[0], sequence, ones)[0])


@every_op
@both_ways
def test_what_stands_at_padded_steps_changes_nothing(op: Op, reverse: bool) -> None:
    tensors = leaves(drawn(op, 4, 3, 2), torch.float32, DEVICE)
    mask = ragged(4, 3).to(DEVICE)
    garbage = torch.where(mask.unsqueeze(-1), tensors[0].detach(), 1e4).requires_grad_()
    expected = found(op, tensors, mask, reverse)
    for mine, other in zip(found(op, [garbage, *tensors[1:]], mask, reverse), expected, strict=True):
        assert torch.equal(mine, other)


@every_op
def test_what_came_in_is_left_as_it_was(op: Op) -> None:
    tensors = leaves(drawn(op, 3, 2, 3), torch.float32, DEVICE)
    before = [x.detach().clone() for x in tensors]
    results = op.fast(*tensors, None, False)
    given = [torch.ones_like(r) for r in results]
    torch.autograd.grad(results, tensors, given)
    for tensor, copy in zip(tensors, before, strict=True):
        assert torch.equal(tensor, copy)
    assert all(bool((g == 1).all()) for g in given)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
def test_the_kernels_are_trusted(dtype: torch.dtype) -> None:
    for cell, twin in [*TWINS, *NORMALISED, (attention, fused_attention)]:
        cell._compare(twin, torch.device(DEVICE), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)], ids=["sentences", "time", "width"])
@pytest.mark.parametrize(("sentences", "sources", "width"), [(3, 4, 5), (1, 1, 1), (2, 3, 300)])
def test_the_scores_of_additive_attention_are_its_equation(
    dtype: torch.dtype, order: tuple[int, ...], sentences: int, sources: int, width: int
) -> None:
    random = torch.Generator().manual_seed(width)
    shapes = [(sentences, width), (sentences, sources, width), (width,)]
    query, keys, v = (torch.randn(shape, generator=random).bfloat16() for shape in shapes)
    mask = ragged(sources, sentences).t()
    keys = keys.permute(order).contiguous().permute(order)  # what comes first in memory
    given = [x.to(DEVICE) for x in (query.to(dtype), keys.to(dtype), v.float(), mask)]
    scores = fused_attention.scores(*given).cpu().double()
    expected = ((query.double().unsqueeze(1) + keys.double()).tanh() @ v.double()).masked_fill(~mask, float("-inf"))
    torch.testing.assert_close(scores, expected, rtol=0, atol=SLACK * 1e-6 * width**0.5)


@test_gated.every_kind
@test_gated.normalised
@pytest.mark.parametrize("dropout", [False, True], ids=["whole", "dropout"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "width"), [(3, 5), (1, 1), (7, 2), (5, 33), (2, 300)])
def test_a_cell_with_normalised_gates_takes_a_kernel_each_way_and_equals_the_plain_cell(
    kind: str, layer_norm: bool, dropout: bool, dtype: torch.dtype, rows: int, width: int, run: list[str]
) -> None:
    fast, plain, tensors = test_gated.cell(kind, layer_norm, rows, width, dropout)
    theirs = [x.requires_grad_() for x in tensors]
    ours = leaves(tensors, dtype, DEVICE)
    result, expected = fast(*ours), plain(*theirs)
    assert result.dtype == torch.float32
    assert_near(result.cpu(), expected, SLACK * TOLERANCE[torch.float32])
    before = [x.detach().clone() for x in ours]
    mine, others = (test_gated.gradients(x.cpu(), of) for x, of in ((result, ours), (expected, theirs)))
    for x, gradient, other in zip(ours, mine, others, strict=True):
        assert gradient.dtype == x.dtype
        tolerance = TOLERANCE[dtype] if x.dtype == torch.bfloat16 else SLACK * 10 * TOLERANCE[torch.float32]
        assert_near(gradient.cpu(), other, tolerance)
    assert len(run) == 2
    assert all(torch.equal(x, y) for x, y in zip(ours, before, strict=True))


@pytest.mark.parametrize("kind", ["gru", "lgru", "lau"])
def test_an_input_of_a_product_in_bfloat16_has_its_gradient_in_bfloat16(kind: str) -> None:
    fast, plain, tensors = test_gated.cell(kind, True, 3, 33, dropout=True)
    theirs = [x.requires_grad_() for x in tensors]
    low = {0, 4}  # s and x
    ours = [
        x.detach().to(DEVICE, torch.bfloat16 if k in low else torch.float32).requires_grad_()
        for k, x in enumerate(tensors)
    ]
    result, expected = fast(*ours), plain(*theirs)
    assert_near(result.cpu(), expected, SLACK * TOLERANCE[torch.float32])
    mine = torch.autograd.grad(result, ours, torch.ones_like(result))
    others = torch.autograd.grad(expected, theirs, torch.ones_like(expected))
    for k, (gradient, other) in enumerate(zip(mine, others, strict=True)):
        assert gradient.dtype == (torch.bfloat16 if k in low else torch.float32)
        assert_near(gradient.cpu(), other, TOLERANCE[torch.bfloat16] if k in low else SLACK * 2e-5)


def test_kernels_read_a_state_and_a_product_however_they_lie_in_memory() -> None:
    fast, _, tensors = test_gated.cell("lau", True, 4, 5, dropout=True)
    straight = [x.float().to(DEVICE).requires_grad_() for x in tensors]
    scattered = [x.detach().t().contiguous().t().requires_grad_() if x.ndim == 2 else x for x in straight]
    assert not scattered[1].is_contiguous()
    results = [fast(*given) for given in (straight, scattered)]
    assert torch.equal(*results)
    weights = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).to(DEVICE).t()
    found = [torch.autograd.grad(r, of, weights) for r, of in zip(results, (straight, scattered), strict=True)]
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))
