"""Small MarianMTModels with random weights, as Hugging Face's transformers writes them."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from tests.importing.marian import WORDS, Array, Model, log_softmax, transformer
from tests.importing.marian import model as marian_model

PAD = len(WORDS)  # the last word
TIED: dict[str, dict[str, Any]] = {
    "all": {"tied_embeddings_all": True}, "target": {"tied_embeddings": True}, "none": {},
}  # fmt: skip
PARTS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}


def model(tied: str) -> Model:
    """A model with two layers, whose tables are tied like this."""
    return marian_model("transformer", enc_depth=2, dec_depth=2, model_type="marian", **TIED[tied])


def log_probs(made: Model, src: list[int], tgt: list[int]) -> Array:
    """The log-probabilities (T, V + 1) of all words and <pad>, which has zeros in every table."""
    logits = transformer(made, src, tgt)
    return log_softmax(torch.nn.functional.pad(torch.from_numpy(logits), (0, 1)).numpy())


def tensors(made: Model, tied: str) -> dict[str, Tensor]:
    """The tensors as transformers names them."""
    found = {}
    for name, array in made.tensors.items():
        tensor, parts = torch.from_numpy(array), name.split("_", 2)
        if name.endswith("Wemb") or name == "decoder_ff_logit_out_Wt":
            side = {"Wemb": "shared", "encoder_Wemb": "encoder.embed_tokens", "decoder_Wemb": "decoder.embed_tokens"}
            key = f"model.{side[name]}.weight" if name in side else "lm_head.weight"
            found[key] = torch.cat([tensor, torch.zeros(1, tensor.shape[1])])
        elif name == "decoder_ff_logit_out_b":
            found["final_logits_bias"] = torch.cat([tensor, torch.zeros(1, 1)], dim=1)
        else:
            layer = f"model.{parts[0]}.layers.{int(parts[1][1:]) - 1}"
            found[f"{layer}.{_module(parts[2])}"] = tensor[0] if tensor.shape[0] == 1 else tensor.t().contiguous()
    return found


def _module(name: str) -> str:
    """The module and parameter of a tensor of a layer of Marian."""
    attention = {"self": "self_attn", "context": "encoder_attn"}
    kind, _, part = name.partition("_")
    for ending, parameter in (("_ln_scale", "weight"), ("_ln_bias", "bias")):
        if part.endswith(ending):
            return f"{f'{attention[kind]}_layer_norm' if kind in attention else 'final_layer_norm'}.{parameter}"
    parameter = {"W": "weight", "b": "bias"}[part[0]]
    return f"{attention[kind]}.{PARTS[part[1]]}.{parameter}" if kind in attention else f"fc{part[1]}.{parameter}"


def write(folder: Path, tied: str = "all", *, pickled: bool = False, **changed: Any) -> dict[str, Tensor]:
    """Write the folder of a model; ``changed`` replaces settings. Returns its tensors."""
    made = model(tied)
    config = {
        "model_type": "marian", "vocab_size": PAD + 1, "decoder_vocab_size": PAD + 1,
        "d_model": made.width, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "activation_function": "swish",
        "scale_embedding": True, "share_encoder_decoder_embeddings": tied == "all",
        "tie_word_embeddings": tied != "none", "pad_token_id": PAD, "decoder_start_token_id": PAD, "eos_token_id": 0,
        "num_beams": 3, "max_length": 40,
    } | changed  # fmt: skip
    folder.mkdir(exist_ok=True)
    found = tensors(made, tied)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("vocab.json", "target_vocab.json")[: 1 if tied == "all" else 2]:
        (folder / name).write_text(json.dumps({word: id for id, word in enumerate([*WORDS, "<pad>"])}))
    if pickled:
        torch.save(found, folder / "pytorch_model.bin")
    else:
        safetensors.torch.save_file(found, folder / "model.safetensors")
    return found
