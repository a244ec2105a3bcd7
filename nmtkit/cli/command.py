"""Common to all commands: --quiet and --verbose, and help with groups of options."""

import logging
import platform
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand

from nmtkit.errors import UserError, printable
from nmtkit.options import Option, option
from nmtkit.version import __version__
from nmtkit.workflow.shared import logged

log = logging.getLogger(__name__)

COMMON = "Common options"  # last group of the help

# typer has no public name for the base class of its usage errors.
WrongUsage: type[typer.BadParameter] = typer.BadParameter.__mro__[2]


@dataclass(frozen=True)
class Volume:
    """How much a command logs on stderr."""

    quiet: bool = option(False, Option("Print only warnings and errors on stderr.", COMMON, names="--quiet -q"))
    verbose: bool = option(
        False, Option("Print more on stderr, each line with its time and origin.", COMMON, names="--verbose -v")
    )

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise UserError("--quiet and --verbose: leave one of the two out")


class Command(TyperCommand):
    """A command whose help lists its options in groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises a usage error if an option is where the second of two files should be, and for several models where a
        command takes one. Every usage error names this command.
        """
        options = {name: parameter for parameter in self.params for name in parameter.opts if name.startswith("-")}
        names = (text.partition("=")[0] if text.startswith("--") else text[:2] for text in args)  # -mrun is -m run
        models = [name for name in names if name in options and options[name].name == "model"]
        if len(models) > 1 and not vars(options[models[0]])["multiple"]:
            hint = "" if ctx.command.name == "train" else "; to combine models, use nmtkit ensemble"
            ctx.fail(f"Option {models[0]!r} is given twice{hint}")
        for place, name in enumerate(args):
            if name in options and options[name].nargs > 1:
                values = args[place + 1 : place + 1 + options[name].nargs]
                if options.keys() & set(values):
                    ctx.fail(f"Option {name!r} requires {options[name].nargs} arguments: {options[name].metavar}")
        try:
            return super().parse_args(ctx, args)
        except WrongUsage as error:
            error.ctx = error.ctx or ctx  # typer names no command if an option lacks its value
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options without a group, then each group, then the options of every command."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
                group = COMMON if parameter.name == "help" else vars(parameter).get("rich_help_panel") or kind
                sections.setdefault(group, []).append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class _Screen(logging.Handler):
    """Prints log lines to the current ``sys.stderr``, which a progress bar may replace."""

    def __init__(self, level: int, reworded: Callable[[str], str]) -> None:
        super().__init__(level)
        self._reworded = reworded

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, reworded."""
        try:
            print(printable(self._reworded(self.format(record))), file=sys.stderr, flush=True)
        except (OSError, ValueError):  # a full or closed stderr must not end the command
            self.handleError(record)


@contextmanager
def shown(volume: Volume, reworded: Callable[[str], str]) -> Iterator[None]:
    """Show nmtkit's log on stderr, with each line ``reworded``."""
    level = logging.WARNING if volume.quiet else logging.DEBUG if volume.verbose else logging.INFO
    handler, bars = _Screen(level, reworded), logging.getLogger("nmtkit.progress")
    if level == logging.DEBUG:
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    before, bars.disabled = bars.disabled, level > logging.INFO
    # At least INFO, even with --quiet, for train.log.
    with logged(logging.getLogger("nmtkit"), min(level, logging.INFO), [handler]):
        log.debug(f"nmtkit {__version__}, Python {platform.python_version()}: {shlex.join(sys.argv[1:])}")
        try:
            yield
        finally:
            bars.disabled = before
