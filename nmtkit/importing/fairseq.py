"""Models of fairseq with the architecture ``fconv``: a checkpoint (``.pt``), and beside it the dictionaries of both
sides (``dict.LANGUAGE.txt``) and optionally BPE codes (``bpecodes``).

They become models of ``models/densenmt.py`` without dense connections, which compute the same as fairseq's ``fconv.py``
(0.12.2, whose names the tensors have). fairseq has nmtkit's symbols in another order. Checkpoints are pickles, from
which only tensors, plain values and ``argparse.Namespace`` are loaded.
"""

import argparse
import ast
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.folders import SIDES
from nmtkit.importing.found import Found, Options, found, only
from nmtkit.importing.tensors import Tensors, load_pickle
from nmtkit.importing.words import Words, with_symbols
from nmtkit.lines import read_lines
from nmtkit.text.bpe import Segmenter
from nmtkit.text.settings import Prep, Side

_ARCHITECTURES = ("fconv", "fconv_iwslt_de_en", "fconv_wmt_en_ro", "fconv_wmt_en_de", "fconv_wmt_en_fr")
_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # in fairseq's order
# Options, with their defaults for checkpoints that lack them (``base_architecture``).
_DEFAULTS = {
    "dropout": 0.1, "encoder_embed_dim": 512, "encoder_layers": "[(512, 3)] * 20", "decoder_embed_dim": 512,
    "decoder_layers": "[(512, 3)] * 20", "decoder_out_embed_dim": 256, "decoder_attention": "True",
    "share_input_output_embed": False,
}  # fmt: skip
_SEARCH = {  # the defaults of fairseq-generate
    "beam_size": 5, "length_penalty": "avg", "max_len_a": 0, "max_len_b": 200, "unk": True, "narrowing": False,
}  # fmt: skip
_LAYERS = 1000  # the maximum

Layers = list[tuple[int, int]]  # width and kernel size of each


def finds(path: Path) -> bool:
    """Whether a file has the suffix .pt, or a folder has such a file and dictionaries."""
    if path.is_dir():
        return bool(_checkpoints(path)) and any(path.glob("dict.*.txt"))
    return path.suffix == ".pt" and path.is_file()


def read(path: Path) -> Found:
    """Read a checkpoint, or the one in a folder. Raises UserError if nmtkit cannot represent the model exactly."""
    files = _checkpoints(path) if path.is_dir() else [path]
    file = only(files, path, "checkpoints")
    options, languages, state = _load(file)
    stacks = _stacks(file, options)
    src, tgt = (_words(file.with_name(f"dict.{languages[k]}.txt"), side) for k, side in enumerate(("source", "target")))
    weights = Weights(file, state)
    model = weights.model(options, stacks, src, tgt)
    count = sum(tensor.numel() for tensor in state.values())
    notes = [f"values in {file.name}: {count:,}"]
    if options["share_input_output_embed"]:
        notes.insert(0, "embeddings and output layer no longer share their weights")
    text = _text(file.parent, languages)
    return found("fairseq", "convs2s-wmt15", model, _SEARCH, (file, file), weights, src, tgt, text, notes)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.pt") if path.is_file())


def _load(file: Path) -> tuple[dict[str, Any], tuple[str, str], dict[str, Tensor]]:
    """The options, languages and tensors of a checkpoint."""
    settings = _plain(load_pickle(file, [argparse.Namespace]))
    old, new = _plain(settings.get("args")), _plain(settings.get("cfg"))  # before fairseq 0.10.2, and since
    given, task = (old, old) if old else (_plain(new.get("model")), _plain(new.get("task")))
    state = settings.get("model")
    if not given or not isinstance(state, dict):
        raise UserError(f"{file}: is not a checkpoint of fairseq, which has `model` and either `args` or `cfg`")
    architecture = given.get("arch", given.get("_name"))
    if architecture not in _ARCHITECTURES:
        raise UserError(f"{file}: architecture {str(architecture)[:80]}: cannot be imported; only fconv can")
    languages = task.get("source_lang", given.get("source_lang")), task.get("target_lang", given.get("target_lang"))
    for language in languages:
        if not isinstance(language, str) or not re.fullmatch(r"\w[\w.-]*", language):
            raise UserError(f"{file}: language {str(language)[:80]!r}: expected a code such as en in the options")
    options = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
    return options, (str(languages[0]), str(languages[1])), state


def _plain(value: object) -> dict[str, Any]:
    """The values of a dictionary or Namespace; {} for any other object."""
    if isinstance(value, argparse.Namespace):
        return vars(value)
    return value if isinstance(value, dict) else {}


def _listed(file: Path, name: str, text: str) -> list[Any]:
    """The value of a list expression such as ``[(512, 3)] * 9 + [(1024, 3)] * 4``, for which fairseq uses eval."""
    found = list[Any]()
    try:
        for term in text[:10_000].split("+"):
            items, _, times = term.partition("*")
            found += ast.literal_eval(items.strip()) * min(int(times or 1), _LAYERS)
            if len(found) > _LAYERS:
                raise ValueError
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise UserError(f"{file}: {name} {text[:80]!r}: expected lists, joined by + and repeated by *") from None
    return found


def _layers(file: Path, name: str, text: str) -> Layers:
    """The layers that an option lists. Raises UserError for layers that ConvS2S does not have."""
    layers = _listed(file, name, text)
    if not layers:
        raise UserError(f"{file}: {name}: expected a list of (width, kernel)")
    for layer in layers:
        sizes = isinstance(layer, tuple) and len(layer) in (2, 3) and all(type(n) is int and n > 0 for n in layer[:2])
        if not sizes:
            raise UserError(f"{file}: {name}: {str(layer)[:80]}: expected (width, kernel)")
        if layer[2:] not in ((), (1,)):
            raise UserError(f"{file}: {name}: {layer}: residual {layer[2]}: cannot be imported; only 1 can")
        if layer[1] % 2 == 0:
            raise UserError(f"{file}: {name}: {layer}: an even kernel cannot be imported")
    return [layer[:2] for layer in layers]


def _stacks(file: Path, options: Mapping[str, Any]) -> tuple[Layers, Layers]:
    """The layers of encoder and decoder. Raises UserError for models that are not ConvS2S."""
    encoder, decoder = (_layers(file, name, str(options[name])) for name in ("encoder_layers", "decoder_layers"))
    if decoder[0][0] != encoder[0][0]:
        raise UserError(
            f"{file}: decoder_layers {str(options['decoder_layers'])[:80]}: cannot be imported; the "
            f"first layer must have the encoder's width, {encoder[0][0]}"
        )
    attention = str(options["decoder_attention"])
    if attention != "True" and _listed(file, "decoder_attention", attention) != [True] * len(decoder):
        raise UserError(f"{file}: decoder_attention {attention[:80]}: cannot be imported; only True can")
    given = Options(f"{file}:", options)
    given.require("decoder_embed_dim", options["encoder_embed_dim"])
    given.require("share_input_output_embed", True, False)
    return encoder, decoder


def _stages(stack: Layers) -> list[dict[str, Any]]:
    """The stages of a stack of layers, as plain values for a Config."""
    return [
        {"layers": len(list(layers)), "times": width / stack[0][0], "kernel": kernel}
        for (width, kernel), layers in groupby(stack)
    ]


def _words(path: Path, side: str) -> Words:
    """The vocabulary of a dictionary. Words that a later line with ``#fairseq:overwrite`` repeats are unused."""
    if not path.is_file():
        raise UserError(f"{path}: not found; fairseq writes it with the training data; copy it there")
    ids: dict[str, int] = {}
    counts = [0] * len(_SYMBOLS)
    for number, line in enumerate(read_lines(path), 1):
        found = re.fullmatch(r"(.*) (-?[0-9]{1,18})( #fairseq:overwrite)?\s*", line)
        if not found:
            raise UserError(f"{path}:{number}: expected a word and a count, found {line[:80]!r}")
        if found[1] in ids and not found[3]:
            raise UserError(f"{path}:{number}: duplicate word {found[1]!r}; remove one of the lines")
        ids[found[1]] = len(counts)
        counts.append(max(0, int(found[2])))
    words = {id: word for word, id in ids.items()}
    return with_symbols(path, side, _SYMBOLS, [words.get(id, "") for id in range(len(_SYMBOLS), len(counts))], counts)


class Weights(Tensors):
    """The tensors of a checkpoint."""

    def linear(self, ours: str, theirs: str, rows: int, columns: int) -> None:
        """A weight-normalised map from ``rows`` to ``columns`` features."""
        self.found[f"{ours}.v"] = self.take(f"{theirs}.weight_v", columns, rows)
        self.found[f"{ours}.g"] = self.take(f"{theirs}.weight_g", columns, 1)[:, 0]
        self.found[f"{ours}.bias"] = self.take(f"{theirs}.bias", columns)

    def matrix(self, ours: str, weight: Tensor, bias: Tensor) -> None:
        """A map without weight normalisation, W (E, D). A row of zeros has length 0 and an arbitrary direction."""
        length = weight.norm(dim=1)
        self.found[f"{ours}.v"] = torch.where((length == 0)[:, None], torch.ones_like(weight), weight)
        self.found[f"{ours}.g"], self.found[f"{ours}.bias"] = length, bias

    def conv(self, ours: str, theirs: str, rows: int, columns: int, kernel: int, *, old: bool) -> None:
        """A convolution (k, D, E). In ``old`` decoders, g has a length for each of k matrices, else for each output."""
        v = self.take(f"{theirs}.weight_v", kernel, rows, columns)
        g = self.take(f"{theirs}.weight_g", *((kernel, 1, 1) if old else (1, 1, columns)))
        bias = self.take(f"{theirs}.bias", columns)
        if old:
            v = v * (g / v.flatten(1).norm(dim=1)[:, None, None])
        weight = v.permute(2, 0, 1).reshape(columns, kernel * rows)
        self.matrix(f"{ours}.product", weight, bias)
        if not old:
            self.found[f"{ours}.product.g"] = g.flatten()

    def model(
        self, options: Mapping[str, Any], stacks: tuple[Layers, Layers], src: Words, tgt: Words
    ) -> dict[str, Any]:
        """The Config of models/densenmt.py as plain values; finds the parameters. Raises UserError if one is bad."""
        e, out, width = options["encoder_embed_dim"], options["decoder_out_embed_dim"], stacks[0][0][0]
        version = self.left.pop("decoder.version", torch.ones(1)).flatten()
        old = len(version) == 0 or version[0].item() < 2
        positions, tops = [], []
        for side, words, stack in (("encoder", src, stacks[0]), ("decoder", tgt, stacks[1])):
            table = self.left.get(f"{side}.embed_tokens.weight")
            if table is not None and len(table) != len(words):
                raise UserError(
                    f"{words.path}: has {len(words):,} words with the four symbols, but {self.path} has "
                    f"{len(table):,}; copy the model's own there"
                )
            tokens = words.table(self.take(f"{side}.embed_tokens.weight", len(words), e))
            self.found[f"embedding.{'src' if side == 'encoder' else 'tgt'}.weight"] = tokens
            place = self.left.get(f"{side}.embed_positions.weight", torch.empty(0))
            # The first two rows are unused: positions start after the id of <pad>.
            self.found[f"{side}.input.position.weight"] = self.take(f"{side}.embed_positions.weight", len(place), e)[2:]
            positions.append(len(place) - 2)
            self.linear(f"{side}.first", f"{side}.fc1", e, width)
            rows = width
            for k, (columns, kernel) in enumerate(stack):
                self.conv(f"{side}.convs.{k}", f"{side}.convolutions.{k}", rows, 2 * columns, kernel,
                          old=old and side == "decoder")  # fmt: skip
                if rows != columns:
                    self.linear(f"{side}.residuals.{k}", f"{side}.projections.{k}", rows, columns)
                if side == "decoder":
                    for name, theirs, sizes in (("query", "in", (columns, e)), ("output", "out", (e, columns))):
                        self.linear(f"decoder.attentions.{k}.{name}", f"decoder.attention.{k}.{theirs}_projection",
                                    *sizes)  # fmt: skip
                rows = columns
            tops.append(rows)
        if positions[0] != positions[1]:
            raise UserError(
                f"{self.path}: max_target_positions {positions[1]}: cannot be imported; only "
                f"max_source_positions, {positions[0]}, can"
            )
        self.linear("encoder.keys.0", "encoder.fc2", tops[0], e)
        self.linear("decoder.last", "decoder.fc2", tops[1], out)
        count = len(tgt)
        if options["share_input_output_embed"]:
            self.matrix("output", self.take("decoder.fc3.weight", count, out), self.take("decoder.fc3.bias", count))
        else:
            self.linear("output", "decoder.fc3", out, count)
        for name in ("v", "g", "bias"):
            self.found[f"output.{name}"] = tgt.table(self.found[f"output.{name}"])
        self.check_all_used()
        return {
            "embedding": e, "attention": e, "output": out, "width": width, "growth": width,
            "stages": _stages(stacks[0]), "decoder_stages": None if stacks[0] == stacks[1] else _stages(stacks[1]),
            "summary": None, "dense_encoder": False, "dense_decoder": False, "dense_attention": 1,
            "positions": positions[0], "dropout": options["dropout"],
        }  # fmt: skip


def _text(folder: Path, languages: tuple[str, str]) -> tuple[Prep, dict[str, bytes], list[str]]:
    """The settings and files for text processing, and notes on them."""
    codes = folder / "bpecodes"
    subwords = codes.is_file()
    if subwords:
        Segmenter.load(codes)  # raises UserError for other files
        notes = ["tokenisation: Moses' with aggressive hyphens", "segmentation: BPE, bpecodes for both sides"]
    else:
        notes = ["segmentation: none, because there is no bpecodes; the input must be tokens"]
    src, tgt = (
        Side(language, normalize=False, tokenizer="moses" if subwords else "none", aggressive_hyphens=subwords,
             escape=subwords, segmentation="bpe" if subwords else "words")
        for language in languages
    )  # fmt: skip
    return Prep(src, tgt, joint=True), {f"bpe.{side}": codes.read_bytes() for side in SIDES if subwords}, notes
