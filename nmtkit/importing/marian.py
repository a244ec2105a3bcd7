"""Models of Marian: a folder with ``decoder.yml``, weights (``.npz``), vocabularies and perhaps SentencePiece models.

Transformers, OPUS-MT's among them, go into ``models/transformer.py``, recurrent models (types s2s and nematus) into
``models/bideep.py``. The weights have the options that decide about the architecture inside, "special:model.yml".

Marian's ``<unk>`` is nmtkit's; ``<pad>`` and ``<s>``, which Marian lacks, have a bias that gives them no probability.
"""

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmtkit.config import load_yaml, merge, parse_yaml
from nmtkit.data.foreign import numbered_words
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.folders import SIDES
from nmtkit.importing.found import Found
from nmtkit.importing.npz import Array, names, read_npz
from nmtkit.models.bideep import LayerNorm
from nmtkit.symbols import SPELLINGS
from nmtkit.text.sentencepieces import package
from nmtkit.text.settings import Prep, Side

_OPTIONS = "special:model.yml"  # the array of bytes that holds them

# Options and their only values that can be held, by the type of the model; older files lack some of them.
_ALWAYS: dict[str, Any] = {
    "factors-dim-emb": 0, "input-types": [], "lemma-dim-emb": 0, "output-omit-bias": False, "right-left": False,
    "tied-embeddings-src": False, "ulr": False,
}  # fmt: skip
_TRANSFORMER: dict[str, Any] = {
    "transformer-attention-mask": "default", "transformer-decoder-autoreg": "self-attention",
    "transformer-decoder-dim-ffn": 0, "transformer-decoder-ffn-depth": 0, "transformer-disable-position-embeddings":
    False, "transformer-ffn-depth": 2, "transformer-no-affine": False, "transformer-no-bias": False,
    "transformer-no-projection": False, "transformer-pool": False, "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
}  # fmt: skip

# What stands before and after each sublayer and after the last one, dropout (d) left out: where the normalisation is.
_NORMS = {("", "an", ""): "post", ("n", "a", "n"): "pre"}

_NEVER = -1e4  # the bias of a word that is never meant: exp(-1e4) is 0, and label smoothing can still be computed


def finds(path: Path) -> bool:
    """Whether a file has weights of Marian, or a folder has such a file."""
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    return any(_OPTIONS in names(file) for file in files)


def read(path: Path) -> Found:
    """The model of a folder or of its file of weights. Raises UserError for what cannot be held exactly."""
    folder = path if path.is_dir() else path.parent
    decoder, settings = _decoder(path)
    file = _only(decoder, settings, "models", folder)[0]
    weights = Weights(file)
    options = weights.options()
    kind = options.get("type")
    if kind not in ("transformer", "s2s", "nematus"):
        raise UserError(f"{file}: type {kind}: only transformer, s2s and nematus can be imported")
    for option, value in {**_ALWAYS, **(_TRANSFORMER if kind == "transformer" else {})}.items():
        if options.get(option, value) != value:
            raise UserError(f"{file}: {option} {options[option]}: cannot be imported; only {value} can")
    sides = _only(decoder, settings, "vocabs", folder)
    src, tgt = (Words(side) for side in sides)
    for side, words, size in zip(sides, (src, tgt), options["dim-vocabs"], strict=True):
        if len(words.marian) != size:
            raise UserError(f"{side}: has {len(words.marian)} words, but the weights have {size}; use its own vocabulary")
    tied = "all" if options.get("tied-embeddings-all") else "target" if options.get("tied-embeddings") else "none"
    if tied == "all" and src.marian != tgt.marian:
        raise UserError(f"{sides[1]}: differs from {sides[0]}, but both sides have the same embeddings")
    if kind == "transformer":
        model = _transformer(weights, options, tied, src, tgt)
    else:
        model = _recurrent(weights, options, tied, src, tgt)
    weights.check_all_used()
    prep, files, notes = _text(folder, sides)
    version = str(options.get("version", "")).split()
    return Found(
        toolkit=" ".join(["Marian", *version[:1]]),
        notes=notes,
        experiment=_experiment(file, kind, model, prep, (src, tgt), settings),
        parameters=weights.parameters,
        src=src.vocabulary,
        tgt=tgt.vocabulary,
        prep=prep,
        files=files,
    )


class Words:
    """A vocabulary of Marian, and the same as nmtkit's: the four symbols first, then the others in their order."""

    def __init__(self, path: Path):
        self.marian = _pieces(path) if path.suffix == ".spm" else _listed(path)
        ids = {word: id for id, word in enumerate(self.marian)}
        for symbol in ("</s>", "<unk>"):
            if symbol not in ids:
                raise UserError(f"{path}: has no {symbol}; give the vocabulary that Marian was trained with")
        others = [word for word in self.marian if word not in SPELLINGS]
        self.rows = [ids.get(word) for word in (*SPELLINGS, *others)]  # Marian's id of each word; None: it has none
        # A word of white space cannot occur in text, but has a row.
        shown = [re.sub(r"\s", lambda space: f"<{ord(space[0]):04X}>", word) or "<>" for word in others]
        self.vocabulary = Vocabulary([*SPELLINGS, *shown], [0] * len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def table(self, rows: Tensor, missing: float) -> Tensor:
        """Marian's rows (V', ...) in nmtkit's order (V, ...), with this number where Marian has no such word."""
        table = rows.new_full((len(self.rows), *rows.shape[1:]), missing)
        known = [row for row, id in enumerate(self.rows) if id is not None]
        table[known] = rows[[id for id in self.rows if id is not None]]
        return table


def _listed(path: Path) -> list[str]:
    """The words of a ``.yml`` file by id."""
    numbers, words = zip(*numbered_words(path), strict=True) if path.is_file() else ((), ())
    if not words or numbers != tuple(range(len(words))):
        raise UserError(f"{path}: not a vocabulary of Marian, whose words have the ids 0, 1, 2 and so on")
    return list(words)


def _pieces(path: Path) -> list[str]:
    """The pieces of a SentencePiece model by id."""
    try:
        processor = package().SentencePieceProcessor(model_proto=path.read_bytes())
    except (OSError, RuntimeError):
        raise UserError(f"{path}: not a SentencePiece model; copy it again") from None
    return [processor.id_to_piece(id) for id in range(processor.get_piece_size())]


class Weights:
    """The tensors of a file, each of which must be used, and the parameters that they become."""

    def __init__(self, path: Path):
        self.path = path
        self.arrays = read_npz(path)
        self.parameters: dict[str, Tensor] = {}

    def options(self) -> dict[str, Any]:
        """The options that Marian has written into the file."""
        if _OPTIONS not in self.arrays:
            raise UserError(f"{self.path}: not a model of Marian (no {_OPTIONS})")
        text = self.arrays.pop(_OPTIONS).tobytes().rstrip(b"\0").decode("utf-8", "replace")
        options = parse_yaml(text, f"{self.path}: {_OPTIONS}")
        if not isinstance(options, dict):
            raise UserError(f"{self.path}: {_OPTIONS}: expected options, found {text[:40]!r}")
        return options

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor of this name in float32, which must have this shape; one of shape (1, E) is returned as (E,)."""
        if name not in self.arrays:
            raise UserError(f"{self.path}: tensor {name}: missing")
        array = self.arrays.pop(name)
        if array.shape != shape or array.dtype not in (np.float32, np.float16):
            raise UserError(f"{self.path}: tensor {name}: {array.dtype} of shape {array.shape}, expected float32 {shape}")
        tensor = torch.from_numpy(array.astype(np.float32))
        return tensor[0] if shape[0] == 1 else tensor

    def rename(self, new: Callable[[str], str | None]) -> None:
        """Give the tensors other names and leave out those that have none; one of shape (E,) becomes (1, E)."""
        named = ((new(name), np.atleast_2d(array)) for name, array in self.arrays.items())
        self.arrays = {name: array for name, array in named if name is not None}

    def check_all_used(self) -> None:
        """Raise UserError if a tensor is left: the model would not be the same without it."""
        if self.arrays:
            raise UserError(f"{self.path}: tensor {next(iter(self.arrays))}: has no place in nmtkit's architecture")


def _transformer(weights: Weights, options: Mapping[str, Any], tied: str, src: Words, tgt: Words) -> dict[str, Any]:
    """The Config of a Transformer as plain values; its parameters are added to the weights'."""
    layers, width, inner = (_size(weights, options, name) for name in ("enc-depth", "dim-emb", "transformer-dim-ffn"))
    _require(weights, options, "dec-depth", layers)
    _require(weights, options, "transformer-ffn-activation", "swish", "relu")
    places = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
    norm = _NORMS.get(tuple(str(options.get(place, "")).replace("d", "") for place in places))  # type: ignore[call-overload]
    if norm is None or str(options.get("transformer-postprocess-emb", "")).strip("d"):
        shown = ", ".join(f"{place} {options.get(place)!r}" for place in (*places, "transformer-postprocess-emb"))
        raise UserError(f"{weights.path}: {shown}: cannot be imported; only dan after, or n before and da after can")
    found = weights.parameters

    def linear(ours: str, theirs: str, suffix: str, rows: int, columns: int) -> None:
        found[f"{ours}.weight"] = weights.take(f"{theirs}_W{suffix}", rows, columns).t().contiguous()
        found[f"{ours}.bias"] = weights.take(f"{theirs}_b{suffix}", 1, columns)

    def normalisation(ours: str, theirs: str, suffix: str) -> None:
        found[f"{ours}.weight"] = weights.take(f"{theirs}_ln_scale{suffix}", 1, width)
        found[f"{ours}.bias"] = weights.take(f"{theirs}_ln_bias{suffix}", 1, width)

    before = "_pre" if norm == "pre" else ""
    for side in ("encoder", "decoder"):
        attentions = {"self": ("self_attention", "around_self"), "context": ("attention", "around_source")}
        for layer in range(layers):
            ours, theirs = f"{side}.layers.{layer}", f"{side}_l{layer + 1}"
            for name, (attention, around) in attentions.items():
                if side == "encoder" and name == "context":
                    continue
                for part, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "o")):
                    linear(f"{ours}.{attention}.{part}", f"{theirs}_{name}", letter, width, width)
                normalisation(f"{ours}.{around}.norm", f"{theirs}_{name}_Wo", before)
            linear(f"{ours}.feed_forward.inner", f"{theirs}_ffn", "1", width, inner)
            linear(f"{ours}.feed_forward.outer", f"{theirs}_ffn", "2", inner, width)
            normalisation(f"{ours}.feed_forward.around.norm", f"{theirs}_ffn_ffn", before)
        if norm == "pre":
            normalisation(f"{side}.norm", f"{side}_top", "")
    _words(weights, tied, width, src, tgt, "decoder_ff_logit_out")
    return {
        "layers": layers, "width": width, "feed_forward": inner, "heads": _size(weights, options, "transformer-heads"),
        "norm": norm, "tied": tied, "dropout": 0.1, "activation": options["transformer-ffn-activation"],
        "attention_bias": True, "norm_epsilon": 1e-6,
    }  # fmt: skip


def _recurrent(weights: Weights, options: Mapping[str, Any], tied: str, src: Words, tgt: Words) -> dict[str, Any]:
    """The Config of a recurrent model as plain values; its parameters are added to the weights'."""
    sizes = "dim-emb", "dim-rnn", "enc-depth", "enc-cell-depth", "dec-depth", "dec-cell-base-depth"
    embedding, width, levels, transitions, above, base = (_size(weights, options, name) for name in sizes)
    of_nematus = options["type"] == "nematus"
    layer_norm: LayerNorm = options.get("layer-normalization", False) and (of_nematus or "marian")
    for cell in ("enc-cell", "dec-cell"):
        _require(weights, options, cell, "gru-nematus" if of_nematus else "gru")
    if levels > 1:
        _require(weights, options, "enc-type", "alternating")
    if levels > 1 or above > 1:
        _require(weights, options, "skip", True)
    if base < 2:
        raise UserError(f"{weights.path}: dec-cell-base-depth {base}: cannot be imported; only 2 and more can")
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
    high = _size(weights, options, "dec-cell-high-depth") if above > 1 else None
    for level in range(above - 1):
        names = [f"decoder_l{level + 2}_cell{k + 1}" for k in range(high or 0)]
        cells.deep_transition(f"decoder.high.{level}", names, width)
    for number, (part, rows) in enumerate({"word": embedding, "state": width, "context": 2 * width}.items()):
        cells.dense(f"decoder.readout.{part}", f"decoder_ff_logit_l1_{{}}{number}", rows, embedding)
    _words(weights, tied, embedding, src, tgt, "decoder_ff_logit_l2")
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
        self.found = weights.parameters

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
    if name in ("decoder_c_tt", "uidx", "history_errs"):
        return None
    if found := re.fullmatch(r"(encoder(?:_r)?)_(Ux?|Wx?|bx?)(?:_drt_(\d+))?(_ln[sb])?", name):
        chain, part, transition, norm = found.groups("")
        cell = f"_cell{int(transition) + 1}" if transition else ""
        return f"{chain.replace('encoder', 'encoder_bi')}{cell}_{part}{norm}"
    if found := re.fullmatch(r"decoder_(Ux?|Wx?|bx?|Wcx?)(_nl)?(?:_drt_(\d+))?(_ln[sb])?", name):
        part, second, transition, norm = found.groups("")
        cell = 2 + int(transition or 0) if second or "c" in part else 1
        return f"decoder_cell{cell}_{part.replace('c', '')}{norm}"
    if found := re.fullmatch(r"ff_logit_(prev|lstm|ctx)_(W|b|ln_s|ln_b)", name):
        return f"decoder_ff_logit_l1_{found[2]}{('prev', 'lstm', 'ctx').index(found[1])}"
    if found := re.fullmatch(r"ff_state_(W|b|ln_s|ln_b)", name):
        return f"decoder_ff_state_{found[1]}"
    others = {"Wemb": "encoder_Wemb", "Wemb_dec": "decoder_Wemb"}
    return others.get(name) or re.sub(r"^ff_logit_(W|b)$", r"decoder_ff_logit_l2_\1", name)


def _words(weights: Weights, tied: str, width: int, src: Words, tgt: Words, output: str) -> None:
    """The embeddings and the output layer, whose matrix and bias have names that begin with ``output``."""
    found = weights.parameters
    if tied == "all":
        found["embedding.tgt.weight"] = tgt.table(weights.take("Wemb", len(tgt.marian), width), 0)
    else:
        found["embedding.src.weight"] = src.table(weights.take("encoder_Wemb", len(src.marian), width), 0)
        found["embedding.tgt.weight"] = tgt.table(weights.take("decoder_Wemb", len(tgt.marian), width), 0)
    if tied == "none":
        if f"{output}_Wt" in weights.arrays:
            matrix = weights.take(f"{output}_Wt", len(tgt.marian), width)
        else:  # as files of older versions have it
            matrix = weights.take(f"{output}_W", width, len(tgt.marian)).t()
        found["output.weight"] = tgt.table(matrix, 0)
    found["output.bias"] = tgt.table(weights.take(f"{output}_b", 1, len(tgt.marian)), _NEVER)


def _size(weights: Weights, options: Mapping[str, Any], name: str) -> int:
    """The value of an option that is a count."""
    value = options.get(name)
    if type(value) is not int or value < 1:
        raise UserError(f"{weights.path}: {name} {value}: expected a number of at least 1")
    return value


def _require(weights: Weights, options: Mapping[str, Any], name: str, *values: Any) -> None:
    """Raise UserError if an option has none of these values."""
    if options.get(name) not in values:
        only = " or ".join(map(str, values))
        raise UserError(f"{weights.path}: {name} {options.get(name)}: cannot be imported; only {only} can")


def _decoder(path: Path) -> tuple[Path, dict[str, Any]]:
    """The decoder.yml of a folder or a file of weights, and what it says."""
    folder = path if path.is_dir() else path.parent
    own = [] if path.is_dir() else [path.with_name(f"{path.name}.decoder.yml")]
    for decoder in (*own, folder / "decoder.yml"):
        if decoder.is_file():
            settings = load_yaml(decoder)
            return decoder, settings if path.is_dir() else settings | {"models": [path.name]}
    raise UserError(f"{folder / 'decoder.yml'}: not found; write it: `models: [FILE.npz]` and `vocabs: [SRC.yml, TGT.yml]`")


def _only(decoder: Path, settings: Mapping[str, Any], key: str, folder: Path) -> list[Path]:
    """The files that decoder.yml names, one model or two vocabularies; all lie in its folder, wherever they were."""
    count = {"models": 1, "vocabs": 2}[key]
    listed = settings.get(key)
    if not isinstance(listed, list) or len(listed) != count:
        raise UserError(f"{decoder}: {key}: expected a list of {count}, found {str(listed)[:80]}")
    files = [folder / Path(str(file)).name for file in listed]
    for file in files:
        if not file.is_file():
            raise UserError(f"{file}: not found, but {decoder} names it")
    return files


def _text(folder: Path, vocabularies: Sequence[Path]) -> tuple[Prep, dict[str, bytes], tuple[str, ...]]:
    """How raw text becomes tokens, the files that this needs, and lines about it."""
    pieces = vocabularies if all(path.suffix == ".spm" for path in vocabularies) else _pair(folder, "spm")
    codes = _pair(folder, "bpe")
    languages = _languages(folder)
    files: dict[str, bytes] = {}
    normalize, segmentation = False, "words"
    notes = ["segmentation: none, because the folder has neither source.spm nor source.bpe: its text is tokens"]
    if pieces:
        script = folder / "preprocess.sh"
        # OPUS-MT normalises punctuation before SentencePiece.
        normalize = pieces != vocabularies and (not script.is_file() or b"normalize-punctuation" in script.read_bytes())
        segmentation = "sentencepiece"
        files = {f"sentencepiece.{side}": file.read_bytes() for side, file in zip(SIDES, pieces, strict=True)}
        notes = [f"segmentation: SentencePiece, {pieces[0].name} and {pieces[1].name}"]
        if normalize:
            notes.append("punctuation is normalised as by Moses before it")
    elif codes:
        segmentation = "bpe"
        files = {f"bpe.{side}": file.read_bytes() for side, file in zip(SIDES, codes, strict=True)}
        notes = [f"segmentation: BPE, {codes[0].name} and {codes[1].name}, of text that is tokenised already"]
    sides = [
        Side(language=language, normalize=normalize, tokenizer="none", segmentation=segmentation)  # type: ignore[arg-type]
        for language in languages
    ]
    return Prep(*sides, joint=False), files, tuple(notes)


def _pair(folder: Path, suffix: str) -> list[Path]:
    """OPUS-MT's files of subwords, source.spm and target.spm; [] where they are not."""
    files = [folder / f"{name}.{suffix}" for name in ("source", "target")]
    return files if all(file.is_file() for file in files) else []


def _languages(folder: Path) -> list[str]:
    """The languages by the name of the folder, such as opus-mt-en-de; "und" where it does not name them."""
    found = re.search(r"(?:^|[-_.])([a-z]{2,3})-([a-z]{2,3})$", folder.resolve().name)
    return [*found.groups()] if found else ["und", "und"]


def _experiment(
    file: Path,
    kind: str,
    model: Mapping[str, Any],
    prep: Prep,
    words: tuple[Words, Words],
    settings: Mapping[str, Any],
) -> Experiment:
    """The experiment: training as in the preset of the architecture, search as in decoder.yml."""
    base = load_preset("transformer-base" if kind == "transformer" else "bideep")
    power = settings.get("normalize", 0)
    penalty = {"length_penalty": "power", "alpha": float(power)} if power else {"length_penalty": "none"}
    longest = settings.get("max-length-factor", 3)
    values = {
        "paper": {"title": f"{file.name} of Marian", "section": f"type {kind}", "task": "imported", "score": None, "parameters": None},
        "model": None,
        "data": {"segmentation": prep.src.segmentation, "src_vocab": len(words[0]), "tgt_vocab": len(words[1])},
        "search": {"beam_size": settings.get("beam-size", 12), **penalty, "max_len_a": longest, "max_len_b": int(longest),
        "unk": bool(settings.get("allow-unk", False))},
    }
    return build_experiment(merge(base, values) | {"model": model}, str(file))
