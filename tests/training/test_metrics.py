"""The history of a run, whose last line may be incomplete after a kill."""

import math
from pathlib import Path

from nmtkit.folders import ModelFolder
from nmtkit.training.metrics import log_metrics, rewind_metrics, train_record, validation_record
from nmtkit.training.progress import Progress, Window
from nmtkit.training.validation import Validation


def test_an_incomplete_record_is_dropped_and_not_joined_with_another(tmp_path: Path) -> None:
    run = ModelFolder(tmp_path)
    for update in (1, 2):
        log_metrics(run, {"kind": "epoch", "update": update})
    whole = run.metrics.read_text()
    run.metrics.write_text(whole[:-1])
    rewind_metrics(run, Progress(update=2))
    log_metrics(run, {"kind": "epoch", "update": 2})
    assert run.metrics.read_text() == whole


def test_a_run_that_diverges_has_a_perplexity() -> None:
    diverged = Validation(1e5, 1.0, 0.0, 0.0, 1.0)
    assert math.isfinite(validation_record(Progress(update=2), diverged, 1.0)["perplexity"])


def test_the_learning_rate_is_recorded_because_it_may_change_when_a_run_is_resumed() -> None:
    record = train_record(Progress(update=2, window=Window(tokens=1, seconds=1.0, updates=1)), 0.5, 3e-3)
    assert (record["lr_factor"], record["lr"]) == (0.5, 1.5e-3)
