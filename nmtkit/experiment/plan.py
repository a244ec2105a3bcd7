"""Warnings about an experiment that does not suit its data."""

from math import ceil
from pathlib import Path

from nmtkit.data.corpus import Encoded, read_header
from nmtkit.errors import counted
from nmtkit.experiment.schema import Experiment
from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes
from nmtkit.training.settings import Training

# On Multi30k, small versions reach 26 to 32 of 37 BLEU in 1,100 updates (three epochs), and 8 to 22 in 360.
FEW_UPDATES = 1000
# Per target word. Small versions have 20 on Multi30k, full-size systems less than 10 on their papers' corpora.
MANY_PARAMETERS = 100


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
            f"more than {MANY_PARAMETERS} overfit"
        )
    return findings


def planned_updates(training: Training, src: Encoded, tgt: Encoded) -> int | None:
    """The maximum number of updates of a run on this training text; None if only early stopping ends it.

    With batch sizes in tokens it is a lower bound, because batches are not always full.
    """
    per_epoch = None
    if training.batch_sentences is not None:
        per_epoch = ceil(tgt.lines / training.batch_sentences)
    elif isinstance(training.batch_tokens, int):
        per_epoch = ceil((max(src.tokens, tgt.tokens) + tgt.lines) / training.batch_tokens)
    limits = [training.max_updates, training.max_epochs and per_epoch and training.max_epochs * per_epoch]
    return min((limit for limit in limits if limit), default=None)
