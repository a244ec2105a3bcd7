"""The fast recurrences equal the plain ones, and the plain ones equal NumPy written from the papers."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.ops import gru, lau, lstm
from tests.laws import assert_near, gradients, one_at_a_time, representable, sigmoid
from tests.ops import oracle

pytestmark = pytest.mark.usefixtures("operations")


class Op(NamedTuple):
    fast: Callable[..., tuple[Tensor, ...]]
    plain: Callable[..., tuple[Tensor, ...]]
    gates: int
    weights: Callable[[int], list[tuple[int, int]]]  # shapes for width H
    states: int


OPS = {
    "lstm": Op(lstm.sequence, oracle.lstm_sequence, 4, lambda h: [(h, 4 * h), (3, h)], 2),
    "gru": Op(gru.sequence, oracle.gru_sequence, 3, lambda h: [(h, 2 * h), (h, h)], 1),
    "lau": Op(lau.sequence, oracle.lau_sequence, 5, lambda h: [(h, 4 * h), (4 * h,)], 1),
}
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}  # of the largest element
every_op = pytest.mark.parametrize("op", OPS.values(), ids=OPS)
both_ways = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])


def inputs(op: Op, length: int, rows: int, width: int) -> list[Tensor]:
    """Sequence, weights and initial states in float64, all with values that bfloat16 has."""
    shapes = [(length, rows, op.gates * width), *op.weights(width), *[(rows, width)] * op.states]
    return representable(*shapes, seed=length * 100 + rows * 10 + width, scale=0.7)


def ragged(length: int, rows: int) -> Tensor:
    """A mask (T, B) in which every row but the first is shorter by some steps, and none is empty."""
    lengths = torch.tensor([max(1, length - 2 * row) for row in range(rows)])
    return torch.arange(length).unsqueeze(1) < lengths


@every_op
@pytest.mark.parametrize(
    ("size", "masked", "reverse", "dtype"),
    one_at_a_time(
        [(7, 3, 5), (1, 2, 3), (4, 1, 1), (1, 1, 1), (6, 4, 8), (6, 100, 5)], [True, False], [True, False], [*TOLERANCE]
    ),
)
def test_outputs_and_all_gradients_equal_the_plain_loop(
    op: Op, size: tuple[int, int, int], masked: bool, reverse: bool, dtype: torch.dtype
) -> None:
    length, rows, _ = size
    mask = ragged(length, rows) if masked else None
    plain = [x.requires_grad_() for x in inputs(op, *size)]
    fast = [x.detach().float() for x in plain]
    fast = [x.requires_grad_() for x in (fast[0].to(dtype), *fast[1:])]  # the sequence decides; the others stay float32
    expected = op.plain(*plain, mask, reverse)
    results = op.fast(*fast, mask, reverse)
    assert [r.dtype for r in results] == [dtype] + [torch.float32] * op.states
    for ours, theirs in zip(results, expected, strict=True):
        assert_near(ours, theirs, TOLERANCE[dtype])
    for ours, theirs in zip(gradients(results, fast), gradients(expected, plain), strict=True):
        assert_near(ours, theirs, TOLERANCE[dtype])


@every_op
@pytest.mark.parametrize("used", ["sequence", "last state"])
def test_a_result_that_nothing_uses_takes_no_part_in_the_gradient(op: Op, used: str) -> None:
    plain = [x.requires_grad_() for x in inputs(op, 4, 2, 3)]
    fast = [x.detach().float().requires_grad_() for x in plain]
    chosen = slice(0, 1) if used == "sequence" else slice(-1, None)
    ours = gradients(op.fast(*fast, None, False)[chosen], fast)
    theirs = gradients(op.plain(*plain, None, False)[chosen], plain)
    for mine, other in zip(ours, theirs, strict=True):
        assert_near(mine, other, 2e-6)


@every_op
@both_ways
def test_a_padded_step_hands_the_state_on(op: Op, reverse: bool) -> None:
    sequence, *others = [x.float() for x in inputs(op, 5, 2, 3)]
    mask = torch.tensor([True, True, False, True, False]).unsqueeze(1).expand(5, 2)
    outputs, *last = op.fast(sequence, *others, mask, reverse)
    kept, *kept_last = op.fast(sequence[[0, 1, 3]], *others, None, reverse)
    torch.testing.assert_close(outputs[[0, 1, 3]], kept)
    torch.testing.assert_close(last, kept_last)
    first = others[-op.states]
    after_2, after_4 = (outputs[3], first) if reverse else (outputs[1], outputs[3])
    assert torch.equal(outputs[2], after_2)
    assert torch.equal(outputs[4], after_4)


@every_op
@both_ways
def test_what_stands_at_padded_steps_changes_nothing(op: Op, reverse: bool) -> None:
    sequence, *others = [x.float() for x in inputs(op, 5, 3, 2)]
    mask = ragged(5, 3)
    garbage = torch.where(mask.unsqueeze(-1), sequence, 1e4)
    for ours, theirs in zip(
        op.fast(garbage, *others, mask, reverse), op.fast(sequence, *others, mask, reverse), strict=True
    ):
        assert torch.equal(ours, theirs)


@every_op
def test_reverse_is_the_forward_loop_over_the_sequence_turned_round(op: Op) -> None:
    sequence, *others = [x.float() for x in inputs(op, 6, 2, 3)]
    outputs, *last = op.fast(sequence, *others, None, True)
    turned, *turned_last = op.fast(sequence.flip(0), *others, None, False)
    torch.testing.assert_close(outputs, turned.flip(0))
    torch.testing.assert_close(last, turned_last)


@every_op
@both_ways
def test_the_plain_gradient_is_the_slope(op: Op, reverse: bool) -> None:
    variables = [x.requires_grad_() for x in inputs(op, 3, 2, 2)]
    assert torch.autograd.gradcheck(lambda *x: op.plain(*x, ragged(3, 2), reverse), variables)


def test_the_lstm_is_equation_4_of_zhou_et_al() -> None:
    f, w_r, theta, h, s = (x.numpy() for x in inputs(OPS["lstm"], 4, 2, 3))
    outputs, last_h, last_s = oracle.lstm_sequence(*inputs(OPS["lstm"], 4, 2, 3))
    for t in range(4):
        z, z_rho, z_phi, z_pi = np.split(f[t] + h @ w_r, 4, axis=1)
        rho = sigmoid(z_rho + s * theta[0])
        phi = sigmoid(z_phi + s * theta[1])
        s = np.tanh(z) * rho + phi * s
        h = np.tanh(s) * sigmoid(z_pi + s * theta[2])
        np.testing.assert_allclose(outputs[t], h, rtol=1e-12)
    np.testing.assert_allclose(last_h, h, rtol=1e-12)
    np.testing.assert_allclose(last_s, s, rtol=1e-12)


def test_the_gru_resets_before_the_product_as_in_bahdanau_et_al() -> None:
    x, u_gates, u, h = (x.numpy() for x in inputs(OPS["gru"], 4, 2, 3))
    outputs, last = oracle.gru_sequence(*inputs(OPS["gru"], 4, 2, 3))
    u_r, u_z = np.split(u_gates, 2, axis=1)
    for t in range(4):
        x_r, x_z, x_h = np.split(x[t], 3, axis=1)
        r, z = sigmoid(x_r + h @ u_r), sigmoid(x_z + h @ u_z)
        h = (1 - z) * h + z * np.tanh(x_h + (r * h) @ u)
        np.testing.assert_allclose(outputs[t], h, rtol=1e-12)
    np.testing.assert_allclose(last, h, rtol=1e-12)


def test_the_lau_is_equations_6_to_8_of_wang_et_al() -> None:
    x, u, bias, h = (x.numpy() for x in inputs(OPS["lau"], 4, 2, 3))
    outputs, last = oracle.lau_sequence(*inputs(OPS["lau"], 4, 2, 3))
    w_hr, w_hz, w_hg, w_hh = np.split(u, 4, axis=1)
    b_r, b_z, b_g, b_h = np.split(bias, 4)
    for t in range(4):
        x_r, x_z, x_g, x_h, linear = np.split(x[t], 5, axis=1)
        r, z, g = sigmoid(x_r + h @ w_hr + b_r), sigmoid(x_z + h @ w_hz + b_z), sigmoid(x_g + h @ w_hg + b_g)
        candidate = np.tanh((1 - r) * x_h + r * (h @ w_hh) + b_h)
        h = ((1 - z) * h + z * candidate) * (1 - g) + g * linear
        np.testing.assert_allclose(outputs[t], h, rtol=1e-12)
    np.testing.assert_allclose(last, h, rtol=1e-12)
