"""The one exception for mistakes that a user can correct."""

from typing import Any, get_args


class UserError(Exception):
    """Something the user can correct. The message names the place, the value and the remedy.

    The command line prints it as one line and exits with status 1. Any other exception is a bug in nmtkit and shows
    its traceback.
    """


def check_choice(name: str, value: str | None, literal: Any) -> None:
    """Raise UserError for a value that is not among those of the type ``literal``; None, for what was not said, is."""
    if value is not None and value not in get_args(literal):
        raise UserError(f"`{name}` {value}: not one of {', '.join(get_args(literal))}")
