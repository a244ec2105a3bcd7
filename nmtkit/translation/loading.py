"""Loading model folders and ensembles as a Translator; writing an ensemble as one folder.

Folders that are damaged or cannot be combined are reported before the first line is read.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import torch

from nmtkit.align.lexicon import Lexicon
from nmtkit.config import build, dump_yaml, load_yaml, to_dict
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError, check_choice
from nmtkit.experiment.model import load_model
from nmtkit.folders import ModelFolder, TextFiles
from nmtkit.machine import memory
from nmtkit.ops.matrix import usable
from nmtkit.ops.precision import Precision, Products
from nmtkit.search.ensemble import Ensemble
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import Combine
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.settings import load_prep, preparation
from nmtkit.translation.translator import Source, Translator
from nmtkit.writing import real_path, write_file


@dataclass(frozen=True)
class Bundle:
    """The content of ensemble.yaml, which describes the models in members/."""

    members: tuple[str, ...]  # folder names
    combine: Combine
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("members: none; an ensemble has at least one")
        for name in self.members:
            if name == ".." or Path(name).name != name:  # a folder that was copied must not use others
                raise ValueError(f"members: {name!r} is not the name of a folder")
        if len(self.weights) != len(self.members):
            raise ValueError(f"weights: {len(self.weights)} of them for {len(self.members)} models")
        for weight in self.weights:
            if not 0 < weight < math.inf:
                raise ValueError(f"weights: {weight} is not a number above 0")


def load(
    folders: Path | str | Sequence[Path | str],
    device: str,
    combine: Combine | None = None,
    weights: Sequence[float] | None = None,
    precision: Precision = "auto",
    lexicon: Path | str | None = None,
    products: Products | None = None,
) -> Translator:
    """The translator in a model folder, in an ensemble's folder, or in several models; see ``nmtkit.load``.

    A checkpoint folder loads its model with these weights. products: the resolved ``precision``, if known.

    Raises UserError for models that cannot be loaded or combined, and for a device or precision that cannot be used.
    """
    paths = [Path(folders)] if isinstance(folders, Path | str) else list(map(Path, folders))
    # The device first, because it is quick to check.
    chosen, name = choose_device(device), ", ".join(map(str, paths))
    first = ModelFolder(paths[0])
    if len(paths) == 1 and first.bundle.exists():
        first.check_sums()
        bundle = build(Bundle, load_yaml(first.bundle), str(first.bundle))
        paths = [first.members / name for name in bundle.members]
        combine, weights = combine or bundle.combine, weights or list(bundle.weights)
    elif len(paths) == 1 and (combine or weights):  # these would have no effect
        raise UserError("`combine` and `weights` are for an ensemble; name several models")
    # The number of members of an ensemble folder is known only now.
    _check_combination(len(paths), combine, weights)
    products = products or usable(precision, chosen)
    # Members with the same preprocessing and vocabulary share a source, so that a line is tokenised only once.
    members, readers, reads = [], dict[object, Source](), []
    # Checkpoints of one model share its text files.
    texts = [TextFiles(ModelFolder.at(path).path) for path in paths]
    for path, text in zip(paths, texts, strict=True):
        members.append(load_model(path, chosen))
        if text is not texts[0]:
            check_target(texts[0].path, text.path)
        vocabulary = Vocabulary.load(text.vocabulary("src"))
        key = preparation(text.path, "src"), tuple(vocabulary.words)
        readers.setdefault(key, Source(TextPipeline.load(text.path, "src", known=vocabulary.known), vocabulary))
        reads.append(list(readers).index(key))
    models = [model for model, _ in members]
    searched = [model.for_search(products) for model in models]
    together = partial(_together, reads=reads, weights=weights or [1.0] * len(models), combine=combine or "prob")
    # Members have the same target vocabulary and postprocessing, so the text files of the first are used for all.
    text = texts[0]
    tgt_vocab = Vocabulary.load(text.vocabulary("tgt"))
    words = Path(lexicon) if lexicon is not None else text.lexicon if text.lexicon.is_file() else None
    return Translator(
        name,
        together(searched),
        together(models if precision in ("auto", "float32") else searched),
        sum(weight.nbytes for model in models for weight in model.parameters()),
        members[0][1].search,
        chosen,
        list(readers.values()),
        TextPipeline.load(text.path, "tgt", known=tgt_vocab.known),
        tgt_vocab,
        None if words is None else Lexicon.load(words),
    )


def _check_combination(models: int, combine: Combine | None, weights: Sequence[float] | None) -> None:
    """Raise UserError unless this number of models can be combined in this way."""
    check_choice("combine", combine, Combine)
    if weights and len(weights) != models:
        raise UserError(f"`weights`: {len(weights)} of them for {models} models; give one for each")
    for weight in weights or ():
        if not 0 < weight < math.inf:  # false for NaN, too
            raise UserError(f"`weights`: {weight:g} is not a number above 0")


def _together(scorers: Sequence[Scorer], reads: Sequence[int], weights: Sequence[float], combine: Combine) -> Scorer:
    """The ensemble of several members, with the arguments of ``Ensemble``; a single member unchanged."""
    return scorers[0] if len(scorers) == 1 else Ensemble(scorers, reads, weights, combine)


def write_ensemble(folders: Sequence[Path], output: Path, combine: Combine, weights: Sequence[float] | None) -> None:
    """Write a self-contained ensemble folder, which every command that translates accepts as a model folder.

    Raises UserError for fewer than two models, for models that cannot be combined, and for an output folder that is not
    empty.
    """
    if len(folders) < 2:
        raise UserError("an ensemble needs several models; name at least two")
    if output.exists() and any(output.iterdir()):
        raise UserError(f"{output}: already exists; choose another `output` folder, or remove it")
    # On the CPU, so that the check does not occupy a GPU.
    load(folders, "cpu", combine, weights, "float32")  # makes all checks of translation
    # Numbered, because runs in different folders may have the same name.
    names = [f"{i}-{real_path(folder).name}" for i, folder in enumerate(folders, 1)]
    with ModelFolder(output).replaced() as new:
        for folder, name in zip(folders, names, strict=True):
            ModelFolder.at(folder).copy_model(ModelFolder(new.members / name))
        bundle = Bundle(tuple(names), combine, tuple(weights or [1.0] * len(names)))
        write_file(new.bundle, dump_yaml(to_dict(bundle)))
        new.seal()


def check_target(first: Path, other: Path) -> None:
    """Raise UserError unless two models have the same target side, so that their probabilities can be combined."""
    ours, theirs = load_prep(first).tgt, load_prep(other).tgt
    if ours != theirs:
        name = next(field.name for field in fields(ours) if getattr(ours, field.name) != getattr(theirs, field.name))
        remedy = "train them on one data folder"
        if name == "language" and "und" in (ours.language, theirs.language):  # of an imported model
            remedy = "import again, with --tgt-lang, the one with und"
        are = f"{name} is {getattr(ours, name)} and {getattr(theirs, name)}"
        if name == "form":
            are = f"Unicode normal form is {ours.form or 'none'} and {theirs.form or 'none'}"
        raise UserError(f"{first} and {other} cannot be combined: their target {are}; {remedy}")
    a, b = (Vocabulary.load(TextFiles(folder).vocabulary("tgt")).words for folder in (first, other))
    for number, (word, another) in enumerate(itertools.zip_longest(a, b), 1):
        if word != another:
            raise UserError(
                f"{first} and {other} cannot be combined: line {number} of their vocab.tgt is "
                f"{'missing' if word is None else repr(word)} and {'missing' if another is None else repr(another)}; "
                "train them on one data folder"
            )


def choose_device(name: str) -> torch.device:
    """The device of this name, initialised; auto: a GPU if there is one.

    Raises UserError if it cannot be used.
    """
    memory.bound_caches()  # here, because every computation chooses its device first
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)  # any that PyTorch supports
    except RuntimeError:
        raise UserError(f"`device` {name}: not a device; use auto, cpu, cuda or cuda:1") from None
    try:
        # PyTorch reports some errors only when data is read back from the device.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"`device` {name}: cannot be used here ({reason}); auto and cpu always can") from None
    return device
