"""Recurrent cells. ``step`` is the equation; ``forward`` runs a whole time-major sequence through ``ops``.

The transformed input (the product with x) is computed outside, for all steps at once. A cell has only the weights of
its previous state, which ``step`` takes as its last arguments: ``*weights()``, or ``ops.loop.share`` of them.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmtkit.ops import gated, gru, lstm
from nmtkit.ops.loop import scan
from nmtkit.ops.matrix import Matrix, convert
from nmtkit.ops.precision import Products


class Recurrent(nn.Module):
    """A module whose ``step`` multiplies the previous state by its ``weights()``."""

    matrices: tuple[str, ...] = ("weight",)  # the names of these parameters

    def weights(self) -> list[Tensor]:
        """The matrices (H, G H) that ``step`` multiplies the state by."""
        return [getattr(self, name) for name in self.matrices]

    def for_search(self, precision: Products) -> "Recurrent":
        """``converted.Convertible.for_search``: with converted ``weights()``."""
        for name in self.matrices:
            weight = getattr(self, name)
            delattr(self, name)  # PyTorch accepts nothing else in place of a parameter
            setattr(self, name, convert(weight, None, precision))
        return self


def state_weight(width: int, parts: int) -> nn.Parameter:
    """Concatenated orthogonal matrices (H, H), one for each part, because each is a separate recurrence."""
    weight = torch.empty(width, parts * width)
    for block in weight.split(width, dim=1):
        nn.init.orthogonal_(block)
    return nn.Parameter(weight)


class LSTMState(NamedTuple):
    """The state of an LSTM between two steps."""

    h: Tensor  # (N, H)
    s: Tensor  # (N, H) the cell

    @classmethod
    def zero(cls, rows: int, width: int, device: torch.device) -> "LSTMState":
        """The zero state for N = ``rows``: both parts (N, ``width``) in float32."""
        return cls(*(torch.zeros(rows, width, device=device) for _ in range(2)))


class PeepholeLSTM(Recurrent):
    """The LSTM of Zhou et al. 2016, eq. 4, with peepholes and without an input matrix."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = state_weight(width, 4)  # W_r
        self.peepholes = nn.Parameter(torch.zeros(3, width))  # theta_rho, theta_phi, theta_pi

    def step(self, f: Tensor, h: Tensor, s: Tensor, w_r: Matrix) -> tuple[Tensor, Tensor]:
        """One step: f (N, 4H), h and s (N, H) -> the next h and s (N, H)."""
        return lstm.step(f, h, s, w_r, self.peepholes)

    def forward(self, f: Tensor, first: LSTMState, mask: Tensor | None, reverse: bool) -> Tensor:
        """A whole sequence: f (T, B, 4H), first state, mask (T, B) -> h (T, B, H) in the dtype of f."""
        return scan(self.step, f, first, mask, reverse, self.weights()).to(f.dtype)


class GRU(Recurrent):
    """The GRU of Bahdanau et al. 2015, A.1.1: the reset gate is applied before the product."""

    matrices = ("gates", "weight")  # (H, 2H) and (H, H)

    def __init__(self, width: int):
        super().__init__()
        self.gates = state_weight(width, 2)  # U_r, U_z
        self.weight = state_weight(width, 1)  # U

    step = staticmethod(gru.step)

    def forward(self, x: Tensor, first: Tensor, mask: Tensor | None, reverse: bool) -> Tensor:
        """A whole sequence: x (T, B, 3H), first state (B, H), mask (T, B) -> h (T, B, H) in the dtype of x."""
        return scan(self.step, x, [first], mask, reverse, self.weights()).to(x.dtype)


class LAU(Recurrent):
    """The linear associative unit of Wang et al. 2017, eqs. 6 to 8: a GRU with a gated linear path for its input.

    f_t is 1 - r_t, as in the paper. The cell has the biases, because the candidate's is outside r_t and f_t.
    """

    def __init__(self, width: int):
        super().__init__()
        self.weight = state_weight(width, 4)  # W_hr, W_hz, W_hg, W_hh
        self.bias = nn.Parameter(torch.zeros(4 * width))

    def step(self, x: Tensor, h: Tensor, weight: Matrix) -> Tensor:
        """One step: x (N, 5H), h (N, H) -> the next h (N, H).

        x is the input times the concatenation of W_xr, W_xz, W_xg, W_xh and W_x.
        """
        of_gates, of_candidate = self.bias.view(4, -1).split([3, 1])
        return gated.lau(x, h, weight, None, of_gates, of_candidate, None)

    def forward(self, x: Tensor, first: Tensor, mask: Tensor | None, reverse: bool) -> Tensor:
        """A whole sequence: x (T, B, 5H), first state (B, H), mask (T, B) -> h (T, B, H) in the dtype of x."""
        return scan(self.step, x, [first], mask, reverse, self.weights()).to(x.dtype)
