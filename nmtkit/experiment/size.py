"""The size of a model: parameters, and memory for training."""

from pathlib import Path

import torch

from nmtkit.data.doctor import Finding
from nmtkit.data.vocab import Vocabulary
from nmtkit.experiment.schema import Experiment
from nmtkit.folders import SIDES, TextFiles
from nmtkit.machine.memory import free_memory
from nmtkit.models.base import count_parameters


def vocabulary_sizes(experiment: Experiment, data: Path) -> tuple[int, int]:
    """The sizes of the vocabularies of the data folder, or the paper's if it has none yet."""
    source, target = map(TextFiles(data).vocabulary, SIDES)
    return (len(Vocabulary.load(source)), len(Vocabulary.load(target))) if source.exists() else experiment.data.words


def parameters_by_part(experiment: Experiment, src_words: int, tgt_words: int) -> dict[str, int]:
    """The number of parameters of each part of the model, and "total"; tied parameters count once."""
    with torch.device("meta"):
        model = experiment.build(src_words, tgt_words)
    parts = {
        "source embedding": model.embedding["src"],
        "encoder": model.encoder,
        "decoder": model.decoder,
        "target embedding": model.embedding["tgt"],
        "output layer": model.output,
        "total": model,
    }
    return {name: count_parameters(part) for name, part in parts.items()}


def examine_memory(experiment: Experiment, data: Path, name: str) -> list[Finding]:
    """A finding if weights, gradients and optimizer state exceed the free memory of the GPU or the machine.

    Activations, which training.pass_tokens limits, are not counted.
    """
    config = experiment.training.optimizer
    # Weights, gradients and each moment have the same size.
    moments = int(config.momentum > 0) if config.name in ("sgd", "nag") else 2
    needed = 4 * (2 + moments) * parameters_by_part(experiment, *vocabulary_sizes(experiment, data))["total"]
    free = free_memory(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    if needed < free:
        return []
    what = f"{name} needs {needed / 2**30:.1f} GiB before the first batch, and {free / 2**30:.1f} GiB are free here"
    return [Finding(data, what, fatal=True)]
