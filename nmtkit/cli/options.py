"""What several commands share."""

import io
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO, TypeVar, cast

import typer

from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, file_of, read_lines

T = TypeVar("T")

Workers = Annotated[
    int | None, typer.Option("--workers", "-j", help="Processes to use.  [default: one per core]", show_default=False)
]


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """What nmtkit logs, from notes on progress upwards, as plain lines on stderr."""
    logger, handler = logging.getLogger("nmtkit"), logging.StreamHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def beside_lines(lines: Iterable[T], path: Path, input: str) -> Iterator[tuple[T, str]]:
    """Each line with the line of ``path`` that belongs to it; raises UserError where either ends first."""
    others, number = read_lines(path), 0
    place = "standard input" if input == "-" else input
    for line in lines:
        other = next(others, None)
        if other is None:
            raise UserError(f"{path}: ends after {number} lines, but {place} goes on; make them correspond")
        number += 1
        yield line, other
    if next(others, None) is not None:
        raise UserError(f"{path}: has more lines than the {number} of {place}; make them correspond")


def check_output(output: str, *inputs: Path | str) -> None:
    """Raises UserError if a file that is read, "-" for standard input, would be replaced by what is made of it."""
    if not os.path.isfile(output):
        return
    for path in inputs:
        read: Path | int = file_of(path)[0]
        if str(path) == "-":
            if sys.stdin is None:  # which whoever reads it will say
                continue
            read = sys.stdin.fileno()
        elif not os.path.exists(read):
            continue
        if os.path.samestat(os.stat(read), os.stat(output)):
            raise UserError(f"--output {output}: is read, too, and would be replaced; name another file")


@contextmanager
def open_output(output: str) -> Iterator[TextIO]:
    """UTF-8 whatever the locale. Standard output fills as translations come, a file appears when it is complete."""
    if output == "-":
        cast(io.TextIOWrapper, sys.stdout).reconfigure(encoding="utf-8", errors="replace", newline="\n")
        yield sys.stdout
    else:
        with atomic_write(output) as file:
            yield file


def parse_weights(text: str | None) -> tuple[float, ...] | None:
    """``2,1,1`` as numbers; raises UserError for anything else."""
    if text is None:
        return None
    try:
        weights = tuple(float(weight) for weight in text.split(","))
    except ValueError:
        raise UserError(f"--weights {text}: expected one number for each model, as 2,1,1") from None
    for weight in weights:
        if not 0 < weight < math.inf:
            raise UserError(f"--weights {text}: {weight:g} is not a number above 0")
    return weights


@contextmanager
def lines_done(shown: bool) -> Iterator[Callable[[int], None]]:
    """A function that shows, while a text is translated, how many lines are done."""
    if not shown:
        yield lambda lines: None
        return
    from rich.console import Console

    start = time.monotonic()
    with Console(stderr=True).status("translating") as status:
        yield lambda lines: status.update(
            f"{lines} lines translated, {lines / (time.monotonic() - start):.0f} a second"
        )
