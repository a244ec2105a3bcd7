"""Progress of long tasks on stderr: a bar on a terminal, else a log line every half minute."""

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

log = logging.getLogger("nmtkit.progress")  # disable it to hide progress


@contextmanager
def progress(task: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show the progress of ``task``; yields a function to call with the number of lines just finished."""
    console = Console(file=sys.stderr)  # looked up now, because stderr may be redirected
    if not shows_bar(console):
        yield _logged_progress(task, total)
        return
    # Without markup, because rich would take the brackets in a name of a file for it.
    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        key = bar.add_task(task, total=total)
        yield lambda lines: bar.advance(key, lines)


def shows_bar(console: Console) -> bool:
    """Whether progress is a bar: on a terminal, unless it is disabled."""
    return not log.disabled and sys.stderr.isatty() and console.is_terminal


class _Rate(ProgressColumn):
    """The recent speed in lines per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} lines/s" if task.speed else "")


def _logged_progress(task: str, total: int | None) -> Callable[[int], None]:
    """Log progress every half minute; a task without a total is also announced when it begins."""
    if total is None:
        log.info(task)
    start = last = time.monotonic()
    done = 0

    def advance(lines: int) -> None:
        nonlocal done, last
        done += lines
        now = time.monotonic()
        if now - last > SECONDS_BETWEEN_LINES:
            last = now
            rate, of_total, left = done / (now - start), "", ""
            if total is not None and rate:
                of_total = f" of {total:,}"
                left = f", {datetime.timedelta(seconds=round((total - done) / rate))} left"
            log.info(f"{task}: {done:,}{of_total} lines, {rate:,.0f} lines/s{left}")

    return advance
