"""The model of another toolkit, as read, and helpers of several readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import normpath
from pathlib import Path
from typing import Any

from torch import Tensor

from nmtkit.config import merge
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.importing.tensors import Tensors
from nmtkit.importing.words import Words
from nmtkit.text.settings import Prep, Side


@dataclass(frozen=True)
class Found:
    """A model of another toolkit in nmtkit's terms."""

    toolkit: str  # "Nematus", "fairseq", "Marian v1.12.43"
    notes: tuple[str, ...]  # lines for the user
    experiment: Experiment  # experiment.build(len(src), len(tgt)) is the model
    parameters: dict[str, Tensor]  # float32, by the names of that model's state_dict
    src: Vocabulary  # nmtkit's: four symbols first; embedding rows are in this order
    tgt: Vocabulary
    prep: Prep  # the settings of preprocessing
    files: Mapping[str, bytes]  # further files of the model folder: bpe.src, sentencepiece.tgt

    def between(self, src: str | None, tgt: str | None) -> "Found":
        """The same model between these languages; None: the language that was found."""

        def named(side: Side, language: str | None) -> Side:
            return replace(side, language=language or side.language)

        prep = replace(self.prep, src=named(self.prep.src, src), tgt=named(self.prep.tgt, tgt))
        return replace(self, prep=prep)


LARGEST = 1_000_000  # number in the options of a model


class Options:
    """The options of a model, not all of which can be imported. Messages begin with ``where``."""

    def __init__(self, where: str, values: Mapping[str, Any]):
        self.where, self.values = where, values

    def place(self, name: str) -> str:
        """The place of an option, with which messages begin."""
        return f"{self.where} {name}"

    def require(self, name: str, *values: Any, default: Any = None) -> Any:
        """The value of an option, or ``default``. Raises UserError unless it is one of ``values``."""
        value = self.values.get(name, default)
        # 1 is not True, although they are equal.
        plain = isinstance(value, bool | int | float | str | list | dict | None)  # a tensor cannot be compared
        if not plain or not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in values):
            only = " or ".join(map(repr, values))
            raise UserError(f"{self.place(name)}: {repr(value)[:80]} cannot be imported, only {only}")
        return value

    def number(self, name: str, default: float) -> float:
        """The numeric value of an option, or ``default``. Raises UserError for other values."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:  # nor nan
            raise UserError(f"{self.place(name)}: {repr(value)[:80]} is not a number up to {LARGEST:,}")
        return value

    def size(self, name: str) -> int:
        """The value of an option, an integer of at least 1. Raises UserError for other values."""
        value = self.values.get(name)
        if type(value) is not int or not 1 <= value <= LARGEST:
            raise UserError(f"{self.place(name)}: {repr(value)[:80]} is not a number from 1 to {LARGEST:,}")
        return value

    def not_applied(self, neutral: Mapping[str, Any]) -> list[str]:
        """A line for each of these settings, which nmtkit lacks, unless its value has no effect."""
        return [
            f"{self.place(name)}: {str(value)[:80]} is not applied"
            for name, usual in neutral.items()
            if (value := self.values.get(name, usual)) and value != usual
        ]


def found(
    toolkit: str, preset: str, model: Mapping[str, Any], search: Mapping[str, Any], where: tuple[Path, Path],
    weights: Tensors, src: Words, tgt: Words, text: tuple[Prep, Mapping[str, bytes], Sequence[str]],
    notes: Sequence[str],
) -> Found:  # fmt: skip
    """The model whose parameters were found in ``weights``: training settings are those of the family's preset.

    model, search: the toolkit's settings as plain values. text: settings, files and notes of text processing. notes:
    others. Raises UserError for invalid values of the model or of search, beginning with their file in ``where``.
    """
    prep, files, of_text = text
    title = f"{weights.path.name} of {toolkit}"
    values = {
        "paper": {"title": title, "section": "-", "task": "-", "score": None, "parameters": None},
        "data": {"segmentation": prep.src.segmentation, "src_vocab": len(src), "tgt_vocab": len(tgt)},
    }
    without_search = merge(load_preset(preset), values) | {"model": model}
    of_model, of_search = map(str, where)
    build_experiment(without_search, of_model)
    return Found(
        toolkit,
        (*of_text, *dict.fromkeys((*src.notes, *tgt.notes)), *notes),
        build_experiment(merge(without_search, {"search": search}), of_search),
        weights.found,
        src.vocabulary,
        tgt.vocabulary,
        prep,
        files,
    )


def only(files: Sequence[Path], path: Path, kind: str) -> Path:
    """The only one of ``files``, found at ``path``. Raises UserError if there are several."""
    if len(files) > 1:
        raise UserError(f"{path}: has several {kind}, {', '.join(file.name for file in files)}; name the file of one")
    return files[0]


def beside(path: Path, listed: Sequence[object], place: str) -> list[Path]:
    """The files of a list in the options of a model, which are looked up by name in the folder of ``path``.

    Raises UserError, beginning with ``place``, if they are different files of the same name.
    """
    files = [path.parent / Path(str(file)).name for file in listed]
    if len(set(files)) < len({normpath(str(file)) for file in listed}):
        names = " and ".join(str(file)[:80] for file in listed)
        raise UserError(f"{place}: {names} have the same name; rename one, in the options and in {path.parent}")
    return files
