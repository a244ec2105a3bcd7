import logging
import re

import pytest

from nmtkit.machine import progress as module
from nmtkit.machine.progress import progress


def test_progress_is_quiet_unless_it_takes_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "nmtkit")
    with progress("working", 2000) as advance:
        advance(1000)
    assert caplog.text == ""
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", -1.0)
    with progress("working", 2000) as advance:
        advance(1000)
        advance(1000)
    assert "working: 1,000 of 2,000 lines, " in caplog.messages[0]
    assert "working: 2,000 of 2,000 lines, " in caplog.messages[1]


def test_work_without_a_known_end_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nmtkit")
    with progress("thinking"):
        pass
    assert caplog.messages == ["thinking"]


def test_work_without_a_known_end_has_a_speed_and_no_time_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "nmtkit")
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", -1.0)
    with progress("reading") as advance:
        advance(5000)
    assert re.fullmatch(r"reading: 5,000 lines, [\d,]+ lines/s", caplog.messages[1])


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress("writing a[/b] [de]", 10) as advance:
        for _ in range(10):
            advance(1)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "writing a[/b] [de]" in printed.err
    assert "10/10" in printed.err


def test_with_its_logger_disabled_progress_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nmtkit")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module.log, "disabled", True)
    with progress("working", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")
    assert caplog.text == ""


def test_a_progress_line_has_the_lines_so_far_and_the_total(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "nmtkit")
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", -1.0)
    with progress("encoding", 300) as advance:
        advance(100)
    assert caplog.messages[0].startswith("encoding: 100 of 300 lines, ")
