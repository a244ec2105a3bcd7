"""Recurrent cells: running a sequence is taking its steps."""

import pytest
import torch
from torch import Tensor

from nmtkit.layers.recurrent import GRU, LSTMState, PeepholeLSTM

MASK = torch.tensor([[True, True], [True, True], [True, False], [True, False]])
both_ways = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])


def noisy(cell: torch.nn.Module) -> torch.nn.Module:
    for parameter in cell.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return cell


@both_ways
def test_the_lstm_over_a_sequence_is_its_steps_from_the_first_state(reverse: bool) -> None:
    cell, f = noisy(PeepholeLSTM(3)), torch.randn(4, 2, 12)
    first = LSTMState(torch.randn(2, 3), torch.randn(2, 3))
    outputs, last = cell(f, first, MASK, reverse)
    for row, length in enumerate([4, 2]):
        h, s = first.h[row : row + 1], first.s[row : row + 1]
        for t in reversed(range(length)) if reverse else range(length):
            h, s = cell.step(f[t, row : row + 1], h, s)
            torch.testing.assert_close(outputs[t, row], h[0])
        torch.testing.assert_close(last[row], h[0])


@both_ways
def test_the_gru_over_a_sequence_is_its_steps_from_zero(reverse: bool) -> None:
    cell, x = noisy(GRU(3)), torch.randn(4, 2, 9)
    outputs = cell(x, MASK, reverse)
    for row, length in enumerate([4, 2]):
        h = torch.zeros(1, 3)
        for t in reversed(range(length)) if reverse else range(length):
            h = cell.step(x[t, row : row + 1], h)
            torch.testing.assert_close(outputs[t, row], h[0])


def test_a_new_cell_has_one_orthogonal_matrix_per_gate() -> None:
    lstm, gru = PeepholeLSTM(5), GRU(5)
    blocks: list[Tensor] = [*lstm.weight.split(5, dim=1), *gru.gates.split(5, dim=1), gru.weight]
    assert len(blocks) == 7
    for block in blocks:
        torch.testing.assert_close(block @ block.t(), torch.eye(5))
    assert not lstm.peepholes.any()
