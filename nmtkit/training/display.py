"""What a run shows while it trains: a live line on a terminal, plain lines every now and then when piped."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nmtkit.training import distributed

log = logging.getLogger(__name__)

PLAIN_SECONDS = 20.0  # between plain lines
CONSOLE = Console(stderr=True)


class Display:
    """``show`` is called after every update; ``total`` is the number of updates, None when nobody knows."""

    def __init__(self, bar: Progress | None, total: int | None):
        self._bar, self._total = bar, total
        self._task = bar.add_task("", total=total, facts="starting") if bar else None
        self._last = time.monotonic()

    def show(self, update: int, facts: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=update, facts=facts)
        elif time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            log.info("update %d%s  %s", update, f"/{self._total}" if self._total else "", facts)


@contextmanager
def display(total: int | None, done: int) -> Iterator[Display]:
    """A progress bar on stderr if that is a terminal. Log lines written meanwhile appear above it."""
    if distributed.rank() or not (sys.stderr.isatty() and CONSOLE.is_terminal):
        yield Display(None, total)
        return
    columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}"))
    with Progress(
        *columns, TextColumn("{task.fields[facts]}"), TimeElapsedColumn(), TimeRemainingColumn(), console=CONSOLE
    ) as bar:
        shown = Display(bar, total)
        shown.show(done, "starting")
        yield shown
