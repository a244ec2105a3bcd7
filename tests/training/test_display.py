"""What a run shows: plain lines where nobody sees a bar."""

import logging

import pytest

from nmtkit.training import display


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def shown(total: int | None, clock: list[float], caplog: pytest.LogCaptureFixture) -> list[str]:
    """After 10 updates in 30 seconds, the first of them number 51."""
    caplog.set_level(logging.INFO)
    with display.display(total, 50) as line:
        for update in range(51, 61):
            clock[0] += 3
            line.show(update, "loss 3.0")
    return caplog.messages


def test_a_plain_line_has_the_time_that_is_left(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    assert shown(1257, clock, caplog) == ["update 57/1257  loss 3.0  1:00:00 left"]


def test_a_plain_line_without_a_known_end_says_nothing_of_it(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    assert shown(None, clock, caplog) == ["update 57  loss 3.0"]
