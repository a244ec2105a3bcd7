"""A user's program that turns each line into words: a segmenter for Chinese or Turkish, for example."""

import os
import select
import shlex
import subprocess
import weakref

from nmtkit.errors import UserError

_SECONDS = 60.0  # that a program may take to load its dictionaries
_PAUSE = 0.2  # seconds in which a second line would come


class Command:
    """A program that answers every line it reads with one line, at once. It is started with the first line."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = 0

    def answer(self, line: str) -> str:
        """The program's answer to a line. Raises UserError if it cannot be started or does not answer with one line."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        # After a line that nobody asked for, each answer would be taken for that of the next line.
        self._check_silence(process, 0.0)
        rest, answer = memoryview(line.encode() + b"\n"), bytearray()
        # Written and read by turns: a program may answer the beginning of a long line before it reads the end. Not by
        # readline, which has no time limit: a program may buffer its answers until there are more of them.
        while rest or not answer.endswith(b"\n"):
            readable, writable, _ = select.select([process.stdout], [process.stdin] if rest else [], [], _SECONDS)
            if not readable and not writable:
                raise UserError(
                    f"{self._command}: no answer to a line in {_SECONDS:.0f} seconds; it has to answer each line at "
                    "once (for example python -u, stdbuf -oL, or a tokenizer's -b)"
                )
            if writable:
                try:
                    # As many bytes as a pipe takes without waiting.
                    rest = rest[os.write(process.stdin.fileno(), rest[: select.PIPE_BUF]) :]
                except BrokenPipeError:
                    raise self._ended(process) from None
            if readable:
                received = os.read(process.stdout.fileno(), 1 << 16)
                if not received:
                    raise self._ended(process)
                answer += received
        text = answer[:-1].decode("utf-8", errors="replace")
        if "\n" in text:
            raise self._too_many_lines()
        self._answers += 1
        # After line 1, 2, 4, 8, ... and a few others: to wait after each would take longer than the program does.
        if self._answers.bit_count() == 1 or self._answers % 4096 == 0:
            self._check_silence(process, _PAUSE)
        return text

    def _check_silence(self, process: "subprocess.Popen[bytes]", seconds: float) -> None:
        """Raise UserError if the program writes anything within some seconds."""
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], seconds)
        # Nothing but its end can be read of a program that has ended, which only a line that it has to answer makes
        # an error.
        if readable and os.read(process.stdout.fileno(), 1 << 16):
            raise self._too_many_lines()

    def _start(self) -> "subprocess.Popen[bytes]":
        """The process of the program. Raises UserError for one that is not there."""
        try:
            process = subprocess.Popen(shlex.split(self._command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except (OSError, ValueError) as error:
            raise UserError(f"{self._command}: cannot be started: {error}") from None
        weakref.finalize(self, _end, process)
        return process

    def _too_many_lines(self) -> UserError:
        """The error about a program that says more than its answer."""
        return UserError(
            f"{self._command}: more than one line for one (a greeting, perhaps?); it has to answer one with one"
        )

    def _ended(self, process: "subprocess.Popen[bytes]") -> UserError:
        """The error about a program that ended by itself."""
        return UserError(f"{self._command}: ended with status {process.wait()} instead of answering a line")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of a program behind when nobody will ask it again."""
    process.kill()
    process.communicate()
