"""Models of the class ``MarianMTModel`` of Hugging Face's transformers, such as those of OPUS-MT.

They are folders with ``config.json``, weights (``model.safetensors`` or ``pytorch_model.bin``), ``vocab.json``, and
optionally ``target_vocab.json``, ``source.spm`` and ``target.spm``, and become models of ``models/transformer.py``.
Names and equations are those of ``modeling_marian.py``, which differs from Marian in positions and normalisation.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.importing.found import Found, Options, found
from nmtkit.importing.marian_text import read_words, segmentation
from nmtkit.importing.tensors import Tensors, load_pickle
from nmtkit.importing.words import NEVER, Words
from nmtkit.text.manifest import read_json

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that exists is read
# Settings with one value that can be imported, and their defaults for files that lack them.
_ONLY: dict[str, Any] = {
    "scale_embedding": (True, False), "normalize_before": (False, False), "normalize_embedding": (False, False),
    "add_final_layer_norm": (False, False), "static_position_embeddings": (True, True),
}  # fmt: skip
_SEARCH = {"num_beams", "length_penalty", "max_length"}
# Settings of search that nmtkit lacks, with the values that have no effect.
_NEUTRAL: dict[str, Any] = {
    "no_repeat_ngram_size": 0, "min_length": 0, "repetition_penalty": 1, "max_new_tokens": None,
}  # fmt: skip
_MODULES = {  # of a layer: nmtkit's names, and transformers'
    "self_attention.query": "self_attn.q_proj", "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj", "self_attention.out": "self_attn.out_proj",
    "around_self.norm": "self_attn_layer_norm", "feed_forward.inner": "fc1", "feed_forward.outer": "fc2",
    "feed_forward.around.norm": "final_layer_norm",
}  # fmt: skip
_IN_DECODER = {
    "attention.query": "encoder_attn.q_proj", "attention.key": "encoder_attn.k_proj",
    "attention.value": "encoder_attn.v_proj", "attention.out": "encoder_attn.out_proj",
    "around_source.norm": "encoder_attn_layer_norm",
}  # fmt: skip
# For each kind of tying, the parameters, each with the modules that have it as their weight; a file may repeat it.
_TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {"embedding.tgt": ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")},
    "target": {
        "embedding.src": ("model.encoder.embed_tokens",), "embedding.tgt": ("model.decoder.embed_tokens", "lm_head"),
    },
    "none": {
        "embedding.src": ("model.encoder.embed_tokens",), "embedding.tgt": ("model.decoder.embed_tokens",),
        "output": ("lm_head",),
    },
}  # fmt: skip


def finds(path: Path) -> bool:
    """Whether a folder has a config.json and weights of transformers, or a file is the weights of such a folder."""
    folder = path if path.is_dir() else path.parent
    named = path.is_dir() or path.name in _WEIGHTS
    return named and (folder / "config.json").is_file() and any((folder / name).is_file() for name in _WEIGHTS)


def read(path: Path) -> Found:
    """Read a folder or its file of weights. Raises UserError if nmtkit cannot represent the model exactly."""
    folder = path if path.is_dir() else path.parent
    config = Config(folder)
    file = path if path.is_file() else next(each for name in _WEIGHTS if (each := folder / name).is_file())
    tied = _tied(config)
    vocabularies = [folder / "vocab.json", folder / ("vocab.json" if tied == "all" else "target_vocab.json")]
    for vocabulary in vocabularies:
        if not vocabulary.is_file():
            raise UserError(f"{vocabulary}: not found; it belongs to the model; copy it there")
    src, tgt = map(read_words, vocabularies)
    _check_words(config, src, tgt, tied)
    weights = Weights(file, _tensors(file))
    model = weights.model(config, tied, src, tgt)
    text = segmentation(folder, vocabularies)
    notes = config.not_applied(_NEUTRAL | {"bad_words_ids": [[config.values.get("pad_token_id")]]})
    where = config.path, config.generation if _SEARCH & config.overridden.keys() else config.path
    toolkit, search = "transformers' Marian", config.search()
    return found(toolkit, "transformer-base", model, search, where, weights, src, tgt, text, notes)


def _tensors(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".bin":
        state = load_pickle(file)
        if not isinstance(state, dict):
            raise UserError(f"{file}: expected tensors by name, found {type(state).__name__}")
        return state
    try:
        return safetensors.torch.load_file(file)
    except (OSError, MemoryError, safetensors.SafetensorError) as error:
        raise UserError(f"{file}: is damaged or not safetensors ({str(error)[:100]}); download it again") from None


class Config(Options):
    """The settings of a folder: its config.json, overridden by its generation_config.json."""

    def __init__(self, folder: Path):
        self.path, self.generation = folder / "config.json", folder / "generation_config.json"
        values = read_json(self.path, "transformers writes it beside the weights; copy it there")
        own = read_json(self.generation, "copy it again") if self.generation.is_file() else {}
        self.overridden = {name: value for name, value in own.items() if value is not None}
        super().__init__(f"{self.path}:", values | self.overridden)
        self.require("model_type", "marian")
        for name, (value, default) in _ONLY.items():
            self.require(name, value, default=default)

    def place(self, name: str) -> str:
        """As in ``Options``, with the file that has the value."""
        return f"{self.generation if name in self.overridden else self.path}: {name}"

    def same(self, name: str) -> int:
        """The size encoder_NAME, which must be the same as decoder_NAME."""
        size = self.size(f"encoder_{name}")
        self.require(f"decoder_{name}", size)
        return size

    def search(self) -> dict[str, Any]:
        """The search settings, with the defaults of ``generate``."""
        return {
            "beam_size": self.number("num_beams", 1), "length_penalty": "power",
            "narrowing": False, "alpha": float(self.number("length_penalty", 1)), "max_len_a": 0,
            "max_len_b": max(1, self.number("max_length", 20) - 2),  # without the first <pad> and </s>
        }  # fmt: skip


class Weights(Tensors):
    """The tensors of a file."""

    def model(self, config: Config, tied: str, src: Words, tgt: Words) -> dict[str, Any]:
        """The Config of models/transformer.py as plain values; finds the parameters. Raises UserError if one is bad."""
        layers, width, inner = config.same("layers"), config.size("d_model"), config.same("ffn_dim")
        for side, modules in (("encoder", _MODULES), ("decoder", _MODULES | _IN_DECODER)):
            self.left.pop(f"model.{side}.embed_positions.weight", None)  # computed by a formula
            for k in range(layers):
                for ours, theirs in modules.items():
                    rows = {"fc1": inner}.get(theirs, width)
                    matrix = () if theirs.endswith("norm") else (inner if theirs == "fc2" else width,)
                    for name, shape in (("weight", (rows, *matrix)), ("bias", (rows,))):
                        tensor = self.take(f"model.{side}.layers.{k}.{theirs}.{name}", *shape)
                        self.found[f"{side}.layers.{k}.{ours}.{name}"] = tensor
        for ours, copies in _TABLES[tied].items():
            words = src if ours == "embedding.src" else tgt
            table, name = self._copies(copies, len(words.theirs), width)
            if ours == "embedding.tgt" and table[start := words.theirs.index("<pad>")].any():
                raise UserError(
                    f"{self.path}: tensor {name}: the row {start} of <pad>, which starts translations, is not zero: "
                    "cannot be imported"
                )
            self.found[f"{ours}.weight"] = words.table(table, 0)
        bias = self.take("final_logits_bias", 1, len(tgt.theirs))[0]
        self.found["output.bias"] = tgt.table(bias, NEVER)
        self.check_all_used()
        return {
            "layers": layers, "width": width, "feed_forward": inner, "heads": config.same("attention_heads"),
            "norm": "post", "tied": tied, "dropout": config.number("dropout", 0.1), "attention_bias": True,
            "activation": config.require("activation_function", "swish", "relu"), "positions": "formula",
        }  # fmt: skip

    def _copies(self, modules: Sequence[str], words: int, width: int) -> tuple[Tensor, str]:
        """The table (V', E) that these modules share as their weight, and the name of the first module that has it."""
        first, *others = [name for module in modules if (name := f"{module}.weight") in self.left] or [
            f"{modules[0]}.weight"
        ]
        table = self.take(first, words, width)
        for name in others:
            if not torch.equal(table, self.take(name, words, width)):
                raise UserError(f"{self.path}: tensor {name}: differs from {first}, to which config.json ties it")
        return table, first


def _tied(config: Config) -> str:
    """Which embeddings are tied: "all", "target" or "none"."""
    shared = config.require("share_encoder_decoder_embeddings", True, False, default=True)
    if config.require("tie_word_embeddings", *([True] if shared else [True, False]), default=True):
        return "all" if shared else "target"
    return "none"


def _check_words(config: Config, src: Words, tgt: Words, tied: str) -> None:
    """Raise UserError unless the vocabularies have the sizes and symbols of the settings."""
    for words, name in ((src, "vocab_size"), (tgt, "vocab_size" if tied == "all" else "decoder_vocab_size")):
        if config.size(name) != len(words.theirs):
            raise UserError(
                f"{words.path}: has {len(words.theirs):,} words, but {config.path} has {name} {config.size(name):,}; "
                "copy the model's own there"
            )
    for name, word in (("eos_token_id", "</s>"), ("pad_token_id", "<pad>"), ("decoder_start_token_id", "<pad>")):
        if word not in tgt.theirs:
            raise UserError(f"{tgt.path}: has no {word}; copy the model's own there")
        config.require(name, tgt.theirs.index(word))
