import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.config import dump_yaml, parse_yaml
from nmtkit.experiment.presets import load_preset, preset_names

Run = Callable[..., Any]  # the command line of tests/conftest.py


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which one system was trained, with another user's settings."""
    monkeypatch.chdir(tmp_path)
    mine, small = (dump_yaml(load_preset(name)) for name in ("rnnsearch", "rnnsearch-small"))
    for name, content in {"mine": mine, "less": small, "other": "- 1\n", "third": "paper: x\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(content)
    return tmp_path


def test_every_preset_is_listed_under_its_paper(nmtkit: Run) -> None:
    rows = {row["preset"]: row for row in json.loads(nmtkit("models", "--json").out)}
    assert list(rows) == sorted(preset_names())
    dtmt = rows["dtmt1"]
    assert dtmt["architecture"] == "dtmt"
    assert dtmt["score"] == 44.41
    assert dtmt["parameters_ours"] == pytest.approx(dtmt["parameters_paper"], abs=0.05)
    assert rows["rnnsearch"]["trained_here"] == ["mine"]
    assert rows["rnnsearch"]["small_trained_here"] == ["less"]
    assert dtmt["trained_here"] == dtmt["small_trained_here"] == []


def test_the_list_has_a_line_for_each_preset_and_fits_a_terminal(nmtkit: Run) -> None:
    lines = nmtkit("models").out.splitlines()
    first_words = [line.split()[0] for line in lines if line]
    assert sorted(word for word in first_words if word in preset_names()) == sorted(preset_names())
    [line] = [line for line in lines if line.startswith("dtmt1 ")]
    assert line.split() == ["dtmt1", "44.41", "170.5", "Tables", "1,", "3", "and", "6", "-"]
    [line] = [line for line in lines if line.startswith("rnnsearch ")]
    assert line.endswith(" less (small), mine")
    assert max(map(len, lines)) <= 100


def test_a_preset_is_shown_in_full_as_a_configuration_for_train(nmtkit: Run, folder: Path) -> None:
    shown = nmtkit("models", "dtmt2").out
    assert parse_yaml(shown, "shown") == load_preset("dtmt2")
    assert "# (base: 4)" in shown
    assert shown.startswith("# dtmt2, from nmtkit/presets/dtmt.yaml; 183.14 M parameters, not stated in the paper\n")
    (folder / "mine.yaml").write_text(shown)
    assert nmtkit("train", "--config", "mine.yaml", "--dry-run").out == nmtkit("train", "-m", "dtmt2", "--dry-run").out


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ("bideep-small", "8.16 M parameters; 38.49 BLEU here, recipes/multi30k/README.md"),
        ("bideep-large-small", "12.52 M parameters; no BLEU measured here"),
    ],
)
def test_a_small_version_is_shown_with_its_measured_score(nmtkit: Run, preset: str, said: str) -> None:
    shown = nmtkit("models", preset).out
    assert shown.startswith(f"# {preset}, from nmtkit/presets/bideep.yaml; {said}\n")
    assert parse_yaml(shown, "shown") == load_preset(preset)
    assert "`nmtkit models NAME-small`" in nmtkit("models").out


def test_one_preset_for_scripts_is_a_list_of_one(nmtkit: Run) -> None:
    assert [row["preset"] for row in json.loads(nmtkit("models", "dtmt4", "--json").out)] == ["dtmt4"]


def test_an_unknown_preset_cannot_be_shown(nmtkit: Run) -> None:
    result = nmtkit("models", "dtmt5")
    assert result.status == 1
    assert "PRESET dtmt5: no such preset; did you mean " in result.err
