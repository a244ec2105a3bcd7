"""Recurrent cells: running a sequence is taking its steps."""

import pytest
import torch
from torch import Tensor

from nmtkit.layers.recurrent import GRU, LAU, LSTMState, PeepholeLSTM
from tests.laws import randomised

MASK = torch.tensor([[True, True], [True, True], [True, False], [True, False]])
both_ways = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])


@both_ways
def test_the_lstm_over_a_sequence_is_its_steps_from_the_first_state(reverse: bool) -> None:
    cell, f = randomised(PeepholeLSTM(3)), torch.randn(4, 2, 12)
    first = LSTMState(torch.randn(2, 3), torch.randn(2, 3))
    outputs = cell(f, first, MASK, reverse)
    for row, length in enumerate([4, 2]):
        h, s = first.h[row : row + 1], first.s[row : row + 1]
        for t in reversed(range(length)) if reverse else range(length):
            h, s = cell.step(f[t, row : row + 1], h, s, *cell.weights())
            torch.testing.assert_close(outputs[t, row], h[0])
        torch.testing.assert_close(outputs[0 if reverse else -1, row], h[0])


@both_ways
@pytest.mark.parametrize(("kind", "inputs"), [(GRU, 9), (LAU, 15)])
def test_a_gated_cell_over_a_sequence_is_its_steps_from_the_first_state(
    kind: type[GRU | LAU], inputs: int, reverse: bool
) -> None:
    cell, x, first = randomised(kind(3)), torch.randn(4, 2, inputs), torch.randn(2, 3)
    outputs = cell(x, first, MASK, reverse)
    for row, length in enumerate([4, 2]):
        h = first[row : row + 1]
        for t in reversed(range(length)) if reverse else range(length):
            h = cell.step(x[t, row : row + 1], h, *cell.weights())
            torch.testing.assert_close(outputs[t, row], h[0])


@torch.no_grad()
def test_a_lau_with_g_at_0_and_f_at_1_is_the_gru_that_resets_after_the_product() -> None:
    cell, x, h = randomised(LAU(4)), torch.randn(7, 20), torch.randn(7, 4)
    x_r, x_z, x_g, x_h, _ = x.chunk(5, dim=1)
    h_r, h_z, _, h_h = (h @ cell.weight).chunk(4, dim=1)
    b_r, b_z, _, b_h = cell.bias.chunk(4)
    r, z = (x_r + h_r + b_r).sigmoid(), (x_z + h_z + b_z).sigmoid()
    gru = (1 - z) * h + z * (x_h + r * h_h + b_h).tanh()
    x_g.fill_(-1e4)
    x_h.div_(1 - r)  # f is fixed to 1 - r: now f times it is what f = 1 would leave
    torch.testing.assert_close(cell.step(x, h, *cell.weights()), gru)


def test_a_lau_with_g_at_1_passes_on_its_linear_input() -> None:
    cell, x, h = randomised(LAU(4)), torch.randn(7, 20), torch.randn(7, 4)
    x[:, 8:12] = 1e4
    torch.testing.assert_close(cell.step(x, h, *cell.weights()), x[:, 16:])


def test_a_new_cell_has_one_orthogonal_matrix_per_gate() -> None:
    lstm, gru, lau = PeepholeLSTM(5), GRU(5), LAU(5)
    blocks: list[Tensor] = [*lstm.weight.split(5, dim=1), *gru.gates.split(5, dim=1), gru.weight]
    blocks += lau.weight.split(5, dim=1)
    assert len(blocks) == 11
    for block in blocks:
        torch.testing.assert_close(block @ block.t(), torch.eye(5))
    assert not lstm.peepholes.any()
    assert not lau.bias.any()
