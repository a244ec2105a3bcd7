"""What a run says before it begins."""

import logging
from pathlib import Path

import pytest

from nmtkit.errors import UserError
from nmtkit.kernels import library
from tests.training.conftest import make_data, trained


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "not compiled"])
def test_it_says_so_if_there_are_no_kernels_in_c(
    compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    helps = library.helps
    monkeypatch.setattr(library, "helps", lambda *tensors, dtypes=(): compiled and (not tensors or helps(*tensors)))
    with caplog.at_level(logging.INFO):
        trained(tmp_path / "run", make_data(tmp_path), max_updates=1)
    said = [record.getMessage() for record in caplog.records]
    line = f"no kernels in C, which train faster: {library.remedy()}"
    assert (line in said) is not compiled


def test_an_ensemble_is_not_trained_into(tmp_path: Path) -> None:
    (tmp_path / "ensemble" / "members").mkdir(parents=True)
    with pytest.raises(UserError, match="ensemble: is an ensemble; train into another folder"):
        trained(tmp_path / "ensemble", make_data(tmp_path), max_updates=1)
    assert [path.name for path in (tmp_path / "ensemble").rglob("*")] == ["members"]
