"""Progress of long work, on stderr: a bar on a terminal, elsewhere a line now and then."""

import datetime
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

SECONDS_BETWEEN_LINES = 30.0

log = logging.getLogger("nmtkit.progress")  # whoever wants no bars disables it


@contextmanager
def progress(task: str, total: int | None = None, unit: str = "lines") -> Iterator[Callable[[int], None]]:
    """Shows on stderr how far ``task`` is; the function it gives is told how many more lines are done.

    A bar on a terminal; elsewhere, if it takes long, a line in the log every half minute.
    """
    console = Console(file=sys.stderr)  # this very one: who silences a library puts another in its place for a while
    if log.disabled or not (sys.stderr.isatty() and console.is_terminal):
        yield _logged_progress(task, total, unit)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        key = bar.add_task(task, total=total)
        yield lambda lines: bar.advance(key, lines)


class _Rate(ProgressColumn):
    """The lines a second, or whatever ``unit`` is, by which the bar has moved lately."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} {self._unit}/s" if task.speed else "")


def _logged_progress(task: str, total: int | None, unit: str) -> Callable[[int], None]:
    """Progress as lines in the log, of which short work has none; without a total it is announced at once."""
    if total is None:
        log.info(task)
    start = last = time.monotonic()
    done = 0

    def advance(lines: int) -> None:
        """Note that so many more lines are done."""
        nonlocal done, last
        done += lines
        now = time.monotonic()
        if now - last > SECONDS_BETWEEN_LINES:
            last = now
            rate = done / (now - start)
            left = datetime.timedelta(seconds=round(((total or done) - done) / rate)) if rate else "?"
            log.info(f"{task}: {done:,} of {total or 0:,} {unit}, {rate:,.0f} {unit}/s, {left} left")

    return advance
