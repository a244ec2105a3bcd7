"""Loading the model of a model folder."""

import logging
from pathlib import Path

import torch

from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment.schema import Experiment, load_experiment
from nmtkit.folders import SIDES, ModelFolder, TextFiles
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.training import checkpoint

log = logging.getLogger(__name__)


def load_model(path: Path, device: torch.device) -> tuple[Seq2Seq, Experiment]:
    """The model at ``path``, a model folder (its best checkpoint) or a checkpoint folder, in evaluation mode.

    Also returns its experiment.
    """
    folder = ModelFolder.at(path)
    weights = folder.chosen_weights()
    experiment = load_experiment(folder)
    src_words, tgt_words = (len(Vocabulary.load(folder.text.vocabulary(side))) for side in SIDES)
    model = experiment.empty(src_words, tgt_words, "cpu")
    checkpoint.load_into(model, weights)
    log.debug("%s: %s, %.1f M parameters", weights, experiment.architecture, count_parameters(model) / 1e6)
    return model.to(device).eval(), experiment


def check_vocabularies(folder: ModelFolder, data: Path) -> None:
    """Raise UserError if the vocabularies of a data folder, and therefore its ids, are not those of a model."""
    for side in SIDES:
        own, of_data = (Vocabulary.load(text.vocabulary(side)) for text in (folder.text, TextFiles(data)))
        if own.words != of_data.words:
            raise UserError(f"{data}: its vocabularies are not those of {folder}; give the model's `data` folder")
