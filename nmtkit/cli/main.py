"""The command line: its commands, one file each in this folder, and the exit status of every exception.

``nmtkit --help`` must be fast, so commands import torch inside their functions.
"""

import errno
import inspect
import io
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup

from nmtkit.cli.align import align
from nmtkit.cli.average import average
from nmtkit.cli.command import Command, WrongUsage
from nmtkit.cli.contrast import contrast
from nmtkit.cli.doctor import doctor
from nmtkit.cli.ensemble import ensemble
from nmtkit.cli.import_ import import_
from nmtkit.cli.inspect import inspect as inspect_model
from nmtkit.cli.models import models
from nmtkit.cli.options import forget_output
from nmtkit.cli.parameters import flat
from nmtkit.cli.posunk import posunk
from nmtkit.cli.prep import prep
from nmtkit.cli.report import report
from nmtkit.cli.score import score
from nmtkit.cli.serve import serve
from nmtkit.cli.train import train
from nmtkit.cli.translate import translate
from nmtkit.cli.tune import tune
from nmtkit.cli.vocab import vocab
from nmtkit.errors import UserError, printable
from nmtkit.machine.processes import handlers
from nmtkit.version import __version__
from nmtkit.writing import FULL

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]}, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _help(function: Callable[..., None]) -> str:
    """The docstring of a command for typer, which keeps the line breaks of a paragraph after \\b."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    # getdoc removes the indentation of examples if there is no other text below the first line.
    return "\n\n".join(
        "\b\n" + textwrap.indent(textwrap.dedent(text), "  ") if text.startswith((" ", "nmtkit ")) else text
        for text in paragraphs
    )


# Options that are not named after the argument of the library, by command; those of another command include its name.
OPTIONS = {
    "translate": {"prefixes": "--prefix", "references": "--score-reference"},
    "train": {"dev_size": "nmtkit prep --dev-size"},
    "doctor": {"dev_size": "nmtkit prep --dev-size", "test_size": "nmtkit prep --test-size"},
}


@cache
def built(app: typer.Typer) -> TyperGroup:
    """The commands of an application, built once."""
    return cast(TyperGroup, typer.main.get_command(app))


def in_options(message: str) -> str:
    """A message of the library with the options of the command that was typed (--n-best) instead of `n_best`.

    An argument of the command becomes its name in the help.
    """
    if "`" not in message:  # like most log lines
        return message
    words, commands = sys.argv[1:], built(app).commands
    command = next((word for word in words if word in commands), None)  # global options may come first
    if command is None:
        return message
    options = {p.name: _long_name(p, words) or p.metavar for p in commands[command].params} | OPTIONS.get(command, {})
    return re.sub("`([a-z_0-9]+)`", lambda match: options.get(match[1]) or match[0], message)


def _long_name(parameter: Any, words: Sequence[str]) -> str | None:
    """The long name of an option as typed (--separate for --joint), or else its first one; None for an argument."""
    names = [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")]
    return next((name for name in (*words, *names) if name in names), None)


# In the order of --help, which is that of use.
COMMANDS: tuple[Callable[..., None], ...] = (
    doctor, prep, align, vocab, train, average, ensemble, import_, tune, translate, serve, posunk, score, contrast,
    report, inspect_model, models,
)  # fmt: skip
for command in COMMANDS:
    text = _help(command)
    first = re.split(r"(?<=\.)\s", text)[0]  # typer would truncate it
    app.command(command.__name__.rstrip("_"), cls=Command, help=text, short_help=first)(flat(command, in_options))


def _print_version(wanted: bool) -> None:
    """The callback of --version: prints the version and stops."""
    if wanted:
        print(f"nmtkit {__version__}")
        raise typer.Exit


def nmtkit(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Neural machine translation: from raw parallel text to scored translations.

    In a folder with raw/train.en, raw/train.fr, and likewise for dev and test, run these commands in order:

      nmtkit prep --src-lang en
      nmtkit vocab
      nmtkit train
      nmtkit translate < in.txt > out.txt
      nmtkit score
    """


app.callback(help=_help(nmtkit))(nmtkit)


def main() -> None:
    """Run the command line. A UserError, or a system error about a file, is one line on stderr and status 1.

    Ctrl-C ends with status 130, SIGTERM with 143, and neither leaves half-written files. Any other exception shows its
    traceback.
    """
    if sys.stdout is None:  # closed by the parent process; the stand-in is read-only, so that writing fails
        sys.stdout = _stand_in(1, os.O_RDONLY)
    if sys.stderr is None:
        sys.stderr = _stand_in(2, os.O_WRONLY)
    # Any file name can be printed, as on stderr.
    cast(io.TextIOWrapper, sys.stdout).reconfigure(errors="backslashreplace")
    try:
        # SIGTERM is an exception, so that temporary files are removed; ``train`` has its own handler.
        with handlers({signal.SIGTERM: lambda number, _: sys.exit(128 + number)}):
            try:
                status = built(app)(sys.argv[1:] or ["--help"], prog_name="nmtkit", standalone_mode=False)
            finally:
                sys.stdout.flush()  # raises here, where it is caught, if the pipe is closed
    except UserError as error:
        sys.exit("nmtkit: error: " + printable(" ".join(in_options(str(error)).splitlines())))
    except WrongUsage as error:  # typer would print several lines
        place = error.ctx.command_path if error.ctx else "nmtkit"
        # Pydantic, which typer uses, begins some messages with the name of an exception.
        message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
        sys.exit(f"nmtkit: error: {message}; see {place} --help")
    except BrokenPipeError:
        forget_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None:
            sys.exit(f"nmtkit: error: {error.filename}: {error.strerror}")
        if error.errno not in (*FULL, errno.EBADF):
            raise
        forget_output()
        sys.exit(f"nmtkit: error: the output cannot be written: {error.strerror}")
    except KeyboardInterrupt:  # 128 + SIGINT, as shells have it
        sys.exit(130)
    sys.exit(status)


def _stand_in(number: int, flags: int) -> TextIO:
    """A stream in place of a closed one, so that no other file gets its descriptor."""
    os.dup2(os.open(os.devnull, flags), number)
    return open(number, "w", encoding="utf-8")
