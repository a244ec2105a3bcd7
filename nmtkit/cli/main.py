"""The command line: one file per command in this folder, and here the only place that turns exceptions into statuses.

Nothing slow is imported on the way to ``nmtkit --help``: commands import torch inside their functions.
"""

import errno
import inspect
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Annotated, TextIO, cast

import typer

from nmtkit import __version__
from nmtkit.cli.align import align
from nmtkit.cli.average import average
from nmtkit.cli.contrast import contrast
from nmtkit.cli.doctor import doctor
from nmtkit.cli.ensemble import ensemble
from nmtkit.cli.inspect import inspect as inspect_model
from nmtkit.cli.models import models
from nmtkit.cli.posunk import posunk
from nmtkit.cli.prep import prep
from nmtkit.cli.report import report
from nmtkit.cli.score import score
from nmtkit.cli.train import train
from nmtkit.cli.translate import translate
from nmtkit.cli.tune import tune
from nmtkit.cli.vocab import vocab
from nmtkit.errors import UserError
from nmtkit.lines import FULL

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _help(function: Callable[..., None]) -> str:
    """Its docstring, in which paragraphs of examples keep their lines: typer's mark for that is \\b."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    # Where nothing but examples follow the first line, getdoc takes their indentation away.
    return "\n\n".join(
        "\b\n" + textwrap.indent(textwrap.dedent(text), "  ") if text.startswith((" ", "nmtkit ")) else text
        for text in paragraphs
    )


# In the order in which they are used.
COMMANDS: tuple[Callable[..., None], ...] = (
    doctor, prep, align, vocab, train, average, ensemble, tune, translate, posunk, score, contrast, report,
    inspect_model, models,
)  # fmt: skip
for command in COMMANDS:
    text = _help(command)
    app.command(help=text, short_help=re.split(r"(?<=\.)\s", text)[0])(command)  # its first sentence


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nmtkit {__version__}")
        raise typer.Exit


def nmtkit(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Neural machine translation: from raw parallel text to scored translations.

    In a folder whose raw/ has {train,dev,test}.en and .fr, from the first command to the last:

      nmtkit prep --src-lang en
      nmtkit vocab
      nmtkit train --model rnnsearch
      nmtkit translate < in.txt > out.txt
      nmtkit score
    """


app.callback(help=_help(nmtkit))(nmtkit)


def main() -> None:
    """Run the command line. A user's mistake, and what the system says of a file, is one line on stderr and status 1.

    Any other exception shows its traceback.
    """
    if sys.stdout is None:  # closed by whoever started us; what can only be read is found to be so when it is written
        sys.stdout = _stand_in(1, os.O_RDONLY)
    if sys.stderr is None:
        sys.stderr = _stand_in(2, os.O_WRONLY)
    # As Python has it for stderr: a name of a file that is not UTF-8, say, can be printed.
    cast(io.TextIOWrapper, sys.stdout).reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="nmtkit")
        finally:
            sys.stdout.flush()  # a pipe that was closed is noticed here, where it is caught
    except UserError as error:
        sys.exit("nmtkit: error: " + " ".join(str(error).splitlines()))
    except BrokenPipeError:
        _forget_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None:  # which may not be read, say
            sys.exit(f"nmtkit: error: {error.filename}: {error.strerror}")
        if error.errno not in (*FULL, errno.EBADF):
            raise
        _forget_output()
        sys.exit(f"nmtkit: error: the output cannot be written: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(130)


def _stand_in(number: int, flags: int) -> TextIO:
    """A stream for a descriptor that is closed, so that no file that is opened later gets its number."""
    os.dup2(os.open(os.devnull, flags), number)
    return open(number, "w", encoding="utf-8")


def _forget_output() -> None:
    """Python flushes stdout once more when it ends, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
