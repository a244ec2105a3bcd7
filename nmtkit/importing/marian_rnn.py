"""A recurrent model of Marian, of type s2s or nematus, as ``models/bideep.py`` has it.

Marian's own normalisation (s2s) spans gates and candidate, and the bias is its shift. Nematus' normalises both apart,
with a shift of their own, and a bias stands before it.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.importing.marian_text import Words
from nmtkit.importing.marian_weights import Weights
from nmtkit.models.bideep import LayerNorm


def recurrent(weights: Weights, tied: str, src: Words, tgt: Words) -> dict[str, Any]:
    """The Config of a recurrent model as plain values; its parameters are added to the weights'."""
    sizes = "dim-emb", "dim-rnn", "enc-depth", "enc-cell-depth", "dec-depth", "dec-cell-base-depth"
    options = weights.options
    embedding, width, levels, transitions, above, base = (options.size(name) for name in sizes)
    of_nematus = options.values["type"] == "nematus"
    layer_norm: LayerNorm = options.require("layer-normalization", True, False, default=False) and (
        of_nematus or "marian"
    )
    for cell in ("enc-cell", "dec-cell"):
        options.require(cell, "gru-nematus" if of_nematus else "gru")
    if levels > 1:
        options.require("enc-type", "alternating")
    if levels > 1 or above > 1:
        options.require("skip", True)
    if base < 2:
        raise UserError(f"{weights.path}: option dec-cell-base-depth: {base} is less than 2, around the attention")
    if of_nematus:
        weights.rename(_as_s2s)
    cells = Cells(weights, width, layer_norm)
    for way, chain in enumerate(("encoder_bi", "encoder_bi_r")):
        for level in range(levels):
            name = f"{chain}_l{level + 1}" if level else chain
            names = [f"{name}_cell{k + 1}" if level or k else name for k in range(transitions)]
            cells.deep_transition(f"encoder.chains.{way}.{level}", names, width if level else embedding)
    cells.dense("decoder.initial", "decoder_ff_state_{}", 2 * width, width)
    cells.conditional("decoder.base.cell", [f"decoder_cell{k + 1}" for k in range(base)], embedding)
    cells.attention("decoder.base", "decoder")
    high = options.size("dec-cell-high-depth") if above > 1 else None
    for level in range(above - 1):
        names = [f"decoder_l{level + 2}_cell{k + 1}" for k in range(high or 0)]
        cells.deep_transition(f"decoder.high.{level}", names, width)
    for number, (part, rows) in enumerate({"word": embedding, "state": width, "context": 2 * width}.items()):
        cells.dense(f"decoder.readout.{part}", f"decoder_ff_logit_l1_{{}}{number}", rows, embedding)
    weights.take_words(tied, embedding, src, tgt, "decoder_ff_logit_l2")
    return {
        "embedding": embedding, "hidden": width, "bidirectional_layers": levels, "forward_layers": 0,
        "encoder_transitions": transitions, "decoder_layers": above, "base_transitions": base,
        "high_cell": None if high is None else "gru", "high_transitions": high, "output_layers": 1,
        "layer_norm": layer_norm, "dropout": 0, "tied": tied,
    }  # fmt: skip


class Cells:
    """The parts of a recurrent model, of tensors as type s2s names them.

    With Nematus' normalisation a bias stands before it; with Marian's own it is the normalisation's shift.
    """

    def __init__(self, weights: Weights, width: int, layer_norm: LayerNorm):
        self.weights, self.width, self.layer_norm = weights, width, layer_norm
        self.found = weights.found

    def deep_transition(self, ours: str, names: Sequence[str], rows: int) -> None:
        """A ``DeepTransition`` of the cells of these names, the first of which has an input of so many rows."""
        for k, name in enumerate(names):
            bias = self._bias(name)
            if k == 0:
                self._gates(f"{ours}.input", name, "W", rows, bias)
            else:
                self.found[f"{ours}.biases.{k - 1}"] = bias
            self._gates(f"{ours}.states.{k}", name, "U", self.width, None)

    def conditional(self, ours: str, names: Sequence[str], rows: int) -> None:
        """A ``ConditionalGRU`` of the cells of these names, the second of which has a context."""
        first, second, *_ = names
        self._gates(f"{ours}.input", first, "W", rows, self._bias(first))
        self._gates(f"{ours}.first", first, "U", self.width, None)
        self._gates(f"{ours}.context", second, "W", 2 * self.width, None)
        for k, name in enumerate(names[1:]):
            self._gates(f"{ours}.states.{k}", name, "U", self.width, self._bias(name))

    def attention(self, ours: str, prefix: str) -> None:
        """The attention of an ``AttentionGRU``."""
        width = 2 * self.width
        self._matrix(f"{ours}.key", f"{prefix}_Wc_att", f"{prefix}_att_gamma1", width, width, f"{prefix}_b_att")
        self._matrix(f"{ours}.query", f"{prefix}_W_comb_att", f"{prefix}_att_gamma2", self.width, width, None)
        self.found[f"{ours}.v"] = self.weights.take(f"{prefix}_U_att", width, 1)[:, 0]
        self.found[f"{ours}.score_shift"] = torch.zeros(1)

    def dense(self, ours: str, form: str, rows: int, columns: int) -> None:
        """A ``Map`` of tensors whose names have this form."""
        scale, shift = form.format("ln_s"), form.format("ln_b")
        bias = self.weights.take(form.format("b"), 1, columns)
        self.found[f"{ours}.weight"] = self.weights.take(form.format("W"), rows, columns)
        self._normalised(ours, bias, [(scale, shift, columns)], form.format("gamma"))

    def _matrix(self, ours: str, name: str, gamma: str, rows: int, columns: int, bias: str | None) -> None:
        """A ``Map`` of the attention, with a bias or without."""
        self.found[f"{ours}.weight"] = self.weights.take(name, rows, columns)
        shift = None if bias is None else self.weights.take(bias, 1, columns)
        self._normalised(ours, shift, [(f"{name}_lns", f"{name}_lnb", columns)], gamma)

    def _bias(self, cell: str) -> Tensor:
        """The bias (3H,) of both gates and the candidate."""
        take, width = self.weights.take, self.width
        return torch.cat([take(f"{cell}_b", 1, 2 * width), take(f"{cell}_bx", 1, width)])

    def _gates(self, ours: str, cell: str, letter: str, rows: int, bias: Tensor | None) -> None:
        """A map of ``bideep.gates``: of the input or the context (W), or of the state (U)."""
        take, width = self.weights.take, self.width
        parts = [(f"{cell}_{letter}", 2 * width), (f"{cell}_{letter}x", width)]
        self.found[f"{ours}.weight"] = torch.cat([take(name, rows, columns) for name, columns in parts], dim=1)
        norms = [(f"{name}_lns", f"{name}_lnb", columns) for name, columns in parts]
        self._normalised(ours, bias, norms, f"{cell}_gamma{'WU'.index(letter) + 1}")

    def _normalised(self, ours: str, bias: Tensor | None, norms: Sequence[tuple[str, str, int]], gamma: str) -> None:
        """The bias of a map, if it has one, and its normalisations: their scales and shifts, or Marian's ``gamma``."""
        take, found = self.weights.take, self.found
        if self.layer_norm == "marian":
            columns = sum(width for _, _, width in norms)
            found[f"{ours}.norms.0.weight"] = take(gamma, 1, columns)
            found[f"{ours}.norms.0.bias"] = torch.zeros(columns) if bias is None else bias
            bias = None if bias is None else torch.zeros(columns)
        elif self.layer_norm:
            for k, (scale, shift, width) in enumerate(norms):
                found[f"{ours}.norms.{k}.weight"] = take(scale, 1, width)
                found[f"{ours}.norms.{k}.bias"] = take(shift, 1, width)
        if bias is not None:
            found[f"{ours}.bias"] = bias


def _as_s2s(name: str) -> str | None:
    """The name in a model of type s2s of a tensor of type nematus; None for those that are not used."""
    if name == "decoder_c_tt":
        return None
    if found := re.fullmatch(r"(encoder(?:_r)?)_(Ux?|Wx?|bx?)(?:_drt_(\d+))?(_ln[sb])?", name):
        chain, part, transition, norm = found.groups("")
        cell = f"_cell{int(transition) + 1}" if transition else ""
        return f"{chain.replace('encoder', 'encoder_bi')}{cell}_{part}{norm}"
    if found := re.fullmatch(r"decoder_(Ux?|Wx?|bx?|Wcx?)(_nl)?(?:_drt_(\d+))?(_ln[sb])?", name):
        part, second, transition, norm = found.groups("")
        number = 2 + int(transition or 0) if second or "c" in part else 1
        return f"decoder_cell{number}_{part.replace('c', '')}{norm}"
    if found := re.fullmatch(r"ff_logit_(prev|lstm|ctx)_(W|b|ln_s|ln_b)", name):
        return f"decoder_ff_logit_l1_{found[2]}{('prev', 'lstm', 'ctx').index(found[1])}"
    if found := re.fullmatch(r"ff_state_(W|b|ln_s|ln_b)", name):
        return f"decoder_ff_state_{found[1]}"
    others = {"Wemb": "encoder_Wemb", "Wemb_dec": "decoder_Wemb"}
    return others.get(name) or re.sub(r"^ff_logit_(W|b)$", r"decoder_ff_logit_l2_\1", name)
