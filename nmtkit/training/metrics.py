"""The history of a run, ``metrics.jsonl``: a record for each epoch, each validation, and the updates before it.

``nmtkit report`` plots it. The meaning of a key never changes: a new figure gets a new key.
"""

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

from nmtkit.data.batches import Epoch
from nmtkit.folders import ModelFolder, read_text
from nmtkit.training.progress import Progress
from nmtkit.training.validation import Validation
from nmtkit.writing import report_write_errors, sync, write_file

RECORDS = logging.getLogger("nmtkit.records")  # handlers get every record as the message of a log record
RECORDS.propagate = False


def epoch_record(progress: Progress, epoch: Epoch) -> dict[str, Any]:
    """Figures of the batches of the epoch that just ended."""
    return _record("epoch", progress) | {"batches": len(epoch), "padding": round(epoch.padding, 4)}


def train_record(progress: Progress, rate: float, lr: float) -> dict[str, Any]:
    """Figures of training since the last validation; ``rate`` is the factor of the learning rates, such as ``lr``."""
    window = progress.window
    return _record("train", progress) | {
        "loss": window.loss,
        "gradient_norm": window.mean_norm,
        "gradient_norm_max": window.norm_max,
        "lr_factor": rate,
        "lr": rate * lr,
        "tokens": progress.tokens,
        "memory_halvings": progress.halvings,
        "tokens_per_second": round(window.speed, 1),
    }


def validation_record(progress: Progress, validation: Validation, seconds: float) -> dict[str, Any]:
    """The results of a validation, and its duration."""
    return _record("valid", progress) | {
        "cross_entropy": validation.cross_entropy,
        "perplexity": math.exp(min(validation.cross_entropy, 700.0)),  # a float overflows above
        "token_error_rate": validation.errors,
        "train_token_error_rate": validation.train_errors,
        "bleu": validation.bleu,
        "chrf2": validation.chrf2,
        "seconds": round(seconds, 1),
    }


def _record(kind: str, progress: Progress) -> dict[str, Any]:
    """The keys of every record."""
    return {"kind": kind, "update": progress.update, "epoch": progress.current_epoch}


def log_metrics(folder: ModelFolder, record: Mapping[str, Any]) -> None:
    """Append a record and pass it to the handlers of ``RECORDS``. Raises UserError if it cannot be written."""
    path = folder.metrics
    with report_write_errors(path):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        sync(path)  # before the checkpoint that relies on it
    RECORDS.info(record)


def rewind_metrics(folder: ModelFolder, progress: Progress) -> None:
    """Delete the records after the checkpoint with this progress, whose updates will be repeated.

    An interrupted validation will be repeated, too, so its records are also deleted.
    """
    again = () if progress.validated else ("train", "valid")  # at the update of the checkpoint itself
    lines = read_text(folder.metrics).splitlines(keepends=True)
    kept = []
    for line in lines:
        try:
            record = json.loads(line)
            made = record["update"] < progress.update or (
                record["update"] == progress.update and record["kind"] not in again
            )
            if line.endswith("\n") and made:
                kept.append(line)
        except (ValueError, RecursionError, TypeError, KeyError):
            continue  # a line cut off by a crash
    if len(kept) != len(lines):  # most runs stop at a checkpoint
        write_file(folder.metrics, "".join(kept))
