"""The messages of a run before it begins."""

import logging
import shutil
from pathlib import Path

import pytest

from nmtkit.errors import UserError
from nmtkit.kernels import door
from nmtkit.ops.plain import PLAIN
from tests.training.conftest import make_data, trained


def test_training_logs_which_kernels_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        trained(tmp_path / "run", make_data(tmp_path), max_updates=1)
    assert door.report(PLAIN, "cpu") in caplog.messages


def test_an_ensemble_is_not_trained_into(tmp_path: Path) -> None:
    (tmp_path / "ensemble" / "members").mkdir(parents=True)
    with pytest.raises(UserError, match="ensemble: is an ensemble; train into another folder"):
        trained(tmp_path / "ensemble", make_data(tmp_path), max_updates=1)
    assert [path.name for path in (tmp_path / "ensemble").rglob("*")] == ["members"]


def test_a_run_that_lost_its_checkpoints_does_not_begin_again(tmp_path: Path) -> None:
    data = make_data(tmp_path)
    trained(tmp_path / "run", data, max_updates=2)
    shutil.move(tmp_path / "run" / "checkpoints", tmp_path / "elsewhere")
    history = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"run/checkpoints: the checkpoints of .*run are gone; restore them, or train "):
        trained(tmp_path / "run", data, max_updates=2)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == history != b""
    shutil.move(tmp_path / "elsewhere", tmp_path / "run" / "checkpoints")
    trained(tmp_path / "run", data, max_updates=2)
