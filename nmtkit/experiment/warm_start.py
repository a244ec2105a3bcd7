"""A warm start: a new run begins with the weights of a model instead of random ones, to be fine-tuned, say.

Words keep their rows by their spelling, so that the vocabularies may differ; those that the model does not know keep
their initial values. The optimiser, the learning rate's schedule and the random numbers begin anew.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from nmtkit.config import flatten, to_dict
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.schema import Experiment, load_experiment
from nmtkit.folders import SIDES, ModelFolder, SideName, TextFiles, crc32
from nmtkit.lines import atomic_write, real_path
from nmtkit.models.base import Seq2Seq
from nmtkit.text.manifest import read_json
from nmtkit.text.settings import Side, load_prep
from nmtkit.training.checkpoint import load_weights

_NAMED = 5  # new words in the report

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """The checkpoint that a run began with: the content of origin.json."""

    model: str  # the path of its model folder
    update: int
    crc32: str  # of its weights
    taken: dict[SideName, int]  # words whose rows were taken, symbols included
    new: dict[SideName, int]  # words that the model does not know


class _Words(NamedTuple):
    """The words of a side, in a model and in the data folder that is trained on."""

    theirs: Vocabulary
    ours: Vocabulary
    here: list[int]  # rows of the words, symbols included, that both have ...
    there: list[int]  # ... and the same words' rows in the model
    new: list[str]  # words that the model does not have

    @classmethod
    def load(cls, start: ModelFolder, data: Path, side: SideName) -> "_Words":
        """The words of a side. Raises UserError if the model and the data folder have none in common."""
        theirs, ours = (Vocabulary.load(text.vocabulary(side)) for text in (start.text, TextFiles(data)))
        rows = {word: row for row, word in enumerate(theirs.words)}
        here = [row for row, word in enumerate(ours.words) if word in rows]
        if here[-1] < ours.symbols:
            raise UserError(
                f"`start` {start}: no word of its vocab.{side} is in {TextFiles(data).vocabulary(side)}; prepare the "
                "text as the model's (`like`)"
            )
        new = [word for word in ours.words if word not in rows]
        return cls(theirs, ours, here, [rows[ours.words[row]] for row in here], new)


def take_weights(model: Seq2Seq, experiment: Experiment, data: Path, start: ModelFolder) -> Origin:
    """Put the weights of ``start`` into a model that was built for the data folder ``data``, and log what was taken.

    Raises UserError for another architecture or other sizes, and for vocabularies that have no word in common.
    """
    path = start.chosen_weights()
    _check_same_model(load_experiment(start), experiment, start)
    words = {side: _Words.load(start, data, side) for side in SIDES}
    weights, sides = load_weights(path), sides_of_words(experiment)
    for name, tensor in model.state_dict().items():  # which share their memory with the model
        if name in sides:
            shared = words[sides[name]]
            tensor[shared.here] = weights[name][shared.there].to(tensor.device)
        else:
            tensor.copy_(weights[name])
    _log_taken(path.parent, words)
    for side in SIDES:
        if _preparation(start.path, side) != _preparation(data, side):
            log.warning(
                "%s.%s was prepared in another way than the text of %s: the same words may be split or spelled "
                "differently; nmtkit prep --like %s prepares it alike",
                data / "train", side, start.path, start.path,
            )  # fmt: skip
    return Origin(
        model=str(real_path(start.path)),
        update=int(path.parent.name.removeprefix("step-")),
        crc32=_sum_of(path),
        taken={side: len(words[side].here) for side in SIDES},
        new={side: len(words[side].new) for side in SIDES},
    )


def _sum_of(weights: Path) -> str:
    """The CRC-32 of a file of weights as origin.json has it."""
    return f"{crc32(weights):08x}"


def _check_same_model(theirs: Experiment, ours: Experiment, start: ModelFolder) -> None:
    """Raise UserError unless the two models compute the same; dropout is for training to choose."""
    there, here = (flatten({"architecture": e.architecture, "model": to_dict(e.model)}) for e in (theirs, ours))
    different = [
        f"{key} is {there.get(key)} there and {here.get(key)} here"
        for key in {**there, **here}
        if there.get(key) != here.get(key) and not key.endswith("dropout")
    ]
    if different:
        raise UserError(
            f"`start` {start}: another model: {'; '.join(different)}; leave out what changes it, or train from nothing"
        )


def sides_of_words(experiment: Experiment) -> dict[str, SideName]:
    """The parameters that have a row for each word, with the side whose words these are."""
    # Seen, not looked up by name: what grows with a vocabulary is of its words, in whatever architecture.
    with torch.device("meta"):
        few, source, target = (
            {name: tensor.shape for name, tensor in experiment.build(*words).state_dict().items()}
            for words in ((5, 5), (6, 5), (5, 6))
        )
    sides: dict[str, SideName] = {name: "src" for name in few if source[name] != few[name]}
    return sides | {name: "tgt" for name in few if target[name] != few[name]}


def _log_taken(checkpoint: Path, words: Mapping[SideName, _Words]) -> None:
    """Say whose weights they are, how many words have theirs, and which are new."""
    log.info("starting with the weights of %s", checkpoint)
    for side in SIDES:
        theirs, ours, here, _, new = words[side]
        names = f" ({', '.join(new[:_NAMED])}{', ...' if len(new) > _NAMED else ''})" if new else ""
        left = len(theirs) - len(here)
        log.info(f"vocab.{side}: {len(here):,} of {len(ours):,} words are the model's, {len(new):,} are new{names}; "
                 f"{left:,} of the model's are left out")  # fmt: skip


def _preparation(folder: Path, side: SideName) -> tuple[Side, list[bytes]]:
    """Everything that decides how a side's raw text becomes tokens."""
    prep, text = load_prep(folder), TextFiles(folder)
    learnt = [path.read_bytes() for path in text.learnt(side) if path.is_file()]
    return prep.src if side == "src" else prep.tgt, learnt


def write_origin(folder: ModelFolder, origin: Origin) -> None:
    """Keep in a run's folder what it began with."""
    with atomic_write(folder.origin) as file:
        file.write(json.dumps(asdict(origin), indent=1) + "\n")


def check_origin(folder: ModelFolder, start: ModelFolder) -> None:
    """Raise UserError unless the run in ``folder`` began with the model ``start``."""
    began = "with random weights"
    if folder.origin.exists():
        values = read_json(folder.origin, "copy it from a backup, or train anew")
        # By its place, where another checkpoint may be the best by now, or by its weights, wherever they are now.
        same_place = values.get("model") == str(real_path(start.path)) and start.update in (None, values.get("update"))
        if same_place or (start.path.is_dir() and values.get("crc32") == _sum_of(start.chosen_weights())):
            return
        began = f"with step {values.get('update')} of {values.get('model')}"
    raise UserError(f"{folder}: the run there began {began}; leave `start` out to go on, or train into another folder")
