"""The result of reading another toolkit's model, and what several readers need to make it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nmtkit.config import merge
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.symbols import SPELLINGS
from nmtkit.text.settings import Prep


@dataclass(frozen=True)
class Found:
    """A model of another toolkit in nmtkit's terms."""

    toolkit: str  # "Nematus", "fairseq", "Marian v1.12.43"
    notes: tuple[str, ...]  # what else was found, a line each: segmentation, what differs
    experiment: Experiment  # experiment.build(len(src), len(tgt)) is the model
    parameters: dict[str, Tensor]  # float32, by the names of that model's state_dict
    src: Vocabulary  # nmtkit's: four symbols first; embedding rows are in this order
    tgt: Vocabulary
    prep: Prep  # how raw text becomes tokens
    files: Mapping[str, bytes]  # further files of the model folder: bpe.src, sentencepiece.tgt


NEVER = -1e4  # the bias of a symbol that the toolkit lacks: its probability is 0, and label smoothing stays finite


class Options:
    """The options of a model, some of whose values cannot be imported."""

    def __init__(self, where: str, values: Mapping[str, Any]):
        self.where, self.values = where, values  # where: what stands before an option's name in a message

    def require(self, name: str, *values: Any, default: Any = None) -> Any:
        """The value of an option, which must be one of these; ``default`` in a file that lacks it."""
        value = self.values.get(name, default)
        if value not in values:
            only = " or ".join(map(repr, values))
            raise UserError(f"{self.where} {name}: {repr(value)[:80]} cannot be imported, only {only}")
        return value

    def number(self, name: str, default: float) -> float:
        """The value of an option that is a number."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float):
            raise UserError(f"{self.where} {name}: {repr(value)[:80]} is not a number")
        return value

    def size(self, name: str) -> int:
        """The value of an option that is a count."""
        value = self.values.get(name)
        if type(value) is not int or value < 1:
            raise UserError(f"{self.where} {name}: {repr(value)[:80]} is not a number of at least 1")
        return value


def experiment(
    title: str, preset: str, model: Mapping[str, Any], prep: Prep, words: tuple[int, int], search: Mapping[str, Any],
    where: str,
) -> Experiment:  # fmt: skip
    """The experiment of an imported model: training as in the preset of its family, search as in its toolkit.

    words: the sizes of both vocabularies. Raises UserError, beginning with ``where``, for invalid values.
    """
    values = {
        "paper": {"title": title, "section": "-", "task": "-", "score": None, "parameters": None},
        "data": {"segmentation": prep.src.segmentation, "src_vocab": words[0], "tgt_vocab": words[1]},
        "search": search,
    }
    return build_experiment(merge(load_preset(preset), values) | {"model": model}, where)


def only(files: Sequence[Path], path: Path, kind: str) -> Path:
    """The file that was found at ``path``. Raises UserError naming the files if there are several of this kind."""
    if len(files) > 1:
        raise UserError(f"{path}: has several {kind}, {', '.join(file.name for file in files)}; name the file of one")
    return files[0]


def spelled(words: Sequence[str], first: int) -> tuple[list[str], list[str]]:
    """Words with the ids ``first`` and so on for nmtkit's vocabulary, and those of them that its text cannot have.

    The latter, which are empty, have white space or are spelled like a symbol, become <unused:ID>.
    """
    fine = [word.split() == [word] and word not in SPELLINGS for word in words]
    shown = [w if good else f"<unused:{id}>" for id, (w, good) in enumerate(zip(words, fine, strict=True), first)]
    return shown, [word for word, good in zip(words, fine, strict=True) if not good]


def unspelled_note(side: str, words: Sequence[str]) -> list[str]:
    """A line about the words of a side that nmtkit's text cannot have, if there are any."""
    examples = ", ".join(map(repr, words[:3]))
    return [f"{len(words):,} {side} words that cannot be in nmtkit's text keep their rows: {examples}"] if words else []
