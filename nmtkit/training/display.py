"""The progress of training: a progress bar on a terminal, else a log line every 20 seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from nmtkit.machine.progress import log, shows_bar
from nmtkit.training import distributed

PLAIN_SECONDS = 20.0  # between log lines
CONSOLE = Console(stderr=True)


class Display:
    """The progress line of a run, updated by ``show``.

    total: the number of updates, None if unknown; the loop replaces it, because epochs differ in length. done: the
    updates before this start, if the run is resumed. early: the run may stop before it has made all updates.
    """

    def __init__(self, bar: Progress | None, total: int | None, done: int, early: bool):
        self.total, self._bar, self._first, self._most = total, bar, done, "at most " * early
        self._task = bar.add_task("", total=total, completed=done, facts="starting") if bar else None
        self._started = self._last = time.monotonic()

    def show(self, update: int, facts: str) -> None:
        """Show the progress: on a terminal immediately, else every ``PLAIN_SECONDS``."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=update, total=self.total, facts=facts.strip())
        elif time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            log.info("update %d%s  %s%s", update, f"/{self.total}" if self.total else "", facts, self._left(update))

    def _left(self, update: int) -> str:
        """The estimated time left, if the total is known."""
        if not self.total or update <= self._first:
            return ""
        # From the updates since this start; earlier ones were not timed.
        seconds = (self._last - self._started) / (update - self._first) * (self.total - update)
        return f"  {self._most}{timedelta(seconds=round(seconds))} left"


@contextmanager
def display(total: int | None, done: int, *, early: bool = False) -> Iterator[Display]:
    """A progress bar on stderr if that is a terminal. Log lines appear above it."""
    if distributed.rank() or not shows_bar(CONSOLE):
        yield Display(None, total, done, early)
        return
    # A missing total would be printed as None.
    updates = "{task.completed}/{task.total}" if total else "{task.completed}"
    # On a narrow terminal, the bar is short and the facts, which are never cut, continue on further lines.
    facts = TextColumn("{task.fields[facts]}", table_column=Column())
    columns = (SpinnerColumn(), BarColumn(bar_width=CONSOLE.width // 8), TextColumn(updates), facts)
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=CONSOLE) as bar:
        yield Display(bar, total, done, early)
