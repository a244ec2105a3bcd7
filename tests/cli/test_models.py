import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.config import dump_yaml
from nmtkit.experiment.presets import load_preset, preset_names

Run = Callable[..., Any]  # the command line of tests/conftest.py


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which one system was trained, and in which somebody else's settings lie."""
    monkeypatch.chdir(tmp_path)
    for name, content in {"mine": dump_yaml(load_preset("rnnsearch")), "other": "- 1\n", "third": "paper: x\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(content)
    return tmp_path


def test_every_preset_stands_beside_its_paper(nmtkit: Run) -> None:
    rows = {row["preset"]: row for row in json.loads(nmtkit("models", "--json").out)}
    assert list(rows) == preset_names()
    dtmt = rows["dtmt1"]
    assert dtmt["architecture"] == "dtmt"
    assert dtmt["score"] == 44.41
    assert dtmt["parameters_ours"] == pytest.approx(dtmt["parameters_paper"], abs=0.05)
    assert rows["rnnsearch"]["trained_here"] == ["mine"]
    assert dtmt["trained_here"] == []

    lines = nmtkit("models").out.splitlines()
    [line] = [line for line in lines if line.startswith("dtmt1 ")]
    assert line.split()[:5] == ["dtmt1", "dtmt", "44.41", "170.5", "170.5"]
    [line] = [line for line in lines if line.startswith("rnnsearch ")]
    assert line.endswith(" mine")
