"""The size of a model, and warnings about an experiment that does not suit its data or the machine."""

from math import ceil
from pathlib import Path

import torch

from nmtkit.data.corpus import Encoded, read_header
from nmtkit.data.doctor import Finding
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import counted
from nmtkit.experiment.schema import Experiment
from nmtkit.folders import SIDES, TextFiles
from nmtkit.machine.memory import free_memory
from nmtkit.models.base import count_parameters
from nmtkit.training import optimizers
from nmtkit.training.settings import Training

# On Multi30k, small versions reach 26 to 32 of 37 BLEU in 1,100 updates (three epochs), and 8 to 22 in 360.
FEW_UPDATES = 1000
# Per target word. Small versions have 20 on Multi30k, full-size systems less than 10 on their papers' corpora.
MANY_PARAMETERS = 100


def vocabulary_sizes(experiment: Experiment, folder: Path) -> tuple[int, int]:
    """The sizes of the vocabularies of a data folder or model folder, or the paper's if it has none yet."""
    source, target = map(TextFiles(folder).vocabulary, SIDES)
    return (len(Vocabulary.load(source)), len(Vocabulary.load(target))) if source.exists() else experiment.data.words


def parameters_by_part(experiment: Experiment, src_words: int, tgt_words: int) -> dict[str, int]:
    """The number of parameters of each part of the model, and "total"; tied parameters count once.

    Raises UserError for ``training.groups`` that the model does not have.
    """
    model = experiment.empty(src_words, tgt_words)
    optimizers.check_groups(model, experiment.training.groups)
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
    what = f"{name} needs {needed / 2**30:.1f} GiB before the first batch, but only {free / 2**30:.1f} GiB are free"
    return [Finding(data, what, fatal=True)]


def examine_plan(experiment: Experiment, data: Path) -> list[str]:
    """Warnings about an experiment that is unlikely to work with a data folder.

    Raises UserError for a folder whose text is not encoded.
    """
    header = read_header(data)
    src, tgt = header["train.src"], header["train.tgt"]
    findings = []
    updates = planned_updates(experiment.training, src, tgt)
    if updates is not None and updates < FEW_UPDATES:
        limit = "max_updates" if updates == experiment.training.max_updates else "max_epochs"
        findings.append(
            f"training.{limit} allows only {counted(updates, 'update')}; fewer than {FEW_UPDATES:,} are rarely enough"
        )
    words = tgt.tokens + tgt.lines  # EOS included
    parameters = parameters_by_part(experiment, *vocabulary_sizes(experiment, data))["total"]
    share = parameters / max(1, words)
    if share > MANY_PARAMETERS:
        findings.append(
            f"{parameters / 1e6:.1f} M parameters for {words:,} target words, {share:,.0f} per word; "
            f"with more than {MANY_PARAMETERS}, models overfit"
        )
    return findings


def planned_updates(training: Training, src: Encoded, tgt: Encoded) -> int | None:
    """The maximum number of updates of a run on this training text; None if only early stopping ends it.

    With batch sizes in tokens it is a lower bound, because batches are not always full.
    """
    per_epoch, added = None, training.concatenations
    pairs, tokens = (1 + added) * tgt.lines, (1 + 2 * added) * max(src.tokens, tgt.tokens)
    if training.batch_sentences is not None:
        per_epoch = ceil(pairs / training.batch_sentences)
    elif isinstance(training.batch_tokens, int):
        per_epoch = ceil((tokens + pairs) / training.batch_tokens)
    return training.most_updates(per_epoch, 0, 0)
