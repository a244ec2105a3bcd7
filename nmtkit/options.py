"""An option is declared once: a field of a dataclass, with its type, its default, its help, its group and its bounds.

``nmtkit/cli/parameters.py`` turns the fields into options of a command, ``by_keyword`` into arguments of a Python
function, and ``nmtkit serve`` reads the fields of a request from JSON.
"""

import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

from nmtkit.config import convert
from nmtkit.errors import UserError, refuse_string

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """The description of an option: all but its type and its default."""

    help: str
    group: str = ""  # its heading in --help; "": the first group, of what most users need
    names: str = ""  # on the command line, such as "--from" or "--data -d"; "": the field's name
    metavar: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    before: str = ""  # the field before which --help lists it; "": in the order of the fields
    argument: bool = False  # positional on the command line
    complete: Callable[[str], list[str]] | None = None  # completes a prefix of a value in the shell

    @property
    def bounds(self) -> str:
        """The bounds, as --help shows them."""
        if self.at_least is None:
            return ""
        least, most = _short(self.at_least), self.at_most
        return f"  [at least {least}]" if most is None else f"  [{least} to {_short(most)}]"

    def within(self, group: str) -> "Option":
        """The same option under another heading of --help."""
        return replace(self, group=group)


def option(default: T, shown: Option) -> T:
    """A field of a dataclass that is an option."""
    return field(default=default, metadata={"option": shown})


def as_in(schema: type, name: str) -> Any:
    """A field that overrides the field ``name`` of ``schema``, with the option declared there; None keeps its value."""
    return option(None, next(shown for each, shown in options_of(schema) if each.name == name))


def options_of(schema: type) -> Iterator[tuple[Field[Any], Option]]:
    """The fields of a dataclass that are options, with their descriptions."""
    return ((each, each.metadata["option"]) for each in fields(schema) if "option" in each.metadata)


def by_keyword(schema: Callable[P, S], function: Callable[[S], R], name: str) -> Callable[P, R]:
    """``function``, which takes a dataclass, as a function of the dataclass's fields, listed in its docstring.

    name: that of the variable in the module of ``function``, by which ``help`` and ``pickle`` find it.
    It raises UserError as ``check`` does.
    """
    signature = inspect.signature(schema)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        signature.bind(*args, **kwargs)  # its message about a wrong name does not have the schema's
        options: Any = schema(*args, **kwargs)
        check(options)
        return function(options)

    called.__name__ = called.__qualname__ = name
    called.__doc__ = _documented(function, cast(type, schema))
    returned = inspect.signature(function).return_annotation
    vars(called)["__signature__"] = signature.replace(return_annotation=returned)
    return called


def documented(schema: type[T]) -> type[T]:
    """A decorator that adds the options of a dataclass to its docstring."""
    schema.__doc__ = _documented(schema, schema)
    return schema


def _documented(described: Any, schema: type) -> str:
    """The docstring of a function or class, followed by the options of a dataclass, by their names in Python."""
    names = {f"--{each.name.replace('_', '-')}": f"`{each.name}`" for each, _ in options_of(schema)}
    lines = "".join(f"    {each.name}: {shown.help}\n" for each, shown in options_of(schema))
    arguments = re.sub("--[a-z-]+", lambda match: names.get(match[0], match[0]), lines)
    return f"{inspect.getdoc(described)}\n\nOptions, as on the command line:\n\n{arguments}"


def check(options: Any) -> None:
    """Raise UserError if an option is a single text where several are expected, and as ``check_value`` does."""
    for each, shown in options_of(options):
        hint, value = types_of(options.__class__)[each.name], getattr(options, each.name)
        if hint == Sequence[str]:
            refuse_string(each.name, value)
        check_value(f"`{each.name}`", hint, value, shown)


def check_value(name: str, hint: Any, value: Any, shown: Option) -> None:
    """Raise UserError if a value is not a number or a word that ``hint`` asks for, or out of bounds.

    name: that of the option in the message.
    """
    if complaint := _complaint(hint, value, shown):
        raise UserError(f"{name}{complaint}")


@functools.cache
def types_of(schema: Callable[..., Any]) -> dict[str, Any]:
    """The types of a dataclass's fields by their names."""
    return typing.get_type_hints(schema)


def mistake(config: Any) -> tuple[str, str] | None:
    """The first field of a dataclass with a value of the wrong type or out of bounds, and the complaint about it.

    The two concatenated are a message, as in "beam_size" and ": 0 is not between 1 and 10000".
    """
    hints = types_of(config.__class__)
    for each in fields(config):
        name, shown = each.name, each.metadata.get("option", Option(""))
        value, hint, problems = getattr(config, name), hints[name], list[str]()
        if value is None:
            continue
        if not (isinstance(value, str) and _words(hint)):  # these words are checked below
            convert(hint, value, name, problems)
        complaint = problems[0].removeprefix(name) if problems else _complaint(hint, value, shown)
        if complaint:
            return name, complaint
    return None


def _complaint(hint: Any, value: Any, shown: Option) -> str | None:
    """The complaint about an empty path, and a value that is no number, no word of its Literal, or out of bounds."""
    if takes_path(hint) and "" in (value if isinstance(value, list | tuple) else [value]):
        return ": is empty; name a file or a folder"
    number = next((kind for kind in (int, float) if hint in (kind, kind | None)), None)
    if isinstance(value, str):
        words = _words(hint)
        if number or (shown.at_least is not None and not words and str not in typing.get_args(hint)):
            return f": expected a number, found {value!r}"
        return f" {value}: not one of {', '.join(words)}" if words and value not in words else None
    missing = value is None and hint != number
    if number and not missing and (isinstance(value, bool) or not isinstance(value, int | number)):
        return f": expected a {'whole ' * (number is int)}number, found {type(value).__name__} {value}"
    least, most = shown.at_least, shown.at_most
    if value is None or least is None or (value >= least and (most is None or value <= most)):
        return None
    limits = f"less than {_short(least)}" if most is None else f"not between {_short(least)} and {_short(most)}"
    return f": {value} is {limits}"


def takes_path(hint: Any) -> bool:
    """Whether a value of this type may be or contain a path."""
    return hint is Path or any(map(takes_path, typing.get_args(hint)))


def _words(hint: Any) -> tuple[str, ...]:
    """The values of a type that is a Literal or an optional Literal; () for any other type."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    kind = kinds[0] if len(kinds) == 1 and type(None) in typing.get_args(hint) else hint
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _short(bound: float) -> float:
    """A bound as it is printed: without a fraction of 0."""
    return int(bound) if bound == int(bound) else bound
