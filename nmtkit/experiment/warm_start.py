"""Warm start: a new run is initialised with the weights of a model, for example for fine-tuning.

The vocabularies may differ: embeddings are matched by word, and new words keep their random initialisation. Optimizer
state, learning rate schedule and random numbers are new.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.plan import vocabulary_sizes
from nmtkit.experiment.schema import Experiment, differences, load_experiment
from nmtkit.folders import SIDES, ModelFolder, SideName, TextFiles, crc32
from nmtkit.models.base import Seq2Seq, is_dropout
from nmtkit.text.manifest import read_json
from nmtkit.text.settings import preparation
from nmtkit.training.checkpoint import load_into
from nmtkit.writing import real_path

_NAMED = 5  # new words listed in the log

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """The checkpoint that initialised a run: the content of origin.json."""

    model: str  # path of the model folder
    update: int
    crc32: str  # of the weights
    taken: dict[SideName, int]  # number of words whose weights were copied, symbols included
    new: dict[SideName, int]  # number of words that the model lacks


class _Words(NamedTuple):
    """The ids of the words shared with the initial model, in both vocabularies of a side, and the new words."""

    data_rows: list[int]  # symbols included
    model_rows: list[int]  # of the same words
    new: list[str]

    @classmethod
    def load(cls, start: ModelFolder, data: Path, side: SideName) -> "_Words":
        """Compare the vocabularies of a side, and log their overlap. Raises UserError if they have no common word."""
        old, new = (Vocabulary.load(text.vocabulary(side)) for text in (start.text, TextFiles(data)))
        rows = {word: row for row, word in enumerate(old.words)}
        common = [row for row, word in enumerate(new.words) if word in rows]
        if common[-1] < new.symbols:
            raise UserError(
                f"`start` {start}: no word of its vocab.{side} is in {TextFiles(data).vocabulary(side)}; prepare the "
                "text like the model's (`like`)"
            )
        added = [word for word in new.words if word not in rows]
        names = f" ({', '.join(added[:_NAMED])}{', ...' if len(added) > _NAMED else ''})" if added else ""
        log.info(f"vocab.{side}: {len(common):,} of {len(new):,} words are in the model, "
                 f"{len(added):,} are new{names}; {len(old) - len(common):,} are dropped")  # fmt: skip
        return cls(common, [rows[new.words[row]] for row in common], added)


def take_weights(model: Seq2Seq, experiment: Experiment, data: Path, start: ModelFolder) -> Origin:
    """Copy the weights of ``start`` into a model built for the data folder ``data``, and log the vocabulary overlap.

    Raises UserError if the architecture or sizes differ, if the weights are not those of its configuration, or if the
    vocabularies have no common word.
    """
    path = start.chosen_weights()
    _check_same_model(load_experiment(start), experiment, start)
    log.info("starting with the weights of %s", path.parent)
    words = {side: _Words.load(start, data, side) for side in SIDES}
    initial = experiment.empty(*vocabulary_sizes(experiment, start.path), device="cpu")
    load_into(initial, path)
    weights, sides = initial.state_dict(), sides_of_words(experiment)
    for name, tensor in model.state_dict().items():  # changes the model: the tensors share its memory
        if name in sides:
            vocabulary = words[sides[name]]
            tensor[vocabulary.data_rows] = weights[name][vocabulary.model_rows].to(tensor.device)
        else:
            tensor.copy_(weights[name])
    for side in SIDES:
        if preparation(start.path, side) != preparation(data, side):
            log.warning(
                "%s.%s and the text of %s were prepared with different settings: the same words may be segmented or "
                "spelled differently; use nmtkit prep --like %s",
                data / "train", side, start.path, start.path,
            )  # fmt: skip
    return Origin(
        model=str(real_path(start.path)),
        update=int(path.parent.name.removeprefix("step-")),
        crc32=f"{crc32(path):08x}",
        taken={side: len(words[side].data_rows) for side in SIDES},
        new={side: len(words[side].new) for side in SIDES},
    )


def _check_same_model(theirs: Experiment, ours: Experiment, start: ModelFolder) -> None:
    """Raise UserError unless the models have equal configurations, except dropout."""
    if theirs.architecture != ours.architecture:
        they = f"{theirs.architecture}, not {ours.architecture}"
        raise UserError(f"`start` {start}: another architecture: {they}; train it from scratch")
    different = [
        f"{key} is {old} there and {new} here"
        for key, old, new in differences(theirs, ours)
        if key.startswith("model.") and not is_dropout(key.rpartition(".")[2])
    ]
    if different:
        raise UserError(
            f"`start` {start}: another model: {'; '.join(different)}; use the same settings, or train from scratch"
        )


def sides_of_words(experiment: Experiment) -> dict[str, SideName]:
    """The parameters that have a row for each word of a vocabulary, with its side."""
    # In any architecture, these are the parameters whose shape depends on the size of a vocabulary.
    few, source, target = (
        {name: tensor.shape for name, tensor in experiment.empty(*words).state_dict().items()}
        for words in ((5, 5), (6, 5), (5, 6))
    )
    sides: dict[str, SideName] = {name: "src" for name in few if source[name] != few[name]}
    return sides | {name: "tgt" for name in few if target[name] != few[name]}


def check_origin(folder: ModelFolder, start: ModelFolder) -> None:
    """Raise UserError unless the run in ``folder`` was initialised with ``start``."""
    began = "with random weights"
    if folder.origin.exists():
        values = read_json(folder.origin, "restore it from a backup, or train again")
        # The same path (its best checkpoint may have changed since), or the same weights at any path.
        same_place = values.get("model") == str(real_path(start.path)) and start.update in (None, values.get("update"))
        if same_place or (start.named.is_dir() and values.get("crc32") == f"{crc32(start.chosen_weights()):08x}"):
            return
        began = f"with step {values.get('update')} of {values.get('model')}"
    raise UserError(f"{folder}: the run there began {began}; leave `start` out to resume it, or use another folder")
