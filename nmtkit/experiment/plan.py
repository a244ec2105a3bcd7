"""A planned training compared with its text: what can hardly work is found before hours are spent on it."""

from math import ceil
from pathlib import Path

from nmtkit.data.corpus import Encoded, read_header
from nmtkit.experiment.schema import Experiment
from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes
from nmtkit.training.settings import Training

# After 1,100 updates on Multi30k (three passes) small forms have 26 to 32 of their 37 BLEU, after 360 from 8 to 22.
FEW_UPDATES = 1000
# The small forms have 20 there, full-size systems on their papers' corpora less than 10.
MANY_PARAMETERS = 100


def examine_plan(experiment: Experiment, data: Path) -> list[str]:
    """What in a plan can hardly work with the training text of a data folder, in a phrase each; empty for a sound one.

    Raises UserError for a folder whose text was not encoded.
    """
    header = read_header(data)
    src, tgt = header["train.src"], header["train.tgt"]
    findings = []
    updates = planned_updates(experiment.training, src, tgt)
    if updates is not None and updates < FEW_UPDATES:
        findings.append(f"{updates:,} updates in all, where fewer than {FEW_UPDATES:,} hardly teach anything")
    words = tgt.tokens + tgt.lines  # with end-of-sentence marks
    parameters = parameters_by_part(experiment, *vocabulary_sizes(experiment, data))["total"]
    share = parameters / max(1, words)
    if share > MANY_PARAMETERS:
        findings.append(
            f"{parameters / 1e6:.1f} M parameters for {words:,} target words, {share:,.0f} for each, "
            f"where more than {MANY_PARAMETERS} memorise them"
        )
    return findings


def planned_updates(training: Training, src: Encoded, tgt: Encoded) -> int | None:
    """The most updates that a run on this text makes; None where nothing but its progress ends it.

    src, tgt: both sides of the training text. Batches counted in tokens are taken as full, so that it may be more.
    """
    per_epoch = None
    if training.batch_sentences is not None:
        per_epoch = ceil(tgt.lines / training.batch_sentences)
    elif isinstance(training.batch_tokens, int):
        per_epoch = ceil((max(src.tokens, tgt.tokens) + tgt.lines) / training.batch_tokens)
    limits = [training.max_updates, training.max_epochs and per_epoch and training.max_epochs * per_epoch]
    return min((limit for limit in limits if limit), default=None)
