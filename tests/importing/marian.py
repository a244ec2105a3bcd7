"""Small models of Marian with random weights, written as Marian writes them, and its equations in NumPy.

The equations are those of Marian's sources (src/models/transformer.h, src/models/s2s.h, src/rnn/cells.h,
src/rnn/attention.h, src/layers/generic.h), in float64, for one sentence, with the names of its tensors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmtkit.config import dump_yaml

Array = npt.NDArray[np.floating[Any]]

WORDS = ["</s>", "<unk>", ".", "the", "cat@@", "no", "12", "s", "ê", "▁a", ":"]  # of both sides, by Marian's ids
EOS = 0


@dataclass
class Model:
    """Options and tensors; tensors are sampled at first use, so that a model has those of its equations."""

    options: dict[str, Any]
    tensors: dict[str, Array]

    @property
    def width(self) -> int:
        return int(self.options["dim-emb"])

    def take(self, name: str, *shape: int) -> Array:
        """The tensor of this name, in float64."""
        if name not in self.tensors:
            random = np.random.default_rng([*name.encode()])
            around = 1.0 if any(mark in name for mark in ("gamma", "ln_s", "_lns")) else 0.0
            self.tensors[name] = (around + 0.4 * random.standard_normal(shape)).astype(np.float32)
        assert self.tensors[name].shape == shape
        return self.tensors[name].astype(np.float64)


def model(kind: str, **options: Any) -> Model:
    """A model of this type; options with underscores for hyphens."""
    usual: dict[str, Any] = {
        "type": kind, "version": "v1.12.43 c9f287db 2025-06-23", "dim-vocabs": [len(WORDS)] * 2, "dim-emb": 8,
        "tied-embeddings": False, "tied-embeddings-all": False, "input-types": [], "enc-depth": 1, "dec-depth": 1,
    }  # fmt: skip
    if kind == "transformer":
        usual |= {
            "transformer-heads": 2, "transformer-dim-ffn": 12, "transformer-ffn-activation": "swish",
            "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
            "transformer-postprocess-top": "",
        }  # fmt: skip
    else:
        cell = "gru-nematus" if kind == "nematus" else "gru"
        usual |= {
            "dim-rnn": 6, "enc-type": "bidirectional", "enc-cell": cell, "dec-cell": cell, "enc-cell-depth": 1,
            "dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "layer-normalization": True, "skip": False,
        }  # fmt: skip
    made = Model(usual | {name.replace("_", "-"): value for name, value in options.items()}, {})
    log_probs(made, [EOS], [EOS])  # draws the tensors
    return made


def write(made: Model, folder: Path, **decoder: Any) -> Path:
    """The model as a folder: weights, vocabulary and decoder.yml with these settings."""
    folder.mkdir(exist_ok=True)
    text = dump_yaml(made.options).encode() + b"\0"
    tensors = {file_name(made, name): tensor for name, tensor in made.tensors.items()}
    extra = {"decoder_c_tt": np.zeros((1, 0), np.float32)} if made.options["type"] == "nematus" else {}
    np.savez(folder / "model.npz", **tensors, **extra, **{"special:model.yml": np.frombuffer(text, np.int8)})
    write_words(folder / "vocab.yml", WORDS)
    settings = {"models": ["/elsewhere/model.npz"], "vocabs": ["vocab.yml"] * 2, "normalize": 1, "beam-size": 3}
    (folder / "decoder.yml").write_text(dump_yaml(settings | decoder), encoding="utf-8")
    return folder


def write_words(path: Path, words: list[str]) -> None:
    """A vocabulary, in which Marian quotes only what must be: no and 12 are words."""
    quoted = {word: f'"{word}"' if word in (".", ":", "</s>", "<unk>") else word for word in words}
    path.write_text("".join(f"{quoted[word]}: {id}\n" for id, word in enumerate(words)), encoding="utf-8")


def file_name(made: Model, name: str) -> str:
    """The name of a tensor in the file, where type nematus has names of Nematus."""
    if made.options["type"] != "nematus":
        return name
    for norm in ("", "_lns", "_lnb"):
        for part in ("U", "Ux", "b", "bx", "W", "Wx"):
            for way in ("", "_r"):
                names = {f"encoder_bi{way}_{part}{norm}": f"encoder{way}_{part}{norm}"}
                names |= {
                    f"encoder_bi{way}_cell{k + 1}_{part}{norm}": f"encoder{way}_{part}_drt_{k}{norm}" for k in (1, 2, 3)
                }
                if name in names:
                    return names[name]
            second = {"W": "Wc", "Wx": "Wcx"}.get(part, f"{part}_nl")
            names = {f"decoder_cell1_{part}{norm}": f"decoder_{part}{norm}"}
            names |= {f"decoder_cell2_{part}{norm}": f"decoder_{second}{norm}"}
            names |= {f"decoder_cell{k + 2}_{part}{norm}": f"decoder_{part}_nl_drt_{k}{norm}" for k in (1, 2, 3)}
            if name in names:
                return names[name]
    for number, part in enumerate(("prev", "lstm", "ctx")):
        for kind in ("W", "b", "ln_s", "ln_b"):
            if name == f"decoder_ff_logit_l1_{kind}{number}":
                return f"ff_logit_{part}_{kind}"
    return {
        "encoder_Wemb": "Wemb", "decoder_Wemb": "Wemb_dec", "decoder_ff_logit_l2_W": "ff_logit_W",
        "decoder_ff_logit_l2_b": "ff_logit_b",
    }.get(name, name.replace("decoder_ff_state", "ff_state"))  # fmt: skip


def log_probs(made: Model, src: list[int], tgt: list[int]) -> Array:
    """The log-probabilities (T,) of the target ids, which end with EOS, given source ids that end with EOS."""
    rows = transformer(made, src, tgt) if made.options["type"] == "transformer" else recurrent(made, src, tgt)
    chosen: Array = log_softmax(rows)[np.arange(len(tgt)), tgt]
    return chosen


def embeddings(made: Model, side: str) -> Array:
    """The table of a side."""
    name = "Wemb" if made.options["tied-embeddings-all"] else f"{side}_Wemb"
    return made.take(name, len(WORDS), made.width)


def previous(made: Model, tgt: list[int]) -> Array:
    """The vectors of the words before those of a target; zeros before the first."""
    return np.concatenate([np.zeros((1, made.width)), embeddings(made, "decoder")[tgt[:-1]]])


def logits(made: Model, hidden: Array, prefix: str) -> Array:
    """The product before the softmax."""
    tied = made.options["tied-embeddings"] or made.options["tied-embeddings-all"]
    if tied:
        matrix = embeddings(made, "decoder").T
    elif made.options["version"].startswith("v1.12"):
        matrix = made.take(f"{prefix}_Wt", len(WORDS), made.width).T
    else:
        matrix = made.take(f"{prefix}_W", made.width, len(WORDS))
    return hidden @ matrix + made.take(f"{prefix}_b", 1, len(WORDS))


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normalised: Array = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


def log_softmax(scores: Array) -> Array:
    scores = scores - scores.max(axis=-1, keepdims=True)
    normalised: Array = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return normalised


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def normalised(x: Array, scale: Array, shift: Array | float, epsilon: float) -> Array:
    """Layer normalisation."""
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)
    return x * scale + shift


def transformer(made: Model, src: list[int], tgt: list[int]) -> Array:
    """The logits (T, V) of a Transformer, transformers' if it has model-type."""
    width, heads = made.width, made.options["transformer-heads"]
    before = made.options["transformer-preprocess"].replace("d", "") == "n"

    def norm(x: Array, name: str, suffix: str = "") -> Array:
        scale, shift = (made.take(f"{name}_ln_{part}{suffix}", 1, width) for part in ("scale", "bias"))
        return normalised(x, scale, shift, 1e-5 if "model-type" in made.options else 1e-6)

    def sublayer(name: str, x: Array, function: Callable[[Array], Array]) -> Array:
        return x + function(norm(x, name, "_pre")) if before else norm(function(x) + x, name)

    def affine(x: Array, name: str, suffix: str, columns: int) -> Array:
        return x @ made.take(f"{name}_W{suffix}", x.shape[1], columns) + made.take(f"{name}_b{suffix}", 1, columns)

    def attention(name: str, x: Array, memory: Array | None, causal: bool) -> Array:
        memory = x if memory is None else memory
        q, k, v = (
            np.split(affine(rows, name, part, width), heads, axis=1)
            for rows, part in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        found = []
        for query, key, value in zip(q, k, v, strict=True):
            scores = query @ key.T / np.sqrt(width // heads)
            if causal:
                scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
            found.append(softmax(scores) @ value)
        return affine(np.concatenate(found, axis=1), name, "o", width)

    def feed_forward(name: str, x: Array) -> Array:
        hidden = affine(x, name, "1", made.options["transformer-dim-ffn"])
        swish = made.options["transformer-ffn-activation"] == "swish"
        return affine(hidden * sigmoid(hidden) if swish else np.maximum(hidden, 0), name, "2", width)

    def positioned(x: Array) -> Array:
        timescales = width // 2
        last = timescales if "model-type" in made.options else timescales - 1
        angles = np.arange(len(x))[:, None] * 1e-4 ** (np.arange(timescales) / last)
        return np.sqrt(width) * x + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    x = positioned(embeddings(made, "encoder")[src])
    for layer in range(1, made.options["enc-depth"] + 1):
        name = f"encoder_l{layer}"
        x = sublayer(f"{name}_self_Wo", x, lambda h: attention(f"{name}_self", h, None, False))  # noqa: B023
        x = sublayer(f"{name}_ffn_ffn", x, lambda h: feed_forward(f"{name}_ffn", h))  # noqa: B023
    memory = norm(x, "encoder_top") if before else x
    x = positioned(previous(made, tgt))
    for layer in range(1, made.options["dec-depth"] + 1):
        name = f"decoder_l{layer}"
        x = sublayer(f"{name}_self_Wo", x, lambda h: attention(f"{name}_self", h, None, True))  # noqa: B023
        x = sublayer(f"{name}_context_Wo", x, lambda h: attention(f"{name}_context", h, memory, False))  # noqa: B023
        x = sublayer(f"{name}_ffn_ffn", x, lambda h: feed_forward(f"{name}_ffn", h))  # noqa: B023
    return logits(made, norm(x, "decoder_top") if before else x, "decoder_ff_logit_out")


def recurrent(made: Model, src: list[int], tgt: list[int]) -> Array:
    """The logits (T, V) of a model of type s2s or nematus."""
    options, width = made.options, made.options["dim-rnn"]
    embedded = embeddings(made, "encoder")[src]
    tops = []
    for way, chain in enumerate(("encoder_bi", "encoder_bi_r")):
        x = embedded
        for level in range(options["enc-depth"]):
            name = f"{chain}_l{level + 1}" if level else chain
            cells = [f"{name}_cell{k + 1}" if level or k else name for k in range(options["enc-cell-depth"])]
            backward = (level + way) % 2 == 1
            states, h = [], np.zeros((1, width))
            for word in x[::-1] if backward else x:
                for k, cell in enumerate(cells):
                    h = gru(made, cell, word[None] if k == 0 else None, h, final=False)
                states.append(h[0])
            y = np.array(states[::-1] if backward else states)
            x = y + x if level and options["skip"] else y
        tops.append(x)
    context = np.concatenate(tops, axis=1)
    h = dense(made, "decoder_ff_state", context.mean(axis=0, keepdims=True), "", width)
    first = np.tanh(h)
    states = [first] * options["dec-depth"]
    found = []
    for y in previous(made, tgt)[:, None]:
        h = gru(made, "decoder_cell1", y, states[0], final=False)
        c = attention(made, context, h)
        h = gru(made, "decoder_cell2", c, h, final=True)
        for k in range(3, options["dec-cell-base-depth"] + 1):
            h = gru(made, f"decoder_cell{k}", None, h, final=True)
        states[0] = output = h
        for level in range(2, options["dec-depth"] + 1):
            h = states[level - 1]
            for k in range(1, options["dec-cell-high-depth"] + 1):
                h = gru(made, f"decoder_l{level}_cell{k}", output if k == 1 else None, h, final=False)
            states[level - 1] = h
            output = h + output if options["skip"] else h
        parts = [dense(made, "decoder_ff_logit_l1", x, str(k), made.width) for k, x in enumerate((y, output, c))]
        found.append(np.tanh(sum(parts)))
    return logits(made, np.concatenate(found), "decoder_ff_logit_l2")


def gru(made: Model, cell: str, x: Array | None, h: Array, *, final: bool) -> Array:
    """A transition of a state h (1, H) with an input x (1, D) or without, by type gru or gru-nematus."""
    width, norm, nematus = h.shape[1], made.options["layer-normalization"], made.options["enc-cell"] == "gru-nematus"
    b, bx = made.take(f"{cell}_b", 1, 2 * width), made.take(f"{cell}_bx", 1, width)
    encoder, transition = cell.startswith("encoder"), x is None
    terms = {}
    for letter, rows in (("W", x), ("U", h)):
        if rows is None:
            terms[letter] = np.zeros((1, 3 * width))
            continue
        gates = rows @ made.take(f"{cell}_{letter}", rows.shape[1], 2 * width)
        candidate = rows @ made.take(f"{cell}_{letter}x", rows.shape[1], width)
        if norm and nematus:
            if (letter == "W" and not final) or (letter == "U" and not encoder and (final or transition)):
                gates, candidate = gates + b, candidate + bx
            gates, candidate = (
                normalised(part, made.take(f"{name}_lns", 1, n), made.take(f"{name}_lnb", 1, n), 1e-5)
                for part, name, n in (
                    (gates, f"{cell}_{letter}", 2 * width), (candidate, f"{cell}_{letter}x", width),
                )
            )  # fmt: skip
            if letter == "U" and encoder and transition:
                gates = gates + b
        terms[letter] = np.concatenate([gates, candidate], axis=1)
        if norm and not nematus:
            gamma = made.take(f"{cell}_gamma{1 if letter == 'W' else 2}", 1, 3 * width)
            terms[letter] = normalised(terms[letter], gamma, 0.0, 1e-9)
    outside = np.concatenate([b, bx], axis=1)
    if norm and nematus:
        outside = np.concatenate([0 * b, bx if encoder and transition else 0 * bx], axis=1)
    (x_r, x_z, x_h), (s_r, s_z, s_h), (b_r, b_z, b_h) = (
        np.split(part, 3, axis=1) for part in (terms["W"], terms["U"], outside)
    )
    r, z = sigmoid(x_r + s_r + b_r), sigmoid(x_z + s_z + b_z)
    new = np.tanh(x_h + (s_h + b_h) * r) if final else np.tanh(x_h + s_h * r + b_h)
    state: Array = (1 - z) * new + z * h
    return state


def attention(made: Model, context: Array, h: Array) -> Array:
    """The context (1, 2H) of annotations (S, 2H) and a state (1, H)."""
    width, options = context.shape[1], made.options
    keys = context @ made.take("decoder_Wc_att", width, width)
    query = h @ made.take("decoder_W_comb_att", h.shape[1], width)
    bias = made.take("decoder_b_att", 1, width)
    if not options["layer-normalization"]:
        keys = keys + bias
    elif options["type"] == "nematus":
        parts: Mapping[str, Array] = {"decoder_Wc_att": keys + bias, "decoder_W_comb_att": query}
        keys, query = (
            normalised(x, made.take(f"{name}_lns", 1, width), made.take(f"{name}_lnb", 1, width), 1e-5)
            for name, x in parts.items()
        )
    else:
        keys = normalised(keys, made.take("decoder_att_gamma1", 1, width), bias, 1e-9)
        query = normalised(query, made.take("decoder_att_gamma2", 1, width), 0.0, 1e-9)
    scores = np.tanh(keys + query) @ made.take("decoder_U_att", width, 1)
    return softmax(scores.T) @ context


def dense(made: Model, name: str, x: Array, number: str, columns: int) -> Array:
    """A linear map with its normalisation: x (1, D) -> (1, E)."""
    terms, bias = x @ made.take(f"{name}_W{number}", x.shape[1], columns), made.take(f"{name}_b{number}", 1, columns)
    if not made.options["layer-normalization"]:
        return terms + bias
    if made.options["type"] == "nematus":
        scale, shift = (made.take(f"{name}_ln_{part}{number}", 1, columns) for part in "sb")
        return normalised(terms + bias, scale, shift, 1e-5)
    return normalised(terms, made.take(f"{name}_gamma{number}", 1, columns), bias, 1e-9)
