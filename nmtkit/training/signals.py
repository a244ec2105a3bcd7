"""Signals that ask a run to stop: Ctrl-C, SIGTERM and SIGHUP."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nmtkit.machine.processes import handlers
from nmtkit.training import distributed

log = logging.getLogger(__name__)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Yields a list to which Ctrl-C, SIGTERM and SIGHUP append their numbers; a second Ctrl-C stops immediately.

    With several processes, a second Ctrl-C does not, because torchrun repeats the Ctrl-C of the terminal. SIGHUP stays
    ignored under nohup, and a run outside the main thread gets no signals.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only it may handle signals
        yield received
        return

    def note(number: int, _: Any) -> None:
        if number == signal.SIGINT and number in received and distributed.size() == 1:
            raise KeyboardInterrupt
        if not received:
            log.info("stopping after this update; the same command resumes the run")
        received.append(number)

    wanted = [signal.SIGINT, signal.SIGTERM]
    # Windows has no SIGHUP.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    with handlers(dict.fromkeys(wanted, note)):
        yield received
