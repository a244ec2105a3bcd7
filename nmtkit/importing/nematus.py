"""Models of Nematus: weights (``model.npz``), and in the same folder options (``model.npz.json``), the dictionaries
that they name, and optionally BPE codes (``*.bpe``, ``bpe.model`` or ``bpe.model.LANGUAGE``) and truecasing models
(``truecase-model.LANGUAGE``).

They become models of ``models/bideep.py``, which compute the same as Nematus' code (tag wmt17.v0.4, with the names of
tensors in its ``layers.py`` and ``nmt.py``). Weight normalisation is applied once, at import. For a TensorFlow
checkpoint, run Nematus' own ``theano_tf_convert.py --from_tf``, and copy the ``.json`` beside the file that it writes.

In Nematus, eos is 0 and UNK is 1. It has no ``<pad>`` and no ``<s>``: a bias makes their probability 0.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmtkit import naming
from nmtkit.data.foreign import check_encodable
from nmtkit.errors import UserError
from nmtkit.folders import SIDES
from nmtkit.importing.cells import NEMATUS_TABLES, Cells, nematus_cells, nematus_conditional
from nmtkit.importing.found import Found, Options, beside, found, only
from nmtkit.importing.marian_weights import OPTIONS
from nmtkit.importing.npz import Array, names, read_npz
from nmtkit.importing.tensors import Tensors
from nmtkit.importing.words import Words, take_tables, with_symbols
from nmtkit.text.bpe import Segmenter
from nmtkit.text.manifest import read_json
from nmtkit.text.settings import Prep, Side
from nmtkit.text.truecasing import Truecaser

# Arrays of every model. Marian's models of type nematus have them, too, but also Marian's options.
_OURS = {"Wemb", "encoder_U", "decoder_U_att", "ff_logit_b"}
# Arrays that are not parameters: the training history, a copy of the weights, the optimizer state.
_HISTORY = re.compile("history_errs|uidx|zipped_params|adam.*|adadelta.*|rmsprop.*|sgd.*")

# Options, with their defaults for files that lack them (``compat.py``).
_DEFAULTS: dict[str, Any] = {
    "decoder_deep": "gru", "enc_depth": 1, "enc_depth_bidirectional": None, "enc_recurrence_transition_depth": 1,
    "dec_depth": 1, "dec_base_recurrence_transition_depth": 2, "dec_high_recurrence_transition_depth": None,
    "dec_deep_context": False, "output_depth": 1, "layer_normalisation": False, "weight_normalisation": False,
    "tie_encoder_decoder_embeddings": False, "tie_decoder_embeddings": False, "use_dropout": False, "model_version": 0,
    "dim_word": None, "dim": None, "dictionaries": None, "n_words_src": None, "n_words": None,
}  # fmt: skip
# Their names in the TensorFlow version, whose dropout is that of model_version 0.1.
_IN_TENSORFLOW = {
    "embedding_size": "dim_word", "state_size": "dim", "source_vocab_size": "n_words_src",
    "target_vocab_size": "n_words", "use_layer_norm": "layer_normalisation",
}  # fmt: skip
_SIZES = (
    "dim_word", "dim", "enc_depth", "enc_depth_bidirectional", "enc_recurrence_transition_depth", "dec_depth",
    "dec_base_recurrence_transition_depth", "dec_high_recurrence_transition_depth", "output_depth",
)  # fmt: skip
# Options with one value that can be imported, which is the default.
_ONLY = {
    "encoder": "gru", "decoder": "gru_cond", "factors": 1, "output_hidden_activation": "tanh",
    "enc_recurrence_transition_deep_input": False, "dec_base_recurrence_transition_deep_context": False,
    "dec_high_recurrence_transition_deep_input": False,
}  # fmt: skip
_SEARCH = {"max_len_a": 0, "max_len_b": 200}  # in addition to the preset's, which is translate.py -n -k 12
# The cell of the decoder's levels above the base, by decoder_deep and dec_deep_context.
_CELLS = {
    ("gru", False): "gru", ("gru", True): "rgru", ("gru_cond", False): "cgru", ("gru_cond_reuse_att", False): "crgru",
}  # fmt: skip


def finds(path: Path) -> bool:
    """Whether a file has weights of Nematus, or a folder has such a file."""
    return bool(_candidates(path))


def read(path: Path) -> Found:
    """Read a file of weights, or the one in a folder. Raises UserError if nmtkit cannot represent the model exactly."""
    file = only(_candidates(path), path, "models")
    options = _options(file)
    model = _model(options)
    arrays = read_npz(file, lambda name: not _HISTORY.fullmatch(name))
    count = sum(array.size for array in arrays.values())
    src, tgt = _words(file, options, arrays, model["tied"])
    weights = Weights(file, arrays)
    _find_parameters(weights, model, src, tgt)
    notes = [f"parameters in {file.name}: {count:,}"]
    if options.values["weight_normalisation"]:
        notes.insert(0, "weight normalisation is part of the weights now, and is not trained on")
    text = _text(file.parent, options.values["dictionaries"])
    where = _path_of_options(file), file
    return found("Nematus", "nematus-baseline", model, _SEARCH, where, weights, src, tgt, text, notes)


def _candidates(path: Path) -> list[Path]:
    """The files of weights: ``path`` itself, or those in the folder ``path``."""
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    return [file for file in files if (arrays := set(names(file))) >= _OURS and OPTIONS not in arrays]


def _path_of_options(file: Path) -> Path:
    """The file of options beside a file of weights."""
    return file.with_name(f"{file.name}.json")


def _options(file: Path) -> Options:
    """The options of a file of weights. Raises UserError for values that nmtkit cannot represent."""
    path = _path_of_options(file)
    given = read_json(path, "Nematus writes it beside the weights; copy it there")
    if "source_vocab_size" in given:
        given = {"model_version": 0.1} | {_IN_TENSORFLOW.get(name, name): value for name, value in given.items()}
    if "deep_include_ctx" in given:  # the older name
        given.setdefault("dec_deep_context", given["deep_include_ctx"])
    options = Options(f"{path}:", _DEFAULTS | given)
    for name, value in _ONLY.items():
        options.require(name, value, default=value)
    for name, default in _DEFAULTS.items():
        if isinstance(default, bool):
            options.require(name, True, False)
        if name in _SIZES and (name in ("dim", "dim_word") or default or options.values[name] is not None):
            options.size(name)
    if options.values["use_dropout"] and options.number("model_version", 0) < 0.1:
        raise UserError(
            f"{path}: use_dropout with model_version {options.values['model_version']}: cannot be imported, because "
            "such models scale their states in translation; only model_version 0.1 or later can"
        )
    return options


def _model(options: Options) -> dict[str, Any]:
    """The Config of models/bideep.py as plain values. Raises UserError for values that do not fit together."""
    given, where = options.values, options.where
    deep, transitions = given["dec_depth"] > 1, given["dec_high_recurrence_transition_depth"]
    cell = _CELLS.get((str(given["decoder_deep"]), given["dec_deep_context"])) if deep else None
    if deep and cell is None:
        raise UserError(
            f"{where} decoder_deep {given['decoder_deep']} with dec_deep_context {given['dec_deep_context']}: "
            "cannot be imported; dec_deep_context works with gru only"
        )
    if cell == "crgru" or (deep and transitions is None):  # Nematus ignores the option for crgru
        transitions = 2 if cell in ("cgru", "crgru") else 1
    chains = given["enc_depth_bidirectional"] or given["enc_depth"]
    if chains > given["enc_depth"]:
        raise UserError(f"{where} enc_depth_bidirectional {chains}: is more than enc_depth")
    tied = "target" if given["tie_decoder_embeddings"] else "none"
    if given["tie_encoder_decoder_embeddings"]:
        if tied == "none":
            raise UserError(
                f"{where} tie_encoder_decoder_embeddings without tie_decoder_embeddings: cannot be imported"
            )
        tied = "all"
    return {
        "embedding": given["dim_word"], "hidden": given["dim"],
        "bidirectional_layers": chains, "forward_layers": given["enc_depth"] - chains,
        "encoder_transitions": given["enc_recurrence_transition_depth"], "decoder_layers": given["dec_depth"],
        "base_transitions": given["dec_base_recurrence_transition_depth"], "high_cell": cell,
        "high_transitions": transitions if deep else None, "output_layers": given["output_depth"],
        "layer_norm": given["layer_normalisation"], "dropout": 0, "tied": tied,
    }  # fmt: skip


def _words(file: Path, options: Options, arrays: Mapping[str, Array], tied: str) -> tuple[Words, Words]:
    """The vocabularies of the dictionaries named in the options, whose files are in the folder of the weights."""
    listed = options.values["dictionaries"]
    if not isinstance(listed, list) or len(listed) != 2 or not all(Path(str(each)).name for each in listed):
        raise UserError(f"{options.where} dictionaries: expected a list of 2 files, found {str(listed)[:80]}")
    source, target = beside(file, listed, f"{options.where} dictionaries")
    sizes = np.atleast_1d(arrays["Wemb"])[..., :1].size, arrays["ff_logit_b"].size
    for name, size in zip(("n_words_src", "n_words"), sizes, strict=True):
        if options.values[name] not in (None, size):
            raise UserError(f"{options.where} {name}: {options.values[name]}, but the weights have {size} words")
    src, tgt = _dictionary(source, "source", sizes[0]), _dictionary(target, "target", sizes[1])
    if tied == "all" and src.vocabulary.words != tgt.vocabulary.words:
        raise UserError(f"{target}: differs from {source}, but both sides have the same embeddings")
    return src, tgt


def _dictionary(path: Path, side: str, size: int) -> Words:
    """The vocabulary of a dictionary, which maps words to ids. Ids without a word become <unused:ID>."""
    ids = read_json(path, "the options name this dictionary; copy it there")
    if not all(type(id) is int and id >= 0 for id in ids.values()):
        raise UserError(f"{path}: is not a dictionary of Nematus, which maps words to ids")
    check_encodable(path, ((id, word) for word, id in ids.items()))
    words = {id: word for word, id in ids.items() if id < size}  # words with larger ids are unknown
    if len(words) < sum(id < size for id in ids.values()) or 0 not in words or 1 not in words:
        raise UserError(f"{path}: is not a dictionary of Nematus, where eos is 0, UNK is 1 and all ids differ")
    if len(ids) < 0.9 * size:
        raise UserError(f"{path}: has {len(ids):,} words, but the weights have {size:,}; copy the model's own there")
    return with_symbols(path, side, ("</s>", "<unk>"), [words.get(id, "") for id in range(2, size)])


class Weights(Tensors):
    """The arrays of a file."""

    def take(self, name: str, *shape: int) -> Tensor:
        """As in ``Tensors``, with the weight normalisation of matrices (D, E) and biases (E,) applied."""
        tensor = super().take(name, *shape)
        if f"{name}_wns" in self.left:  # weight_norm of layers.py
            wide, scale = tensor.double(), super().take(f"{name}_wns", *shape[1:])
            tensor = (wide / (((wide * wide).sum(0, keepdim=True) + 1e-5).sqrt() * scale)).float()
        return tensor


def _find_parameters(weights: Weights, model: Mapping[str, Any], src: Words, tgt: Words) -> None:
    """Find the parameters of nmtkit's model in the weights. Raises UserError if arrays are missing or left over."""
    e, h, depth, transitions = (
        model[key] for key in ("embedding", "hidden", "bidirectional_layers", "high_transitions")
    )
    cells, above = (Cells(weights, width, model["layer_norm"]) for width in (h, 2 * h))
    for way in range(2):
        for k in range(depth):
            prefix = ("encoder", "encoder_r")[(k + way) % 2] + (f"_{k + 1}" if k else "")
            names = nematus_cells(prefix, model["encoder_transitions"])
            cells.deep_transition(f"encoder.chains.{way}.{k}", names, h if k else e)
    for k in range(model["forward_layers"]):
        names = nematus_cells(f"encoder_{depth + k + 1}", model["encoder_transitions"])
        above.deep_transition(f"encoder.above.{k}", names, 2 * h)
    cells.dense("decoder.initial", "ff_state_{}", 2 * h, h)

    def attentive(ours: str, prefix: str, rows: int, depth: int) -> None:
        cells.conditional(f"{ours}.cell", nematus_conditional(prefix, depth), (f"{prefix}_{{}}", "Wc"), rows)
        cells.attention(ours, prefix)
        weights.found[f"{ours}.score_shift"] = weights.take(f"{prefix}_c_tt", 1)

    attentive("decoder.base", "decoder", e, model["base_transitions"])
    for k in range(model["decoder_layers"] - 1):
        ours, prefix = f"decoder.high.{k}", f"decoder_{k + 2}"
        match model["high_cell"]:
            case "gru" | "rgru" as cell:
                cells.deep_transition(ours, nematus_cells(prefix, transitions), h if cell == "gru" else 3 * h)
            case "cgru":
                attentive(ours, prefix, h, transitions)
            case "crgru":
                _rename_norms(weights, prefix)
                cells.conditional(ours, nematus_conditional(prefix, transitions), (f"{prefix}_{{}}", "Wc"), h)
    for part, theirs, rows in (("state", "lstm", h), ("word", "prev", e), ("context", "ctx", 2 * h)):
        cells.dense(f"decoder.readout.{part}", f"ff_logit_{theirs}_{{}}", rows, e)
    for k in range(1, model["output_layers"]):
        cells.dense(f"decoder.readout.further.{k - 1}", f"ff_deep_output_{k}_{{}}", e, e)
    take_tables(weights, NEMATUS_TABLES, model["tied"], e, src, tgt)
    weights.check_all_used()
    if depth % 2 == 0:
        _swap_chains(weights.found, model)


def _rename_norms(weights: Weights, prefix: str) -> None:
    """Rename the numbered layer normalisations of a crGRU after their matrices, as in other cells."""
    matrices = {1: "W", 2: "Wx", 3: "U", 4: "Ux", 5: "U_nl", 6: "Wc", 7: "Ux_nl", 8: "Wcx"}
    for number, matrix in matrices.items():
        for letter in "sb":
            if (name := f"{prefix}_ln_{letter}{number}") in weights.left:
                weights.left[f"{prefix}_{matrix}_ln{letter}"] = weights.left.pop(name)


def _swap_chains(found: dict[str, Tensor], model: Mapping[str, Any]) -> None:
    """Exchange the halves of annotations in all parameters with an axis of 2H annotations.

    If the chains have an even depth, Nematus has the states of the chain that ends forward first, nmtkit those of the
    chain that begins forward.
    """
    h = model["hidden"]

    def swapped(x: Tensor, axis: int) -> Tensor:  # (..., n 2H, ...)
        halves: Tensor = x.unflatten(axis, (-1, 2, h)).flip(axis + 1)
        return halves.reshape(x.shape)

    for name, x in found.items():
        if name.startswith("encoder.above."):
            for axis in range(x.ndim):
                x = swapped(x, axis)
        elif re.fullmatch(r"decoder\..*\b(initial|key|context)\.weight", name):
            x = swapped(x, 0)
        elif model["high_cell"] == "rgru" and re.fullmatch(r"decoder\.high\.\d+\.input\.weight", name):
            x = torch.cat([x[:h], swapped(x[h:], 0)])
        found[name] = x


def _text(folder: Path, dictionaries: Sequence[object]) -> tuple[Prep, dict[str, bytes], list[str]]:
    """The settings and files for text processing, and notes on them."""
    named = [re.search(r"(?:^|[._-])([a-z]{2,3})\.json$", str(name)) for name in dictionaries]
    languages = [name[1] if name and name[1] not in naming.NO_LANGUAGES else "und" for name in named]
    patterns = "*.bpe", "*.codes", "bpe.model"
    codes = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    if len(codes) > 1:
        raise UserError(
            f"{folder}: has several files of BPE codes, {', '.join(p.name for p in codes)}; leave one there"
        )
    own = [folder / f"bpe.model.{language}" for language in languages]
    codes = codes * 2 or [path for path in own if all(each.is_file() for each in own)]
    files: dict[str, bytes] = {}
    for side, path in zip(SIDES, codes, strict=False):
        Segmenter.load(path)  # raises UserError for other files
        files[f"bpe.{side}"] = path.read_bytes()
    cases = [folder / f"truecase-model.{language}" for language in languages]
    moses = all(path.is_file() for path in cases)
    if moses:
        for side, path in zip(SIDES, cases, strict=True):
            Truecaser.load(path, "")  # raises UserError for other files
            files[f"truecase.{side}"] = path.read_bytes()
    src, tgt = (
        Side(language, normalize=moses, tokenizer="moses" if moses else "none", aggressive_hyphens=moses, escape=moses,
             truecase=moses, segmentation="bpe" if codes else "words")
        for language in languages
    )  # fmt: skip
    tokens = "none: text is words separated by spaces"
    if moses:  # as the scripts of Edinburgh's systems (EdinburghNLP/wmt17-scripts), which call tokenizer.perl -a
        tokens = "Moses' normalisation, tokenizer with aggressive hyphens, and truecasing"
    joint, which = len({*codes}) < 2, " and ".join(path.name for path in codes)
    if codes and joint:
        which = f"{codes[0].name} for both sides"
    none = "none, because there is no *.bpe, *.codes, bpe.model or pair of bpe.model.LANGUAGE"
    segmentation = f"BPE, {which}" if codes else none
    return Prep(src, tgt, joint=joint), files, [f"tokenisation: {tokens}", f"segmentation: {segmentation}"]
