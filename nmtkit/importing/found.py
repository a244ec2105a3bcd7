"""The result of reading another toolkit's model, and what several readers need to make it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.schema import Experiment
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
