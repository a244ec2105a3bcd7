"""What a reader of another toolkit's models gives."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from nmtkit.data.vocab import Vocabulary
from nmtkit.experiment.schema import Experiment
from nmtkit.text.settings import Prep


@dataclass(frozen=True)
class Found:
    """A model of another toolkit as nmtkit holds it."""

    toolkit: str  # "Nematus", "fairseq", "Marian v1.12.43"
    notes: tuple[str, ...]  # what else was found, a line each: segmentation, what differs
    experiment: Experiment  # experiment.build(len(src), len(tgt)) is the model
    parameters: dict[str, Tensor]  # float32, by the names of that model's state_dict
    src: Vocabulary  # nmtkit's: four symbols first; embedding rows are in this order
    tgt: Vocabulary
    prep: Prep  # how raw text becomes tokens
    files: Mapping[str, bytes]  # further files of the model folder: bpe.src, sentencepiece.tgt
