"""The authors' golden systems as files of Nematus: its names, its order of rows, its options."""

import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "models" / "golden"
SYSTEMS = sorted(
    file.stem for file in GOLDEN.glob("*.npz") if json.loads(str(np.load(file)["config"]))["architecture"] == "bideep"
)
CELLS = {
    "gru": ("gru", False),
    "rgru": ("gru", True),
    "cgru": ("gru_cond", False),
    "crgru": ("gru_cond_reuse_att", False),
}


def nematus_ids(words: int) -> list[int]:
    """nmtkit's id of each of Nematus': eos and UNK, the words, then <pad> and <s> as words."""
    return [2, 3, *range(4, words), 0, 1]


def write(folder: Path, system: str, **changed: Any) -> Path:
    """Write a golden system as Nematus would; ``changed`` replaces options. Returns the file of weights."""
    golden = np.load(GOLDEN / f"{system}.npz")
    config = json.loads(str(golden["config"]))
    model, sizes = config["model"], config["vocab"]
    p = {name.removeprefix("param/"): golden[name] for name in golden.files if name.startswith("param/")}
    h, even = model["hidden"], model["bidirectional_layers"] % 2 == 0
    order = [*range(h, 2 * h), *range(h)] if even else list(range(2 * h))
    arrays: dict[str, Any] = {}

    def norms(ours: str, names: list[str]) -> None:
        for k, name in enumerate(names if model["layer_norm"] else []):
            bias, gain = name.split()
            arrays[gain], arrays[bias] = p[f"{ours}.norms.{k}.weight"], p[f"{ours}.norms.{k}.bias"]

    def gates(ours: str, prefix: str, names: str, biases: str, numbers: str = "") -> None:
        weight = p[f"{ours}.weight"]
        width = weight.shape[1] // 3
        first, second = (f"{prefix}_{name}" for name in names.split())
        arrays[first], arrays[second] = weight[:, : 2 * width], weight[:, 2 * width :]
        for name, part in zip(biases.split(), (slice(0, 2 * width), slice(2 * width, None)), strict=False):
            arrays[f"{prefix}_{name}"] = p[f"{ours}.bias"][part]
        called = [f"{prefix}_ln_b{n} {prefix}_ln_s{n}" for n in numbers] or [
            f"{n}_lnb {n}_lns" for n in (first, second)
        ]
        norms(ours, called)

    def layer(ours: str, prefix: str) -> None:
        arrays[f"{prefix}_W"], arrays[f"{prefix}_b"] = p[f"{ours}.weight"], p[f"{ours}.bias"]
        norms(ours, [f"{prefix}_ln_b {prefix}_ln_s"])

    def transitions(ours: str, prefix: str, depth: int) -> None:
        gates(f"{ours}.input", prefix, "W Wx", "b bx")
        for k in range(depth):
            suffix = f"_drt_{k}" if k else ""
            gates(f"{ours}.states.{k}", prefix, f"U{suffix} Ux{suffix}", "")
            if k:
                both = p[f"{ours}.biases.{k - 1}"]
                cut = 2 * len(both) // 3
                arrays[f"{prefix}_b{suffix}"], arrays[f"{prefix}_bx{suffix}"] = both[:cut], both[cut:]

    def conditional(ours: str, prefix: str, depth: int, numbered: bool = False) -> None:
        gates(f"{ours}.input", prefix, "W Wx", "b bx", "12" if numbered else "")
        gates(f"{ours}.first", prefix, "U Ux", "", "34" if numbered else "")
        gates(f"{ours}.context", prefix, "Wc Wcx", "", "68" if numbered else "")
        for k in range(depth - 1):
            s = "_nl" + (f"_drt_{k}" if k else "")
            gates(f"{ours}.states.{k}", prefix, f"U{s} Ux{s}", f"b{s} bx{s}", "57" if numbered else "")
        for name in ("Wc", "Wcx"):
            arrays[f"{prefix}_{name}"] = arrays[f"{prefix}_{name}"][order]

    def attentive(ours: str, prefix: str, depth: int) -> None:
        conditional(f"{ours}.cell", prefix, depth)
        arrays[f"{prefix}_Wc_att"], arrays[f"{prefix}_b_att"] = p[f"{ours}.key.weight"][order], p[f"{ours}.key.bias"]
        norms(f"{ours}.key", [f"{prefix}_Wc_att_lnb {prefix}_Wc_att_lns"])
        arrays[f"{prefix}_W_comb_att"] = p[f"{ours}.query.weight"]
        norms(f"{ours}.query", [f"{prefix}_W_comb_att_lnb {prefix}_W_comb_att_lns"])
        arrays[f"{prefix}_U_att"], arrays[f"{prefix}_c_tt"] = p[f"{ours}.v"][:, None], p[f"{ours}.score_shift"]

    for way in range(2):
        for k in range(model["bidirectional_layers"]):
            # encoder_2 runs forward, on the output of the first backward level.
            name = ("encoder_r" if (k + way) % 2 else "encoder") + (f"_{k + 1}" if k else "")
            transitions(f"encoder.chains.{way}.{k}", name, model["encoder_transitions"])
    below = set(arrays)
    for k in range(model["forward_layers"]):
        name = f"encoder_{model['bidirectional_layers'] + k + 1}"
        transitions(f"encoder.above.{k}", name, model["encoder_transitions"])
    for name in set(arrays) - below:  # every axis has annotations, of both gates too
        for axis, size in enumerate(arrays[name].shape):
            blocks = [2 * h * block + row for block in range(size // (2 * h)) for row in order]
            arrays[name] = np.take(arrays[name], blocks, axis)
    layer("decoder.initial", "ff_state")
    attentive("decoder.base", "decoder", model["base_transitions"])
    for k in range(model["decoder_layers"] - 1):
        ours, name, depth = f"decoder.high.{k}", f"decoder_{k + 2}", model["high_transitions"]
        if model["high_cell"] == "cgru":
            attentive(ours, name, depth)
        elif model["high_cell"] == "crgru":
            conditional(ours, name, depth, numbered=True)
        else:
            transitions(ours, name, depth)
        if model["high_cell"] == "rgru":
            rows = [*range(h), *(h + row for row in order)]
            arrays[f"{name}_W"], arrays[f"{name}_Wx"] = arrays[f"{name}_W"][rows], arrays[f"{name}_Wx"][rows]
    for ours, name in (("state", "lstm"), ("word", "prev"), ("context", "ctx")):
        layer(f"decoder.readout.{ours}", f"ff_logit_{name}")
    for k in range(1, model["output_layers"]):
        layer(f"decoder.readout.further.{k - 1}", f"ff_deep_output_{k}")
    arrays["ff_state_W"], arrays["ff_logit_ctx_W"] = arrays["ff_state_W"][order], arrays["ff_logit_ctx_W"][order]
    arrays["Wemb"] = p["embedding.src.weight"][nematus_ids(sizes[0])]
    arrays["Wemb_dec"] = p["embedding.tgt.weight"][nematus_ids(sizes[1])]
    arrays["ff_logit_b"] = p["output.bias"][nematus_ids(sizes[1])]
    arrays |= {"history_errs": np.array([3.0]), "uidx": np.array(9)}

    deep, deep_context = CELLS[model["high_cell"] or "gru"]
    options = {
        "dim_word": model["embedding"], "dim": h, "n_words_src": sizes[0], "n_words": sizes[1],
        "dictionaries": ["/there/vocab.en.json", "/there/vocab.de.json"], "encoder": "gru", "decoder": "gru_cond",
        "enc_depth": model["bidirectional_layers"] + model["forward_layers"],
        "enc_depth_bidirectional": model["bidirectional_layers"],
        "enc_recurrence_transition_depth": model["encoder_transitions"], "dec_depth": model["decoder_layers"],
        "dec_base_recurrence_transition_depth": model["base_transitions"], "decoder_deep": deep,
        "dec_deep_context": deep_context, "dec_high_recurrence_transition_depth": model["high_transitions"] or 1,
        "output_depth": model["output_layers"], "layer_normalisation": model["layer_norm"],
        "tie_decoder_embeddings": True, "tie_encoder_decoder_embeddings": False, "factors": 1, "use_dropout": False,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    np.savez(folder / "model.npz", **arrays)
    (folder / "model.npz.json").write_text(json.dumps(options | changed))
    for language, size in zip(("en", "de"), sizes, strict=True):
        words = ["eos", "UNK", *(f"{language}{id}" for id in range(2, size))]
        (folder / f"vocab.{language}.json").write_text(json.dumps({word: id for id, word in enumerate(words)}))
    return folder / "model.npz"
