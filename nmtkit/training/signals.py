"""Signals that ask a run to stop: Ctrl-C, SIGTERM and SIGHUP."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nmtkit.training import distributed

log = logging.getLogger(__name__)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Gives a list that is empty until Ctrl-C, SIGTERM or SIGHUP asks for a stop; a second Ctrl-C stops at once.

    With many processes it does not: torchrun passes on the first one, which the terminal has sent already. A run
    that nohup protects from SIGHUP stays protected, and one in a thread of somebody else's program hears of none.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which alone is told of signals
        yield received
        return

    def note(number: int, _: Any) -> None:
        # What torchrun sends a second time must not count as a second Ctrl-C.
        if number == signal.SIGINT and number in received and distributed.size() == 1:
            raise KeyboardInterrupt
        if not received:
            log.info("stopping after this update; the same command goes on from there")
        received.append(number)

    wanted = [signal.SIGINT, signal.SIGTERM]
    # Windows has none.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    # As they were afterwards: from Python, a run is a part of somebody else's program.
    before = {number: signal.signal(number, note) for number in wanted}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
