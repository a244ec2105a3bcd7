"""The recurrent cells of Nematus and Marian as those of ``models/bideep.py``.

The cells of both have the same tensors under different names. A cell is given by a pattern of these names, such as
``encoder_{}_drt_1``, filled in with W (for the input), U (for the state) and b for the gates, and with Wx, Ux and bx
for the candidate state. Marian's own layer normalisation spans gates and candidate, and the bias is its shift. That of
Nematus normalises both separately, each with its own shift, after adding the bias.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.importing.tensors import Tensors
from nmtkit.importing.words import Tables
from nmtkit.models.bideep import LayerNorm

NEMATUS_TABLES = Tables("Wemb", "Wemb_dec", "ff_logit", "decoder_ff_logit_l2_Wt")  # the last one is written by Marian


def nematus_cells(prefix: str, depth: int, suffix: str = "") -> list[str]:
    """The names of the cells of a deep transition in Nematus."""
    return [f"{prefix}_{{}}{suffix}_drt_{k}" if k else f"{prefix}_{{}}{suffix}" for k in range(depth)]


def nematus_conditional(prefix: str, depth: int) -> list[str]:
    """The names of the cells of a conditional GRU in Nematus."""
    return [f"{prefix}_{{}}", *nematus_cells(prefix, depth - 1, "_nl")]


class Cells:
    """Finds the parameters of recurrent cells with states of width H in the tensors of a file."""

    def __init__(self, weights: Tensors, width: int, layer_norm: LayerNorm):
        self.weights, self.width, self.layer_norm = weights, width, layer_norm
        self.found = weights.found

    def deep_transition(self, ours: str, cells: Sequence[str], rows: int) -> None:
        """A ``DeepTransition``, whose first cell has an input of width ``rows``."""
        self._gates(f"{ours}.input", cells[0], "W", rows, bias=True)
        for k, cell in enumerate(cells):
            self._gates(f"{ours}.states.{k}", cell, "U", self.width)
            if k:
                self.found[f"{ours}.biases.{k - 1}"] = self._bias(cell)

    def conditional(self, ours: str, cells: Sequence[str], context: tuple[str, str], rows: int) -> None:
        """A ``ConditionalGRU``; ``context``: the cell and the letter of the matrices of the context."""
        first, *others = cells
        self._gates(f"{ours}.input", first, "W", rows, bias=True)
        self._gates(f"{ours}.first", first, "U", self.width)
        self._gates(f"{ours}.context", *context, 2 * self.width)
        for k, cell in enumerate(others):
            self._gates(f"{ours}.states.{k}", cell, "U", self.width, bias=True)

    def attention(self, ours: str, prefix: str) -> None:
        """The attention of an ``AttentionGRU``."""
        width = 2 * self.width
        self._map(f"{ours}.key", f"{prefix}_Wc_att", f"{prefix}_att_gamma1", width, bias=f"{prefix}_b_att")
        self._map(f"{ours}.query", f"{prefix}_W_comb_att", f"{prefix}_att_gamma2", self.width)
        self.found[f"{ours}.v"] = self.weights.take(f"{prefix}_U_att", width, 1)[:, 0]
        self.found[f"{ours}.score_shift"] = torch.zeros(1)

    def dense(self, ours: str, form: str, rows: int, columns: int) -> None:
        """A ``Map`` with a bias, from tensors with names of this pattern."""
        self.found[f"{ours}.weight"] = self.weights.take(form.format("W"), rows, columns)
        bias = self.weights.take(form.format("b"), columns)
        self._normalise(ours, bias, [(form.format("ln_s"), form.format("ln_b"), columns)], form.format("gamma"))

    def _map(self, ours: str, name: str, gamma: str, rows: int, bias: str = "") -> None:
        """A ``Map`` to width 2H of the attention."""
        columns = 2 * self.width
        self.found[f"{ours}.weight"] = self.weights.take(name, rows, columns)
        shift = self.weights.take(bias, columns) if bias else None
        self._normalise(ours, shift, [(f"{name}_lns", f"{name}_lnb", columns)], gamma)

    def _bias(self, cell: str) -> Tensor:
        """The bias (3H,) of the gates and the candidate state."""
        take, width = self.weights.take, self.width
        return torch.cat([take(cell.format("b"), 2 * width), take(cell.format("bx"), width)])

    def _gates(self, ours: str, cell: str, letter: str, rows: int, bias: bool = False) -> None:
        """A map to the gates and the candidate state."""
        parts = [(cell.format(letter), 2 * self.width), (cell.format(f"{letter}x"), self.width)]
        weights = [self.weights.take(name, rows, columns) for name, columns in parts]
        self.found[f"{ours}.weight"] = torch.cat(weights, dim=1)
        norms = [(f"{name}_lns", f"{name}_lnb", columns) for name, columns in parts]
        gamma = cell.format("gamma1" if letter == "W" else "gamma2")
        self._normalise(ours, self._bias(cell) if bias else None, norms, gamma)

    def _normalise(self, ours: str, bias: Tensor | None, norms: Sequence[tuple[str, str, int]], gamma: str) -> None:
        """The bias of a map and its normalisations: scale, shift and width of each, or Marian's ``gamma``."""
        take, found = self.weights.take, self.found
        if self.layer_norm == "marian":
            columns = sum(width for _, _, width in norms)
            found[f"{ours}.norms.0.weight"] = take(gamma, columns)
            found[f"{ours}.norms.0.bias"] = torch.zeros(columns) if bias is None else bias
            bias = None if bias is None else torch.zeros(columns)
        elif self.layer_norm:
            for k, (scale, shift, width) in enumerate(norms):
                found[f"{ours}.norms.{k}.weight"] = take(scale, width)
                found[f"{ours}.norms.{k}.bias"] = take(shift, width)
        if bias is not None:
            found[f"{ours}.bias"] = bias
