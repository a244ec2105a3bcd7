"""Threads: all on an idle machine, fewer next to a busy process, and a run keeps its number."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nmtkit.experiment.run import run_experiment
from nmtkit.machine import threads
from nmtkit.machine.threads import choose_threads
from tests.training.conftest import small_experiment


@pytest.fixture(autouse=True)
def _eight_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without any setting in the environment."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(1)


def measured(monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float]) -> None:
    """The simulated time of operations with this many threads."""
    monkeypatch.setattr(threads, "_seconds", seconds.__getitem__)


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 1.0, 8: 0.2}, 8),
        ({1: 1.0, 8: 1.9}, 8),  # not faster, but not in each other's way either
        ({1: 1.0, 8: 5.0, 4: 0.5}, 4),
        ({1: 1.0, 8: 7.0, 4: 6.0, 2: 5.0}, 1),
    ],
)
def test_threads_are_halved_until_they_do_not_slow_each_other_down(
    seconds: dict[int, float], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, seconds)
    assert choose_threads(0) == torch.get_num_threads() == chosen


def test_a_resumed_run_keeps_its_number_of_threads_if_available(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, {})
    assert choose_threads(3) == torch.get_num_threads() == 3
    torch.set_num_threads(2)
    assert choose_threads(3) == torch.get_num_threads() == 2


def test_the_environment_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, {})
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert choose_threads(0) == choose_threads(3) == torch.get_num_threads() == 8


def test_a_run_that_began_on_a_busy_machine_keeps_its_threads_when_resumed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nmtkit")
    for seconds, updates in (({1: 1.0, 8: 5.0, 4: 5.0, 2: 1.0}, 2), ({1: 1.0, 8: 0.2}, 4)):
        torch.set_num_threads(8)
        measured(monkeypatch, seconds)
        run_experiment(small_experiment(max_updates=updates), data, tmp_path, torch.device("cpu"))
        assert torch.get_num_threads() == 2
    assert caplog.text.count("using 2 of 8 threads: other processes keep this machine busy") == 1
    assert caplog.text.count(" on cpu, 1 x 2 threads") == 2


def test_a_run_resumed_once_with_fewer_threads_has_its_own_number_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, {1: 1.0, 8: 0.2})
    for updates, setting in ((1, None), (2, 1), (3, None)):
        with monkeypatch.context() as environment:
            torch.set_num_threads(setting or 8)
            if setting:
                environment.setenv("OMP_NUM_THREADS", str(setting))
            run_experiment(small_experiment(max_updates=updates), data, tmp_path, torch.device("cpu"))
            assert torch.get_num_threads() == (setting or 8)


@pytest.mark.slow
def test_some_steps_take_time_with_any_number_of_threads() -> None:
    assert 0 < threads._seconds(2) < 60
