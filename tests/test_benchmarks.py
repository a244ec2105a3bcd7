"""The script for a GPU does all of its stages on a processor, so that nothing of it is first seen on a card; that of
quality has a figure for every model, precision and stopping rule.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "recipes" / "benchmarks"
SCRIPT = BENCHMARKS / "gpu.py"
MODEL = Path(__file__).parent / "training" / "made_by_0.1" / "run"
STAGES = ["machine", "train", "profile", "search", "recurrences", "memory", "repeat", "laws"]


def measured(out: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Status, results and report of the script at its smallest, on the processor."""
    environment = {**os.environ, "SCALE": "tiny", "DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, SCRIPT, "--out", out, *arguments], env=environment, capture_output=True)
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    return done.returncode, results, (out / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "begins"),
    [
        ("neighbours.py", "Training speed by number of threads"),
        ("peers.py", "Timing of toolkits, each in a separate process"),
    ],
)
def test_a_script_that_passes_its_options_on_has_help_of_its_own(script: str, begins: str) -> None:
    command, environment = [sys.executable, BENCHMARKS / script, "--help"], dict(os.environ)
    del environment["OMP_NUM_THREADS"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(begins)


@pytest.mark.slow
def test_all_stages_run_on_a_processor(tmp_path: Path) -> None:
    status, results, report = measured(tmp_path)
    assert [record for record in results if "failed" in record] == []
    assert status == 0
    assert list(dict.fromkeys(record["stage"] for record in results)) == STAGES
    for column in ("target words/s", "launches", "sentences/s", "recurrence", "tokens | GiB", "same bits"):
        assert column in report
    assert "passed: `test_the_best_number_format_is_chosen`" in report


@pytest.mark.slow
def test_a_failing_system_does_not_stop_the_others_and_is_named(tmp_path: Path) -> None:
    status, results, report = measured(tmp_path, "search", "--systems", "no-such", "rnnsearch")
    assert status == 1
    failed, *others = results
    assert failed["system"] == "no-such-small"
    assert "no-such" in failed["failed"]
    assert [record["sentences"] for record in others] == [1, 2]
    assert all(record["sentences_per_second"] > 0 for record in others)
    assert "What failed:" in report
    assert "| `rnnsearch-small` | 2 |" in report


@pytest.mark.slow
def test_a_stage_without_time_left_is_named_and_earlier_results_are_kept(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"stage": "recurrences", "markdown": "earlier"}\n')
    status, results, report = measured(tmp_path, "machine", "train", "--minutes", "0")
    assert status == 1
    assert [record["failed"] for record in results[1:]] == ["not done in 0 s"] * 2
    assert "earlier" in report


@pytest.mark.slow
def test_quality_has_a_line_for_every_precision_and_rule_and_a_picture(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c\n\nb\n")
    command = [
        sys.executable, BENCHMARKS / "quality.py", MODEL, "--text", tmp_path / "text", "--reference", tmp_path / "text",
        "--precision", "float32", "int8", "--stop", "all", "first", "--rounds", "1", "--picture", tmp_path / "q.svg",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cells = [line.split(" | ")[1:3] for line in done.stdout.splitlines()[2:]]
    assert cells == [[precision, stop] for precision in ("float32", "int8") for stop in ("all", "first")]
    assert "BLEU" in (tmp_path / "q.svg").read_text()
