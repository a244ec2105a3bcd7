"""A filter's lines: read as they come, decoded, and gathered in windows that end where the input pauses.

A window is what is translated together: sorted by length, it makes full batches. It must not make anyone wait.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TypeVar

from nmtkit.errors import UserError
from nmtkit.lines import POSIX, decode_line

T = TypeVar("T")

FIRST_WINDOW, LARGEST_WINDOW = 32, 2048  # lines that are translated together, sorted by length
PAUSE = 0.1  # seconds: someone who has not sent the next line by then wants the answers so far
WARNINGS = 5  # about lines that are not UTF-8


def windows(lines: Iterable[T], at_hand: Callable[[], bool], first: int) -> Iterator[list[T]]:
    """The lines in windows of ``first`` lines, twice as many, ... ``LARGEST_WINDOW``.

    A window also ends when ``at_hand`` says that the next line would have to be waited for. Who can tell begins with
    the largest: somebody who waits has sent no more lines. Who cannot begins with few, and is not slow for long.
    """
    size, window = first, list[T]()
    for line in lines:
        window.append(line)
        if len(window) == size or not at_hand():
            yield window
            size, window = min(2 * size, LARGEST_WINDOW), []
    if window:
        yield window


def standard_input() -> int:
    """The file descriptor of standard input. Raises UserError where whoever started this process closed it."""
    if sys.stdin is None:
        raise UserError("standard input is closed; name a file as `input`")
    return sys.stdin.fileno()


def decoded(raw: Iterable[bytes], place: str, warn: Callable[[str], None]) -> Iterator[str]:
    """Every line as text, without its end and a byte order mark; bytes that are not UTF-8 become U+FFFD.

    ``warn`` is told of the first few lines that are not UTF-8, with ``place`` and number, and in the end how many
    there were. A filter answers every line: none is an error.
    """
    bad = 0
    for number, line in enumerate(raw, 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            bad += 1
            if bad <= WARNINGS:
                warn(f"{place}:{number}: byte 0x{line[error.start]:02X} is not UTF-8; translated as \ufffd")
        yield decode_line(line, number)
    if bad > WARNINGS:
        warn(f"{place}: {bad} lines are not UTF-8")


class Stream:
    """The lines of a file descriptor, and whether the next one is at hand. A line ends in \\n and nothing else.

    Without a descriptor they are those of standard input.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._given, self._ended = descriptor, False
        # Not a text file object: it reads ahead, and then nobody can say whether a line is at hand.
        self._lines, self._tail = deque[bytes](), list[bytes]()  # complete lines; pieces of the one that is coming

    @cached_property
    def _descriptor(self) -> int:
        """The descriptor; that of standard input is looked for when the first line is read."""
        return standard_input() if self._given is None else self._given

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while not (self._lines or self._ended):
                self._read()
            if not self._lines:
                return
            yield self._lines.popleft()

    def at_hand(self) -> bool:
        """True if there is another line, now or before ``PAUSE`` is over; now, where nothing can be waited for."""
        while POSIX and not (self._lines or self._ended) and select.select([self._descriptor], [], [], PAUSE)[0]:
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Take what there is, at least a byte unless it is the end. Raises UserError for what cannot be read."""
        try:
            if POSIX:  # whoever shares it may have made it one that does not wait
                select.select([self._descriptor], [], [])
            block = os.read(self._descriptor, 1 << 20)
        except OSError as error:
            raise UserError(f"standard input: cannot be read: {error.strerror}") from None
        # The pieces of a line are joined once, when its end is there: a line of a gigabyte stays linear.
        first, *others = block.split(b"\n")
        self._tail.append(first)
        for other in others:
            self._lines.append(b"".join(self._tail))
            self._tail = [other]
        if not block:
            self._ended = True
            if any(self._tail):  # a last line without its end
                self._lines.append(b"".join(self._tail))
