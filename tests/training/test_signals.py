"""Signals that stop a run."""

import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmtkit.training.signals import stop_signals


def test_under_nohup_a_run_continues_when_its_terminal_closes() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
            assert received == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_outside_the_main_thread_works_without_signals() -> None:
    def stop() -> list[int]:
        with stop_signals() as received:
            return received

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(stop).result() == []


def test_a_second_ctrl_c_stops_immediately() -> None:
    waited = False
    with pytest.raises(KeyboardInterrupt), stop_signals() as received:  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert received == [signal.SIGTERM, signal.SIGINT]
        waited = True  # for the second one
        os.kill(os.getpid(), signal.SIGINT)
    assert waited


def test_a_second_sigterm_waits_for_the_end_of_the_update_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with stop_signals() as received:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM] * 2
    assert caplog.messages == ["stopping after this update; the same command resumes the run"]


def test_after_a_run_signals_do_what_they_did_before() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with pytest.raises(KeyError), stop_signals():
        raise KeyError
    assert [signal.getsignal(number) for number in numbers] == before
