"""A user's program that segments lines before tokenisation, for example for Chinese or Turkish."""

import os
import select
import shlex
import subprocess
import weakref

from nmtkit.errors import UserError

_SECONDS = 60.0  # timeout for an answer; includes loading dictionaries
_PAUSE = 0.2  # seconds to wait for unexpected output


class Command:
    """A program that answers each input line immediately with one line.

    It is started at the first line, and again in a forked process, where two would read each other's answers.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the process that started it
        self._answers = 0

    def answer(self, line: str) -> str:
        """The program's answer to a line. Raises UserError if it cannot be started or does not answer with one line."""
        if self._process is None or self._owner != os.getpid():
            self._process, self._owner, self._answers = self._start(), os.getpid(), 0
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._check_silence(process, 0.0)
        rest, answer = memoryview(line.encode() + b"\n"), bytearray()
        # Reads while writing, because a program may answer before the end of a long line. readline has no timeout.
        while rest or not answer.endswith(b"\n"):
            readable, writable, _ = select.select([process.stdout], [process.stdin] if rest else [], [], _SECONDS)
            if not readable and not writable:
                raise UserError(
                    f"{self._command}: no answer within {_SECONDS:.0f} seconds; it must answer each line at once, "
                    "unbuffered (for example python -u, stdbuf -oL, or a tokenizer's -b)"
                )
            if writable:
                try:
                    # Writing PIPE_BUF bytes never blocks.
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
        # Only after lines 1, 2, 4, 8, ..., because the wait takes longer than an answer.
        if self._answers.bit_count() == 1 or self._answers % 4096 == 0:
            self._check_silence(process, _PAUSE)
        return text

    def _check_silence(self, process: "subprocess.Popen[bytes]", seconds: float) -> None:
        """Raise UserError if the program writes anything within ``seconds``."""
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], seconds)
        # End of file is an error only if there is another line.
        if readable and os.read(process.stdout.fileno(), 1 << 16):
            raise self._too_many_lines()

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the program. Raises UserError if it cannot be started."""
        try:
            process = subprocess.Popen(shlex.split(self._command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except (OSError, ValueError) as error:
            raise UserError(f"{self._command}: cannot be started: {error}") from None
        weakref.finalize(self, _end, process)
        return process

    def _too_many_lines(self) -> UserError:
        return UserError(f"{self._command}: wrote more lines than it read (a greeting?); it must answer line by line")

    def _ended(self, process: "subprocess.Popen[bytes]") -> UserError:
        return UserError(f"{self._command}: exited with status {process.wait()} instead of answering a line")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program when its Command is garbage-collected."""
    process.kill()
    process.communicate()
