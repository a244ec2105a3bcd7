"""The messages of a run before it begins."""

import logging
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
