"""The one exception for mistakes that a user can correct."""


class UserError(Exception):
    """Something the user can correct. The message names the place, the value and the remedy.

    The command line prints it as one line and exits with status 1. Any other exception is a bug in nmtkit and shows
    its traceback.
    """
