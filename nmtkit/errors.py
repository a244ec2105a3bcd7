"""The one exception that a user can cause."""


class UserError(Exception):
    """Something the user can put right. The message names the place, the value and the remedy.

    The command line prints it as one line and exits with status 1. Anything else that is raised is a
    bug of ours and shows its traceback.
    """
