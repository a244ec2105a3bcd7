"""The display of a run: plain lines without a terminal."""

import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nmtkit.training import display
from tests.training.conftest import trained


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def shown(total: int | None, clock: list[float], caplog: pytest.LogCaptureFixture, *, early: bool = False) -> list[str]:
    """After 10 updates in 30 seconds, the first of them number 51."""
    caplog.set_level(logging.INFO)
    with display.display(total, 50, early=early) as line:
        for update in range(51, 61):
            clock[0] += 3
            line.show(update, "loss 3.0")
    return caplog.messages


def test_a_plain_line_has_the_time_that_is_left(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    assert shown(1257, clock, caplog) == ["update 57/1257  loss 3.0  1:00:00 left"]


def test_a_plain_line_of_a_run_that_may_stop_early_has_the_longest_time(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    assert shown(1257, clock, caplog, early=True) == ["update 57/1257  loss 3.0  at most 1:00:00 left"]


@pytest.mark.parametrize("setting", [{"patience": 5}, {"min_lr": 1e-9, "schedule": {"kind": "plateau"}}, {}])
def test_a_run_with_a_stopping_criterion_may_stop_early(
    setting: dict[str, Any],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(display, "PLAIN_SECONDS", 0.0)
    trained(tmp_path, data, max_updates=3, **setting)
    left = [message for message in caplog.messages if message.endswith("left")]
    assert left
    assert all(("at most" in message) == bool(setting) for message in left)


def test_a_plain_line_without_a_known_total_has_no_time_left(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    assert shown(None, clock, caplog) == ["update 57  loss 3.0"]


def test_a_plain_line_before_the_first_update_has_no_time_left(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with display.display(1257, 50) as line:  # of a run stopped in a validation, which is then repeated
        clock[0] += display.PLAIN_SECONDS
        line.show(50, "dev 3.0")
    assert caplog.messages == ["update 50/1257  dev 3.0"]


def test_the_progress_line_has_the_last_validation_and_the_patience_left(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(display.Display, "show", lambda self, update, facts: said.append(facts.strip()))
    trained(tmp_path, data, max_updates=4, valid_every=2, patience=3)
    outcome = r"dev \d\.\d{3} BLEU \d+\.\d\d  best (?:BLEU|cross-entropy) \d+\.\d\d  patience [23] of 3 for BLEU"
    training = r"epoch 1  loss \d\.\d+  [\d,]+ tokens/s  lr \S+  "
    shown = [training + "patience 3 of 3 for BLEU"] * 2 + ["validating", outcome] + [training + outcome] * 2
    assert len(said) == len([*shown, "validating", outcome])
    for pattern, line in zip([*shown, "validating", outcome], said, strict=True):
        assert re.fullmatch(pattern, line)


@pytest.mark.parametrize("setting", ["stop_metric", "best_metric"])
def test_the_progress_line_has_the_chrf2_that_stops_a_run_or_ranks_its_checkpoints(
    setting: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(display.Display, "show", lambda self, update, facts: said.append(facts.strip()))
    trained(tmp_path, data, max_updates=1, **{setting: "chrf2"})
    assert re.fullmatch(r"dev \d\.\d{3} chrF2 (\d+\.\d\d)  best .*", said[-1])


def test_on_a_terminal_a_finished_bar_does_not_say_that_it_is_validating(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(display, "CONSOLE", Console(stderr=True, force_terminal=True, width=160))
    trained(tmp_path, data, max_updates=2)
    bar = [line for line in re.split(r"[\r\n]", capsys.readouterr().err) if "2/2" in line][-1]
    assert "best cross-entropy" in bar
    assert "validating" not in bar


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_on_a_narrow_terminal_nothing_on_the_progress_line_is_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    monkeypatch.setattr(display, "CONSOLE", console)
    facts = "epoch 26  loss 1.922  1,490 tokens/s  lr 6.3e-05  dev 2.281 BLEU 18.07  best BLEU 18.68  patience 6 of 10"
    with display.display(43700, 0) as line:
        line.show(11042, facts)
    assert isinstance(console.file, io.StringIO)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    words = shown[shown.rindex("11042") :].split()
    assert words[0] == "11042/43700"
    assert set(facts.split()) <= set(words)
    assert len([word for word in words if re.fullmatch(r"\d+:\d\d:\d\d|-:--:--", word)]) == 2
    assert "…" not in shown


@pytest.mark.slow
def test_no_run_makes_more_updates_than_its_progress_line_says(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(display, "PLAIN_SECONDS", 0.0)
    short = {"batch_sentences": None, "batch_tokens": 40, "concatenations": 1.0, "order_seed": 11, "valid_every": 99}
    updates = trained(tmp_path, data, max_updates=None, max_epochs=3, **short).update
    lines = [re.match(r"update (\d+)/(\d+)  ", message) for message in caplog.messages]
    shown = [(int(line[1]), int(line[2])) for line in lines if line]
    assert all(update <= total for update, total in shown)
    assert shown[-1] == (updates, updates)
    assert {total for _, total in shown} != {updates}  # epochs differ in length
