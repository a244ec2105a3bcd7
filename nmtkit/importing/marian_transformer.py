"""Transformers of Marian as models of ``models/transformer.py``."""

from typing import Any

from nmtkit.errors import UserError
from nmtkit.importing.marian_weights import Weights
from nmtkit.importing.words import Tables, Words, take_tables

# Options with one value that can be imported. Files of older versions lack some of them.
_ALWAYS: dict[str, Any] = {
    "transformer-attention-mask": "default", "transformer-decoder-autoreg": "self-attention",
    "transformer-decoder-dim-ffn": 0, "transformer-decoder-ffn-depth": 0, "transformer-ffn-depth": 2,
    "transformer-disable-position-embeddings": False, "transformer-no-affine": False, "transformer-no-bias": False,
    "transformer-no-projection": False, "transformer-pool": False, "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False, "transformer-train-positions": False,
}  # fmt: skip

_ATTENTIONS = {  # of each side: their names in Marian and nmtkit, and nmtkit's name of the normalisation
    "encoder": [("self", "self_attention", "around_self")],
    "decoder": [("self", "self_attention", "around_self"), ("context", "attention", "around_source")],
}
_TABLES = Tables("encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out", "decoder_ff_logit_out_Wt")
_PARTS = {"query": "q", "key": "k", "value": "v", "out": "o"}


def transformer(weights: Weights, tied: str, src: Words, tgt: Words) -> dict[str, Any]:
    """The Config of models/transformer.py as plain values; the parameters are added to ``weights.found``."""
    options = weights.options
    layers, width, inner = (options.size(name) for name in ("enc-depth", "dim-emb", "transformer-dim-ffn"))
    options.require("dec-depth", layers)
    for option, value in _ALWAYS.items():
        options.require(option, value, default=value)
    norm = _norm(weights)
    before = "_pre" if norm == "pre" else ""
    for side, attentions in _ATTENTIONS.items():
        for layer in range(layers):
            ours, theirs = f"{side}.layers.{layer}", f"{side}_l{layer + 1}"
            for name, attention, around in attentions:
                for part, letter in _PARTS.items():
                    _linear(weights, f"{ours}.{attention}.{part}", f"{theirs}_{name}", letter, width, width)
                _normalisation(weights, f"{ours}.{around}.norm", f"{theirs}_{name}_Wo", before, width)
            _linear(weights, f"{ours}.feed_forward.inner", f"{theirs}_ffn", "1", width, inner)
            _linear(weights, f"{ours}.feed_forward.outer", f"{theirs}_ffn", "2", inner, width)
            _normalisation(weights, f"{ours}.feed_forward.around.norm", f"{theirs}_ffn_ffn", before, width)
        if norm == "pre":
            _normalisation(weights, f"{side}.norm", f"{side}_top", "", width)
    take_tables(weights, _TABLES, tied, width, src, tgt)
    return {
        "layers": layers, "width": width, "feed_forward": inner, "heads": options.size("transformer-heads"),
        "norm": norm, "tied": tied, "dropout": 0.1, "attention_bias": True, "norm_epsilon": 1e-6,
        "activation": options.require("transformer-ffn-activation", "swish", "relu"),
    }  # fmt: skip


def _norm(weights: Weights) -> str:
    """The place of layer normalisation, from Marian's operations before and after each sublayer and after the last.

    n normalises, a adds the residual, and d, dropout, has no effect in search.
    """
    emb, before, after, top = (
        str(weights.options.values.get(f"transformer-{place}") or "").replace("d", "")
        for place in ("postprocess-emb", "preprocess", "postprocess", "postprocess-top")
    )
    norms = {("", "", "an", ""): "post", ("", "n", "a", "n"): "pre"}
    if (emb, before, after, top) not in norms:
        raise UserError(
            f"{weights.path}: options transformer-postprocess-emb, -preprocess, -postprocess, -postprocess-top: "
            f"{emb!r}, {before!r}, {after!r}, {top!r} without dropout cannot be imported, only "
            f"{' or '.join(', '.join(map(repr, known)) for known in norms)}"
        )
    return norms[emb, before, after, top]


def _linear(weights: Weights, ours: str, theirs: str, suffix: str, rows: int, columns: int) -> None:
    """A linear layer from a matrix (D, E) and a bias (E,)."""
    weights.found[f"{ours}.weight"] = weights.take(f"{theirs}_W{suffix}", rows, columns).t().contiguous()
    weights.found[f"{ours}.bias"] = weights.take(f"{theirs}_b{suffix}", columns)


def _normalisation(weights: Weights, ours: str, theirs: str, suffix: str, width: int) -> None:
    weights.found[f"{ours}.weight"] = weights.take(f"{theirs}_ln_scale{suffix}", width)
    weights.found[f"{ours}.bias"] = weights.take(f"{theirs}_ln_bias{suffix}", width)
