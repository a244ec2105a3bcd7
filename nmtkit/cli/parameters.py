"""Options of a command from the fields of a dataclass.

A command takes its dataclass: ``def train(options: TrainOptions, dry_run: Annotated[bool, Option(...)])``. typer gets a
function with a parameter for each field that is an option, and the command gets an instance of the dataclass.
"""

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from nmtkit.cli.command import Volume, shown
from nmtkit.options import Option, check, check_value, options_of, takes_path, types_of


class Without(tuple[str, ...]):
    """In the annotation of a dataclass: fields that are not options of this command."""


def flat(function: Callable[..., None], reworded: Callable[[str], str]) -> Callable[..., None]:
    """The command ``function`` with the fields of its dataclasses, and --quiet and --verbose, as separate parameters.

    Its log is shown on stderr, with each line ``reworded``.
    """
    parameters: list[inspect.Parameter] = []
    schemas: dict[str, tuple[type, list[str]]] = {}
    alone: dict[str, tuple[Any, Option]] = {}  # options that are parameters of the command

    def add(name: str, hint: Any, default: Any, about: Option) -> None:
        names = [each.name for each in parameters]
        place = names.index(about.before) if about.before in names else len(names)
        parameters.insert(place, _parameter(name, hint, default, about))

    last = inspect.Parameter("volume", inspect.Parameter.KEYWORD_ONLY, annotation=Volume)
    for own in (*inspect.signature(function).parameters.values(), last):
        kind, *more = get_args(own.annotation) if get_origin(own.annotation) is Annotated else (own.annotation,)
        if is_dataclass(kind) and isinstance(kind, type):
            left_out = next(iter(more), ())
            chosen = [(field, about) for field, about in options_of(kind) if field.name not in left_out]
            schemas[own.name] = kind, [field.name for field, _ in chosen]
            for field, about in chosen:
                add(field.name, types_of(kind)[field.name], ... if field.default is MISSING else field.default, about)
        else:
            alone[own.name] = kind, more[0]
            add(own.name, kind, own.default, more[0])

    @functools.wraps(function)
    def command(**values: Any) -> None:
        parts = {part: {name: values.pop(name) for name in names} for part, (_, names) in schemas.items()}
        with shown(Volume(**parts.pop("volume")), reworded):
            for part, given in parts.items():
                named = {name: value for name, value in given.items() if value is not None}
                values[part] = schemas[part][0](**named)
                check(values[part])
            for name, (kind, about) in alone.items():
                check_value(f"--{name.replace('_', '-')}", kind, values[name], about)
            function(**values)

    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameter(name: str, hint: Any, default: Any, about: Option) -> inspect.Parameter:
    """The parameter that typer turns into an option."""
    typed = _typed(hint)
    names = about.names.split()
    if not any(each.startswith("--") for each in names):
        plain = name.replace("_", "-")
        # A flag whose default is on, or decided elsewhere, can also be switched off.
        switch = bool in (typed, *get_args(typed)) and default is not False
        names.insert(0, f"--{plain}/--no-{plain}" if switch else f"--{plain}")
    texts: dict[str, Any] = {
        "help": about.help + about.bounds, "metavar": about.metavar, "autocompletion": about.complete,
        "rich_help_panel": about.group or None,
        "parser": _path if takes_path(hint) else None,
    }  # fmt: skip
    info = typer.Argument(**texts) if about.argument else typer.Option(*names, **texts)
    usual = default
    if default is not ... and any(get_origin(kind) is list for kind in get_args(typed)):
        usual = None  # the help states the default of a repeatable option
    elif isinstance(default, str) and Path in (typed, *get_args(typed)):
        usual = Path(default)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=usual, annotation=Annotated[typed, info])


def _path(text: str) -> Path | str:
    """A path; an empty text stays one, and is refused, because an empty path is the current folder."""
    return Path(text) if text else text


def _typed(hint: Any) -> Any:
    """The type that typer gets for a field's type.

    A union with a path becomes a path, a union with a sequence a list. Other unions, such as comma-separated numbers,
    or a number or a word, become text. The lines of a file become a path.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not types.NoneType]
        if len(kinds) == 1:
            return _typed(kinds[0]) | None
        single = (int, float, str) if Path in kinds else (int, float)  # comma-separated numbers, and lines of a file
        lists = [kind for kind in kinds if get_origin(kind) is Sequence and get_args(kind)[0] not in single]
        one = _typed(lists[0]) if lists else Path if Path in kinds else str
        return one | None if types.NoneType in arguments or lists else one
    if origin is tuple and ... not in arguments:
        return tuple[tuple(map(_typed, arguments))]  # type: ignore[misc]
    if origin is Sequence:
        return list[_typed(arguments[0])] | None  # type: ignore[misc]
    return hint
