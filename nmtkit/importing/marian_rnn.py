"""Recurrent models of Marian, of type s2s or nematus, as models of ``models/bideep.py``."""

from typing import Any

from nmtkit.errors import UserError
from nmtkit.importing.cells import NEMATUS_TABLES, Cells, nematus_cells, nematus_conditional
from nmtkit.importing.marian_weights import Weights
from nmtkit.importing.words import Tables, Words, take_tables
from nmtkit.models.bideep import LayerNorm

TABLES = Tables("encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_l2", "decoder_ff_logit_l2_Wt")


def recurrent(weights: Weights, tied: str, src: Words, tgt: Words) -> dict[str, Any]:
    """The Config of models/bideep.py as plain values; the parameters are added to ``weights.found``."""
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
    cells = Cells(weights, width, layer_norm)
    for way, chain in enumerate(("encoder_bi", "encoder_bi_r")):
        for level in range(levels):
            name = f"{chain}_l{level + 1}" if level else chain
            names = [f"{name}_cell{k + 1}_{{}}" if level or k else f"{name}_{{}}" for k in range(transitions)]
            if of_nematus and level == 0:
                names = nematus_cells(chain.replace("_bi", ""), transitions)
            cells.deep_transition(f"encoder.chains.{way}.{level}", names, width if level else embedding)
    cells.dense("decoder.initial", "ff_state_{}" if of_nematus else "decoder_ff_state_{}", 2 * width, width)
    names = nematus_conditional("decoder", base) if of_nematus else [f"decoder_cell{k + 1}_{{}}" for k in range(base)]
    context = ("decoder_{}", "Wc") if of_nematus else (names[1], "W")
    cells.conditional("decoder.base.cell", names, context, embedding)
    cells.attention("decoder.base", "decoder")
    weights.left.pop("decoder_c_tt", None)  # of type nematus, and not used
    high = options.size("dec-cell-high-depth") if above > 1 else None
    for level in range(above - 1):
        names = [f"decoder_l{level + 2}_cell{k + 1}_{{}}" for k in range(high or 0)]
        cells.deep_transition(f"decoder.high.{level}", names, width)
    readout = {"word": ("prev", embedding), "state": ("lstm", width), "context": ("ctx", 2 * width)}
    for number, (part, (theirs, rows)) in enumerate(readout.items()):
        form = f"ff_logit_{theirs}_{{}}" if of_nematus else f"decoder_ff_logit_l1_{{}}{number}"
        cells.dense(f"decoder.readout.{part}", form, rows, embedding)
    take_tables(weights, NEMATUS_TABLES if of_nematus else TABLES, tied, embedding, src, tgt)
    return {
        "embedding": embedding, "hidden": width, "bidirectional_layers": levels, "forward_layers": 0,
        "encoder_transitions": transitions, "decoder_layers": above, "base_transitions": base,
        "high_cell": None if high is None else "gru", "high_transitions": high, "output_layers": 1,
        "layer_norm": layer_norm, "dropout": 0, "tied": tied,
    }  # fmt: skip
