"""The exception for mistakes that the user can correct, and what messages have in common."""

import re
from pathlib import Path
from typing import Any, get_args


class UserError(Exception):
    """A mistake that the user can correct. The message names the place, the value and the remedy.

    The command line prints it on one line and exits with status 1; a notebook shows only that line. Any other
    exception is a bug and has a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows instead of a traceback."""
        return [f"UserError: {self}"]


def printable(text: str) -> str:
    """The text with control characters escaped, which a terminal would obey."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural must end in s: "1 line", "2,000 lines"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def refuse_string(name: str, texts: Any) -> None:
    """Raise UserError if ``texts``, which should be a sequence, is a string, whose letters would be the texts."""
    if isinstance(texts, str):
        raise UserError(f"`{name}`: a single text, where several are expected; put it into a list")


def check_choice(name: str, value: str | None, literal: Any) -> None:
    """Raise UserError if ``value`` is neither None nor a value of the ``Literal`` type ``literal``."""
    if value is not None and value not in get_args(literal):
        raise UserError(f"`{name}` {value}: not one of {', '.join(get_args(literal))}")


def check_lines(text: Path | str, lines: int, other: Path | str, others: int, remedy: str) -> None:
    """Raise UserError if two texts that correspond line by line, with these names, have different numbers of lines."""
    if lines != others:
        raise UserError(f"{text} has {counted(lines, 'line')} but {other} has {others:,}; {remedy}")
