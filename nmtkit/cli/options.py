"""What several commands share."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

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
