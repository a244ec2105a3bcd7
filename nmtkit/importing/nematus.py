"""Models of Nematus: weights (``model.npz``), and in the same folder options (``model.npz.json``), the dictionaries
that these name, and any BPE codes (``*.bpe``) and truecasing models (``truecase-model.LANGUAGE``).

They become models of ``models/bideep.py``, which computes what Nematus' code does (tag wmt17.v0.4; names of tensors are
those of its ``layers.py`` and ``nmt.py``). Weight normalisation is applied once, at import. A checkpoint of Nematus in
TensorFlow has these names after its own ``theano_tf_convert.py --from_tf``; copy its ``.json`` beside what that writes.

In Nematus eos is 0 and UNK is 1; ``<pad>`` and ``<s>``, which it lacks, have a bias that gives them no probability.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.folders import SIDES
from nmtkit.importing.found import NEVER, Found, experiment, only, spelled, unspelled_note
from nmtkit.importing.marian_weights import OPTIONS
from nmtkit.importing.npz import Array, names, read_npz
from nmtkit.importing.tensors import Tensors
from nmtkit.symbols import SPELLINGS
from nmtkit.text.bpe import Segmenter
from nmtkit.text.manifest import read_json
from nmtkit.text.settings import Prep, Side
from nmtkit.text.truecasing import Truecaser

# Arrays that every model has. Marian's of the type nematus have them, too, and its options.
_OURS = {"Wemb", "encoder_U", "decoder_U_att", "ff_logit_b"}
# Arrays that are no parameters: the training's history, older versions' copy of the weights, the optimizer's state.
_HISTORY = re.compile("history_errs|uidx|zipped_params|adam.*|adadelta.*|rmsprop.*|sgd.*")

# Options, with their values in files that lack them (``compat.py``).
_DEFAULTS: dict[str, Any] = {
    "encoder": "gru", "decoder": "gru_cond", "decoder_deep": "gru", "factors": 1, "enc_depth": 1,
    "output_hidden_activation": "tanh",
    "enc_depth_bidirectional": None, "enc_recurrence_transition_depth": 1,
    "enc_recurrence_transition_deep_input": False, "dec_depth": 1, "dec_base_recurrence_transition_depth": 2,
    "dec_base_recurrence_transition_deep_context": False, "dec_high_recurrence_transition_depth": None,
    "dec_high_recurrence_transition_deep_input": False, "dec_deep_context": False, "output_depth": 1,
    "layer_normalisation": False, "weight_normalisation": False, "tie_encoder_decoder_embeddings": False,
    "tie_decoder_embeddings": False, "use_dropout": False, "model_version": 0, "dim_word": None, "dim": None,
    "dictionaries": None, "n_words_src": None, "n_words": None,
}  # fmt: skip
# What the version in TensorFlow called some of them; its dropout was always that of model_version 0.1.
_IN_TENSORFLOW = {
    "embedding_size": "dim_word", "state_size": "dim", "source_vocab_size": "n_words_src",
    "target_vocab_size": "n_words", "use_layer_norm": "layer_normalisation",
}  # fmt: skip
_COUNTS = (
    "dim_word", "dim", "enc_depth", "enc_depth_bidirectional", "enc_recurrence_transition_depth", "dec_depth",
    "dec_base_recurrence_transition_depth", "dec_high_recurrence_transition_depth", "output_depth",
)  # fmt: skip
# Options of which nmtkit's architecture has one value only.
_ONLY = {
    "encoder": "gru", "decoder": "gru_cond", "factors": 1, "output_hidden_activation": "tanh",
    "enc_recurrence_transition_deep_input": False, "dec_base_recurrence_transition_deep_context": False,
    "dec_high_recurrence_transition_deep_input": False,
}  # fmt: skip
_SEARCH = {"max_len_a": 0, "max_len_b": 200}  # beside the preset's, which is that of translate.py -n -k 12
# decoder_deep and dec_deep_context: the cell of the decoder's levels above the base.
_CELLS = {
    ("gru", False): "gru", ("gru", True): "rgru", ("gru_cond", False): "cgru", ("gru_cond_reuse_att", False): "crgru",
}  # fmt: skip


def finds(path: Path) -> bool:
    """Whether a file has weights of Nematus, or a folder has such a file."""
    return bool(_candidates(path))


def read(path: Path) -> Found:
    """The model of a file of weights, or of a folder with one.

    Raises UserError for what nmtkit cannot represent exactly.
    """
    files = _candidates(path)
    file = only(files, path, "models")
    options = _options(file)
    arrays = read_npz(file, lambda name: not _HISTORY.fullmatch(name))
    model = _model(options, file)
    count = sum(array.size for array in arrays.values())
    words = _words(file, options, arrays)
    parameters = Weights(file, arrays, model).parameters(*words)
    prep, text_files, notes = _text(file.parent, options)
    return Found(
        toolkit="Nematus",
        notes=(
            *notes,
            *unspelled_note("source", words[0].unspelled),
            *unspelled_note("target", words[1].unspelled),
            *(["weight normalisation is part of the weights now, and is not trained on"]
              if options["weight_normalisation"] else []),
            f"parameters in {file.name}: {count:,}",
        ),
        experiment=experiment(
            f"{file.name} of Nematus", "nematus-baseline", model, prep,
            (len(words[0].vocabulary), len(words[1].vocabulary)), _SEARCH, str(file),
        ),
        parameters=parameters,
        src=words[0].vocabulary,
        tgt=words[1].vocabulary,
        prep=prep,
        files=text_files,
    )  # fmt: skip


def _candidates(path: Path) -> list[Path]:
    """The files of weights: ``path`` itself, or those in the folder ``path``."""
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    return [file for file in files if (found := set(names(file))) >= _OURS and OPTIONS not in found]


def _options(file: Path) -> dict[str, Any]:
    """The options of a file of weights. Raises UserError for a value that nmtkit's architecture does not have."""
    path = file.with_name(f"{file.name}.json")
    given = read_json(path, "Nematus writes it beside the weights; copy it there")
    if "source_vocab_size" in given:
        given = {"model_version": 0.1} | {_IN_TENSORFLOW.get(name, name): value for name, value in given.items()}
    if "deep_include_ctx" in given:  # the older name
        given.setdefault("dec_deep_context", given["deep_include_ctx"])
    options = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
    for name, value in _ONLY.items():
        if options[name] != value:
            raise UserError(f"{path}: {name} {options[name]}: cannot be imported; only {value} can")
    for name, default in _DEFAULTS.items():
        if isinstance(default, bool) and not isinstance(options[name], bool):
            raise UserError(f"{path}: {name} {options[name]}: expected true or false")
        asked = type(default) is int or name in ("dim", "dim_word") or options[name] is not None
        if asked and name in _COUNTS and (type(options[name]) is not int or options[name] < 1):
            raise UserError(f"{path}: {name} {options[name]}: expected a number of at least 1")
    if options["use_dropout"] and not isinstance(options["model_version"], float | int):
        raise UserError(f"{path}: model_version {options['model_version']}: expected a number")
    if options["use_dropout"] and options["model_version"] < 0.1:
        raise UserError(
            f"{path}: use_dropout with model_version {options['model_version']}: cannot be imported, because such a "
            "model scales its states when it translates; only model_version 0.1 or later can"
        )
    options["enc_depth_bidirectional"] = options["enc_depth_bidirectional"] or options["enc_depth"]
    return options


def _model(options: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The Config of models/bideep.py as plain values."""
    path = file.with_name(f"{file.name}.json")
    deep, transitions = options["dec_depth"] > 1, options["dec_high_recurrence_transition_depth"]
    cell = _CELLS.get((options["decoder_deep"], options["dec_deep_context"])) if deep else None
    if deep and cell is None:
        raise UserError(
            f"{path}: decoder_deep {options['decoder_deep']} with dec_deep_context {options['dec_deep_context']}: "
            "cannot be imported; dec_deep_context goes with gru only"
        )
    if cell == "crgru" or (deep and transitions is None):  # Nematus ignores the option in the former
        transitions = 2 if cell in ("cgru", "crgru") else 1
    above = options["enc_depth"] - options["enc_depth_bidirectional"]
    if above < 0:
        raise UserError(f"{path}: enc_depth_bidirectional {options['enc_depth_bidirectional']}: more than enc_depth")
    tied = "target" if options["tie_decoder_embeddings"] else "none"
    if options["tie_encoder_decoder_embeddings"]:
        if tied == "none":
            raise UserError(
                f"{path}: tie_encoder_decoder_embeddings without tie_decoder_embeddings: cannot be imported"
            )
        tied = "all"
    return {
        "embedding": options["dim_word"], "hidden": options["dim"],
        "bidirectional_layers": options["enc_depth_bidirectional"], "forward_layers": above,
        "encoder_transitions": options["enc_recurrence_transition_depth"], "decoder_layers": options["dec_depth"],
        "base_transitions": options["dec_base_recurrence_transition_depth"], "high_cell": cell,
        "high_transitions": transitions if deep else None, "output_layers": options["output_depth"],
        "layer_norm": options["layer_normalisation"], "dropout": 0, "tied": tied,
    }  # fmt: skip


class Words:
    """A dictionary of Nematus as nmtkit's vocabulary: the four symbols, then the words with the ids 2, 3 and so on.

    Ids without a word, and words that nmtkit's text cannot have, are <unused:ID>.
    """

    def __init__(self, path: Path, size: int):
        ids = read_json(path, "the options name this dictionary; copy it there")
        if not all(type(id) is int and id >= 0 for id in ids.values()):
            raise UserError(f"{path}: not a dictionary of Nematus, which maps words to ids")
        words = {id: word for word, id in ids.items() if id < size}  # those above are unknown words
        if len(words) < sum(id < size for id in ids.values()) or 0 not in words or 1 not in words:
            raise UserError(
                f"{path}: not a dictionary of Nematus, in which eos is 0, UNK is 1 and each word has its id"
            )
        if len(ids) < 0.9 * size:
            raise UserError(f"{path}: has {len(ids):,} words, but the weights have {size:,}; copy the model's own here")
        shown, self.unspelled = spelled([words.get(id, "") for id in range(2, size)], 2)
        self.vocabulary = Vocabulary([*SPELLINGS, *shown], [0] * (len(shown) + len(SPELLINGS)))

    def table(self, rows: Tensor, missing: float) -> Tensor:
        """Nematus' rows (V, ...) in nmtkit's order (V + 2, ...): those of <pad> and <s>, then all."""
        return torch.cat([rows.new_full((2, *rows.shape[1:]), missing), rows])


def _words(file: Path, options: Mapping[str, Any], arrays: Mapping[str, Array]) -> tuple[Words, Words]:
    """The dictionaries that the options name, by their file names in the folder of the weights."""
    listed = options["dictionaries"]
    if not isinstance(listed, list) or len(listed) != 2:
        raise UserError(f"{file}.json: dictionaries: expected a list of 2 files, found {str(listed)[:80]}")
    source, target = (file.with_name(Path(str(each)).name) for each in listed)
    sizes = len(arrays["Wemb"]), arrays["ff_logit_b"].size
    for name, size in zip(("n_words_src", "n_words"), sizes, strict=True):
        if options[name] not in (None, size):
            raise UserError(f"{file}.json: {name} {options[name]}: the weights have {size}")
    both = Words(source, sizes[0]), Words(target, sizes[1])
    if options["tie_encoder_decoder_embeddings"] and both[0].vocabulary.words != both[1].vocabulary.words:
        raise UserError(f"{target}: differs from {source}, but both sides have the same embeddings")
    return both


class Weights(Tensors):
    """The arrays of a file, and the parameters that they become."""

    def __init__(self, path: Path, arrays: Mapping[str, Array], model: Mapping[str, Any]):
        super().__init__(path, arrays)
        self.model = model

    def take(self, name: str, *shape: int) -> Tensor:
        """The array of this name and ``shape`` (D, E) or (E,) in float32, its weight normalisation applied."""
        tensor = super().take(name, *shape)
        if f"{name}_wns" in self.left:  # weight_norm of layers.py
            wide, scale = tensor.double(), super().take(f"{name}_wns", *shape[1:])
            tensor = (wide / (((wide * wide).sum(0, keepdim=True) + 1e-5).sqrt() * scale)).float()
        return tensor

    def swapped(self, x: Tensor, axis: int = 0) -> Tensor:
        """x (..., n 2H, ...) with the halves of each 2H of an axis exchanged, if the chains are of even depth.

        Nematus then has the states of the chain that ends forward first, nmtkit those of the chain that begins forward.
        """
        if self.model["bidirectional_layers"] % 2:
            return x
        halves: Tensor = x.unflatten(axis, (-1, 2, self.model["hidden"])).flip(axis + 1)
        return halves.reshape(x.shape)

    def map(self, ours: str, prefix: str, parts: Sequence[tuple[str, str, str, int]], rows: int) -> None:
        """One Map of several matrices: for each the names of matrix, bias ("" for none) and norm, and its columns."""
        found = self.found
        found[f"{ours}.weight"] = torch.cat([self.take(f"{prefix}_{w}", rows, n) for w, _, _, n in parts], dim=1)
        if parts[0][1]:
            found[f"{ours}.bias"] = torch.cat([self.take(f"{prefix}_{b}", n) for _, b, _, n in parts])
        for k, (_, _, norm, n) in enumerate(parts if self.model["layer_norm"] else ()):
            bias, gain = norm.split()
            found[f"{ours}.norms.{k}.weight"] = self.take(f"{prefix}_{gain}", n)
            found[f"{ours}.norms.{k}.bias"] = self.take(f"{prefix}_{bias}", n)

    def gates(self, ours: str, prefix: str, names: tuple[str, str], biases: str, rows: int, width: int,
              norms: tuple[int, int] | None = None) -> None:  # fmt: skip
        """The map of gates and candidate; the biases are b and bx with this suffix. ``norms``: numbers in crGRU."""
        first, second = ("", "") if not biases else (f"b{biases.strip()}", f"bx{biases.strip()}")
        if norms is None:
            called = [f"{name}_lnb {name}_lns" for name in names]
        else:
            called = [f"ln_b{number} ln_s{number}" for number in norms]
        parts = [(names[0], first, called[0], 2 * width), (names[1], second, called[1], width)]
        self.map(ours, prefix, parts, rows)

    def layer(self, ours: str, prefix: str, rows: int, columns: int) -> None:
        """A feed-forward layer."""
        self.map(ours, prefix, [("W", "b", "ln_b ln_s", columns)], rows)

    def transitions(self, ours: str, prefix: str, rows: int, width: int, depth: int) -> None:
        """A DeepTransition."""
        self.gates(f"{ours}.input", prefix, ("W", "Wx"), " ", rows, width)
        for k in range(depth):
            suffix = f"_drt_{k}" if k else ""
            self.gates(f"{ours}.states.{k}", prefix, (f"U{suffix}", f"Ux{suffix}"), "", width, width)
            if k:
                biases = self.take(f"{prefix}_b{suffix}", 2 * width), self.take(f"{prefix}_bx{suffix}", width)
                self.found[f"{ours}.biases.{k - 1}"] = torch.cat(biases)

    def conditional(self, ours: str, prefix: str, rows: int, width: int, depth: int, numbered: bool) -> None:
        """A ConditionalGRU, whose norms are numbered in a cell without attention of its own."""
        one, two, three, four = ((1, 2), (3, 4), (6, 8), (5, 7)) if numbered else (None,) * 4
        self.gates(f"{ours}.input", prefix, ("W", "Wx"), " ", rows, width, one)
        self.gates(f"{ours}.first", prefix, ("U", "Ux"), "", width, width, two)
        self.gates(f"{ours}.context", prefix, ("Wc", "Wcx"), "", 2 * width, width, three)
        self.found[f"{ours}.context.weight"] = self.swapped(self.found[f"{ours}.context.weight"])
        for k in range(depth - 1):
            suffix = "_nl" + (f"_drt_{k}" if k else "")
            self.gates(f"{ours}.states.{k}", prefix, (f"U{suffix}", f"Ux{suffix}"), suffix, width, width, four)

    def attentive(self, ours: str, prefix: str, rows: int, width: int, depth: int) -> None:
        """An AttentionGRU."""
        self.conditional(f"{ours}.cell", prefix, rows, width, depth, numbered=False)
        self.map(f"{ours}.key", prefix, [("Wc_att", "b_att", "Wc_att_lnb Wc_att_lns", 2 * width)], 2 * width)
        self.found[f"{ours}.key.weight"] = self.swapped(self.found[f"{ours}.key.weight"])
        self.map(f"{ours}.query", prefix, [("W_comb_att", "", "W_comb_att_lnb W_comb_att_lns", 2 * width)], width)
        self.found[f"{ours}.v"] = self.take(f"{prefix}_U_att", 2 * width, 1)[:, 0]
        self.found[f"{ours}.score_shift"] = self.take(f"{prefix}_c_tt", 1)

    def parameters(self, src: Words, tgt: Words) -> dict[str, Tensor]:
        """The parameters of nmtkit's model, matrices (D, E). Raises UserError for unfit arrays."""
        model, found = self.model, self.found
        e, h, depth = model["embedding"], model["hidden"], model["bidirectional_layers"]
        for way in range(2):
            for k in range(depth):
                prefix = ("encoder", "encoder_r")[(k + way) % 2] + (f"_{k + 1}" if k else "")
                self.transitions(f"encoder.chains.{way}.{k}", prefix, h if k else e, h, model["encoder_transitions"])
        for k in range(model["forward_layers"]):
            ours = f"encoder.above.{k}"
            self.transitions(ours, f"encoder_{depth + k + 1}", 2 * h, 2 * h, model["encoder_transitions"])
            for name in [name for name in found if name.startswith(f"{ours}.")]:
                for axis in range(found[name].ndim):
                    found[name] = self.swapped(found[name], axis)
        self.layer("decoder.initial", "ff_state", 2 * h, h)
        self.attentive("decoder.base", "decoder", e, h, model["base_transitions"])
        for k in range(model["decoder_layers"] - 1):
            ours, prefix, transitions = f"decoder.high.{k}", f"decoder_{k + 2}", model["high_transitions"]
            match model["high_cell"]:
                case "gru":
                    self.transitions(ours, prefix, h, h, transitions)
                case "rgru":
                    self.transitions(ours, prefix, 3 * h, h, transitions)
                    x = found[f"{ours}.input.weight"]
                    found[f"{ours}.input.weight"] = torch.cat([x[:h], self.swapped(x[h:])])
                case "cgru":
                    self.attentive(ours, prefix, h, h, transitions)
                case "crgru":
                    self.conditional(ours, prefix, h, h, transitions, numbered=True)
        self.layer("decoder.readout.state", "ff_logit_lstm", h, e)
        self.layer("decoder.readout.word", "ff_logit_prev", e, e)
        self.layer("decoder.readout.context", "ff_logit_ctx", 2 * h, e)
        for k in range(1, model["output_layers"]):
            self.layer(f"decoder.readout.further.{k - 1}", f"ff_deep_output_{k}", e, e)
        for name in ("decoder.initial.weight", "decoder.readout.context.weight"):
            found[name] = self.swapped(found[name])
        self._words(src, tgt, e)
        self.check_all_used()
        return found

    def _words(self, src: Words, tgt: Words, width: int) -> None:
        """Embeddings and output layer."""
        found, tied = self.found, self.model["tied"]
        sizes = [len(side.vocabulary) - 2 for side in (src, tgt)]
        if tied == "all":
            found["embedding.tgt.weight"] = tgt.table(self.take("Wemb", sizes[1], width), 0)
        else:
            found["embedding.src.weight"] = src.table(self.take("Wemb", sizes[0], width), 0)
            found["embedding.tgt.weight"] = tgt.table(self.take("Wemb_dec", sizes[1], width), 0)
        if tied == "none":
            found["output.weight"] = tgt.table(self.take("ff_logit_W", width, sizes[1]).t(), 0)
        found["output.bias"] = tgt.table(self.take("ff_logit_b", sizes[1]), NEVER)


def _text(folder: Path, options: Mapping[str, Any]) -> tuple[Prep, dict[str, bytes], tuple[str, ...]]:
    """How raw text becomes tokens, the files that this needs, and lines about it."""
    names = [re.search(r"(?:^|[._-])([a-z]{2,3})\.json$", str(name)) for name in options["dictionaries"]]
    languages = [name[1] if name else "und" for name in names]
    codes = sorted(path for pattern in ("*.bpe", "*.codes") for path in folder.glob(pattern) if path.is_file())
    if len(codes) > 1:
        raise UserError(
            f"{folder}: has several files of BPE codes, {', '.join(p.name for p in codes)}; leave one there"
        )
    files: dict[str, bytes] = {}
    if codes:
        Segmenter.load(codes[0])  # which refuses any other file
        files = {f"bpe.{side}": codes[0].read_bytes() for side in SIDES}
    cases = [folder / f"truecase-model.{language}" for language in languages]
    moses = all(path.is_file() for path in cases)
    if moses:
        for side, path in zip(SIDES, cases, strict=True):
            Truecaser.load(path)
            files[f"truecase.{side}"] = path.read_bytes()
    src, tgt = (
        Side(language, normalize=moses, tokenizer="moses" if moses else "none", escape=moses, truecase=moses,
             segmentation="bpe" if codes else "words")
        for language in languages
    )  # fmt: skip
    tokens = "Moses' normalisation, tokenizer and truecasing" if moses else "none: text is words separated by spaces"
    segmentation = f"BPE, {codes[0].name} for both sides" if codes else "none, because there is no *.bpe"
    return Prep(src, tgt, joint=True), files, (f"tokenisation: {tokens}", f"segmentation: {segmentation}")
