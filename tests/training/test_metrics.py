"""The history of a run, whose last line may be incomplete after a kill."""

from pathlib import Path

from nmtkit.folders import ModelFolder
from nmtkit.training.metrics import log_metrics, rewind_metrics
from nmtkit.training.progress import Progress


def test_an_incomplete_record_is_dropped_and_not_joined_with_another(tmp_path: Path) -> None:
    run = ModelFolder(tmp_path)
    for update in (1, 2):
        log_metrics(run, {"kind": "epoch", "update": update})
    whole = run.metrics.read_text()
    run.metrics.write_text(whole[:-1])
    rewind_metrics(run, Progress(update=2))
    log_metrics(run, {"kind": "epoch", "update": 2})
    assert run.metrics.read_text() == whole
