"""Lines of a stream: read as they arrive, decoded, and grouped into windows that end when the input pauses.

The lines of a window are translated together, sorted by length into full batches, without delaying answers.
"""

import codecs
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from nmtkit.errors import UserError
from nmtkit.lines import BINARY, conversion, decode_line
from nmtkit.writing import POSIX

T = TypeVar("T")

FIRST_WINDOW, LARGEST_WINDOW = 32, 2048  # lines that are translated together, sorted by length
PAUSE = 0.1  # seconds without input after which the lines so far are translated
WARNINGS = 5  # for lines that are not UTF-8


def windows(lines: Iterable[T], ready: Callable[[], bool], first: int) -> Iterator[list[T]]:
    """The lines in windows of ``first`` lines, twice as many, ... ``LARGEST_WINDOW``.

    A window also ends when ``ready()`` is False, because reading the next line would block. Callers without such a test
    begin with a small window.
    """
    size, window = first, list[T]()
    for line in lines:
        window.append(line)
        if len(window) == size or not ready():
            yield window
            size, window = min(2 * size, LARGEST_WINDOW), []
    if window:
        yield window


def standard_input() -> int:
    """The file descriptor of standard input. Raises UserError if it was closed when this process started."""
    if sys.stdin is None:
        raise UserError("standard input is closed; name a file as `input`")
    return sys.stdin.fileno()


def decoded(raw: Iterable[bytes], place: str, warn: Callable[[str], None]) -> Iterator[str]:
    """Every line as text, without line end and byte order mark; bytes that are not UTF-8 become U+FFFD.

    ``warn`` is called with a message for each of the first few lines that are not UTF-8, with ``place`` and line
    number, and at the end with their total. Raises UserError for a document, a compressed file and UTF-16.
    """
    bad = 0
    for number, line in enumerate(raw, 1):
        if number == 1 and line.startswith(BINARY):
            raise UserError(f"{place}: not text; give documents, .gz and .zst files their suffix, and unpack others")
        if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UserError(f"{place}: UTF-16, not UTF-8; {conversion(line)}")
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            bad += 1
            if bad <= WARNINGS:
                warn(f"{place}:{number}: byte 0x{line[error.start]:02X} is not UTF-8; translated as \ufffd")
        yield decode_line(line, number)
    if bad > WARNINGS:
        warn(f"{place}: {bad} lines are not UTF-8; if they are in another encoding, convert them with iconv")


class Stream:
    """The lines of a file descriptor, and whether the next one can be read without blocking. Only \\n ends a line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._ended = descriptor, False
        # Not a text file object, whose buffer would hide available lines from select().
        self._lines, self._tail = deque[bytes](), list[bytes]()  # complete lines; parts of the incomplete one

    def __iter__(self) -> Iterator[bytes]:
        while self._lines or not self._ended:
            if self._lines:
                yield self._lines.popleft()
            else:
                self._read()

    def ready(self) -> bool:
        """True if there is another line within ``PAUSE`` seconds; without select (on Windows), if one is buffered."""
        while POSIX and not (self._lines or self._ended) and select.select([self._descriptor], [], [], PAUSE)[0]:
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Read what is available, blocking until there is something. Raises UserError if reading fails."""
        try:
            if POSIX:  # another process that shares the descriptor may have made it non-blocking
                select.select([self._descriptor], [], [])
            block = os.read(self._descriptor, 1 << 20)
        except OSError as error:
            raise UserError(f"standard input: cannot be read: {error.strerror}") from None
        # The parts of a line are joined once, at its end, so that a very long line takes linear time.
        first, *others = block.split(b"\n")
        self._tail.append(first)
        for other in others:
            self._lines.append(b"".join(self._tail))
            self._tail = [other]
        if not block:
            self._ended = True
            if any(self._tail):  # a last line without its end
                self._lines.append(b"".join(self._tail))
