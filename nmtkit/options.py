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
from nmtkit.errors import UserError

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
    """``function``, which takes a dataclass, as a function that takes the dataclass's own arguments.

    It raises UserError for a value that is out of bounds, or not one of the words of its Literal.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        options: Any = schema(*args, **kwargs)
        for each, shown in options_of(options):
            if complaint := _complaint(types_of(schema)[each.name], getattr(options, each.name), shown):
                raise UserError(f"`{each.name}`{complaint}")
        return function(options)

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
        if isinstance(value, str) and _words(hint):
            if complaint := _complaint(hint, value, shown):
                return name, complaint
            continue
        if isinstance(value, float) and isinstance(convert(hint, value, name, problems), int):
            return name, f": expected a whole number, found float {value}"
        convert(hint, value, name, problems)
        if problems:
            return name, problems[0].removeprefix(name)
        if complaint := _complaint(hint, value, shown):
            return name, complaint
    return None


def _complaint(hint: Any, value: Any, shown: Option) -> str | None:
    """What is wrong with a value of the right type: it is not one of the words of its Literal, or out of bounds."""
    if isinstance(value, str):
        words = _words(hint)
        return f" {value}: not one of {', '.join(words)}" if words and value not in words else None
    least, most = shown.at_least, shown.at_most
    if value is None or least is None or (value >= least and (most is None or value <= most)):
        return None
    limits = f"less than {_short(least)}" if most is None else f"not between {_short(least)} and {_short(most)}"
    return f": {value} is {limits}"


def _words(hint: Any) -> tuple[str, ...]:
    """The words of a type that is a Literal, or a Literal and None; none for any other type."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    kind = kinds[0] if len(kinds) == 1 and type(None) in typing.get_args(hint) else hint
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _short(bound: float) -> float:
    """A bound as it is written: without a fraction that is 0."""
    return int(bound) if bound == int(bound) else bound
