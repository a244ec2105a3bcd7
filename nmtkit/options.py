"""An option is declared once: a field of a dataclass, with its type, its default, its help, its group and its bounds.

``nmtkit/cli/parameters.py`` makes the options of a command of the fields, ``by_keyword`` the arguments of a Python
function, and ``nmtkit serve`` reads the fields of a request from JSON.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, ParamSpec, TypeVar

from nmtkit.config import convert

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """What is said of an option beside its type and its default."""

    help: str
    group: str = ""  # its heading in --help; none: among the first, which most users need
    names: str = ""  # on the command line, such as "--from" or "--data -d"; none: the field's
    metavar: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    before: str = ""  # the field before which --help has it; none: in its place
    argument: bool = False  # on the command line it has no name
    complete: Callable[[str], list[str]] | None = None  # the values that begin like this, for the shell

    def within(self, group: str) -> "Option":
        """The same option under another heading of --help."""
        return replace(self, group=group)


def option(default: T, shown: Option) -> T:
    """A field of a dataclass that is an option."""
    made: T = field(default=default, metadata={"option": shown})
    return made


def as_in(schema: type, name: str) -> Any:
    """A field that may replace the field ``name`` of ``schema``, and is declared there; None replaces nothing."""
    return option(None, next(shown for each, shown in options_of(schema) if each.name == name))


def options_of(schema: type) -> Iterator[tuple[Field[Any], Option]]:
    """The fields of a dataclass that are options, and what is said of them."""
    return ((each, each.metadata["option"]) for each in fields(schema) if "option" in each.metadata)


def by_keyword(schema: Callable[P, S], function: Callable[[S], R]) -> Callable[P, R]:
    """``function``, which takes a dataclass, as a function that takes the dataclass's own arguments."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(schema(*args, **kwargs))

    vars(called)["__signature__"] = inspect.signature(schema)
    return called


@functools.cache
def types_of(schema: Callable[..., Any]) -> dict[str, Any]:
    """The types of a dataclass's fields by their names."""
    return typing.get_type_hints(schema)


def mistake(config: Any) -> tuple[str, str] | None:
    """The first field of a dataclass whose value is not of its type, or out of its bounds, and the complaint about it.

    Both together are a message, as in "beam_size" and ": 0 is not between 1 and 10000".
    """
    hints = types_of(config.__class__)
    for each in fields(config):
        name, shown = each.name, each.metadata.get("option", Option(""))
        value, hint, problems = getattr(config, name), hints[name], list[str]()
        if value is None:
            continue
        if isinstance(value, str) and (words := _words(hint)):
            if value not in words:
                return name, f" {value}: not one of {', '.join(words)}"
            continue
        if isinstance(value, float) and isinstance(convert(hint, value, name, problems), int):
            return name, f": expected a whole number, found float {value}"
        convert(hint, value, name, problems)
        if problems:
            return name, problems[0].removeprefix(name)
        least, most = shown.at_least, shown.at_most
        if least is not None and most is not None and not least <= value <= most:
            return name, f": {value} is not between {_short(least)} and {_short(most)}"
        if least is not None and not value >= least:
            return name, f": {value} is less than {_short(least)}"
    return None


def _words(hint: Any) -> tuple[str, ...]:
    """The words of a type that is a Literal, or a Literal and None; none for any other type."""
    kinds = [hint, *typing.get_args(hint)]
    return next((typing.get_args(kind) for kind in kinds if typing.get_origin(kind) is Literal), ())


def _short(bound: float) -> float:
    """A bound as it is written: without a fraction that is 0."""
    return int(bound) if bound == int(bound) else bound
