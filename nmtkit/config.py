"""YAML to frozen dataclasses and back. The dataclass is the schema; all mistakes are reported together.

The surprises of YAML 1.1 are avoided: ``5e-4`` is a number, ``1:30`` and ``010`` are not, and ``no`` (Norwegian),
``yes``, ``on`` and ``off`` are strings. A file cannot construct Python objects.
"""

import dataclasses
import difflib
import re
import reprlib
import types
import typing
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import yaml

from nmtkit.errors import UserError

T = TypeVar("T")

_MOST_VALUES = 10_000  # in a YAML text with aliases expanded; a configuration has a hundred

Resume = Literal["free", "hyperparameter", "fixed"]
# Whether a field may change when a run is resumed. free: yes, because it only ends the run or limits its memory.
# hyperparameter: yes, because it affects neither the order of the data nor any shape. fixed: no.
FREE, HYPERPARAMETER, FIXED = {"resume": "free"}, {"resume": "hyperparameter"}, {"resume": "fixed"}


def free(default: T) -> T:
    """A field of a dataclass that may change when a run is resumed."""
    return dataclasses.field(default=default, metadata=FREE)


def hyperparameter(default: T) -> T:
    """A field of a dataclass that may change when a run is resumed, and then applies to later updates."""
    return dataclasses.field(default=default, metadata=HYPERPARAMETER)


class _Loader(yaml.SafeLoader):
    """Safe YAML with true and false as the only booleans and only decimal numbers.

    The number of values is limited, because nested aliases can expand to billions.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0  # composed so far, including those of aliases
        self._sizes: dict[yaml.Node | None, int] = {}  # values in each complete node

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before, node = self._values, super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            self._values += self._sizes.get(node, _MOST_VALUES + 1)  # infinite within its own anchor
            if self._values > _MOST_VALUES:
                mark: Any = event.start_mark
                problem = f"its aliases expand to more than {_MOST_VALUES:,} values"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        else:
            self._values += 1
            self._sizes[node] = self._values - before
        return node


class _Dumper(yaml.SafeDumper):
    """Writes YAML that ``_Loader`` reads back as the same value: strings that look like another type are quoted."""


# PyYAML looks up the type of a plain scalar by its first character; these can begin a number.
_NUMBER = list("-+.0123456789")
_RESOLVERS = {
    "bool": (r"^(true|false|True|False)$", list("tfTF")),
    "int": (r"^[-+]?(0|[1-9]\d*)$", _NUMBER),
    "float": (r"^[-+]?(\d+\.\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf|\.nan)$", _NUMBER),
}
for _side in (_Loader, _Dumper):  # each with its own table, because all loaders of the process share PyYAML's
    _side.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in _RESOLVERS]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for _kind, (_pattern, _letters) in _RESOLVERS.items():
        _side.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), _letters)


def _unique_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    """The mapping in a node. Raises MarkedYAMLError for a duplicate key, of which YAML would keep the last value.

    It also raises this error for a key that is not hashable.
    """
    seen = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable) or key in seen:
            problem = f"key {_SHORT.repr(key)} is {'given twice' if isinstance(key, Hashable) else 'not text'}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _unique_mapping)


def parse_yaml(text: str, where: str) -> Any:
    """The value of a YAML text. Raises UserError with ``where``, the name of the text, and the line of the error."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{where}:{line}: not valid YAML: {error.problem or error.context}") from None
    except (LookupError, AttributeError, TypeError):  # for !!bool maybe, !!int "", !!timestamp soon and !!map [1]
        raise UserError(f"{where}: not valid YAML: a value is not of the type that its tag names") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2020-99-99
        reason = " ".join(str(error).split()) or "nested too deeply"
        raise UserError(f"{where}: not valid YAML: {reason}") from None


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises UserError if it cannot be read, is invalid, or is not a mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    value = parse_yaml(text, str(path))
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected 'key: value' lines, found {_describe(value)}")
    return value


def to_dict(config: Any) -> dict[str, Any]:
    """A dataclass as plain values that YAML can hold (tuples become lists)."""
    return typing.cast(dict[str, Any], _plain(dataclasses.asdict(config)))


def dump_yaml(value: Any) -> str:
    """``value`` as YAML, which ``parse_yaml`` reads back as the same value; mappings keep their order."""
    return yaml.dump(_plain(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def inline_yaml(value: Any) -> str:
    """``value`` as YAML on one line, to be written after a key."""
    # In a list, because PyYAML adds an end-of-document marker to a bare scalar.
    listed = yaml.dump([_plain(value)], Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=10_000)
    return listed.strip().removeprefix("[").removesuffix("]")


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"training": {"lr": 5e-4}}`` as ``{"training.lr": 5e-4}``; values that are not mappings are unchanged."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def nested(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The inverse of ``flatten``: ``("training.lr", 5e-4)`` as ``{"training": {"lr": 5e-4}}``; the last one counts."""
    result: dict[str, Any] = {}
    for dotted, value in values:
        for key in reversed(dotted.split(".")):  # innermost first
            value = {key: value}
        result = merge(result, value)
    return result


def places(text: str) -> dict[str, slice]:
    """The position of each value in a YAML text whose root is a mapping, by dotted key; a list is one value."""
    slices: dict[str, slice] = {}
    waiting: list[tuple[str, Any]] = [("", yaml.compose(text, _Loader))]
    for prefix, node in waiting:  # grows in the loop
        for key, value in node.value:
            if isinstance(value, yaml.MappingNode):
                waiting.append((f"{prefix}{key.value}.", value))
            else:
                slices[f"{prefix}{key.value}"] = slice(value.start_mark.index, value.end_mark.index)
    return slices


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``base`` updated with the values of ``over``, mapping by mapping; lists are replaced, not joined."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def parse_settings(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """``["training.lr=5e-4"]`` as ``{"training": {"lr": 5e-4}}``; the last setting of a key counts.

    name: that of the argument, for messages. Raises UserError for a setting without key or value, and for a value that
    is not valid YAML.
    """
    values = []
    for setting in settings:
        dotted, equals, text = setting.partition("=")
        if not equals or not all(dotted.strip().split(".")):
            raise UserError(f"`{name}` {setting}: expected KEY=VALUE, for example training.optimizer.lr=5e-4")
        values.append((dotted.strip(), parse_yaml(text, f"`{name}` {dotted}")))
    return nested(values)


def build(schema: type[T], values: Any, where: str, parts: Mapping[str, type] = MappingProxyType({})) -> T:
    """An instance of the dataclass ``schema`` from plain values, including nested dataclasses.

    Raises a single UserError, beginning with ``where``, for all unknown and missing keys, wrong types and invalid
    values, with their dotted keys. parts: the schemas of fields annotated as Any.
    """
    problems: list[str] = []
    result = _build(schema, values, "", problems, parts)
    if problems:
        raise UserError(f"{where}: " + "; ".join(problems))
    return typing.cast(T, result)


def require_counts(least: int, config: Any, *names: str) -> None:
    """For ``__post_init__``: raises ValueError for the first of these fields that is neither None nor a count.

    A count is at least ``least`` and at most 10^12, so that products with it do not overflow 64 bits.
    """
    for name in names:
        value = getattr(config, name)
        if value is not None and value < least:
            raise ValueError(f"{name}: {value} is not at least {least}")
        if value is not None and value > 10**12:
            raise ValueError(f"{name}: {value} is more than 10^12")


def require_fraction(config: Any, *names: str) -> None:
    """For ``__post_init__``: raises ValueError for the first of these fields that is not in [0, 1)."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value < 1:
            raise ValueError(f"{name}: {value} is not in [0, 1)")


def unknown_key(prefix: str, key: object, known: Iterable[str]) -> str:
    """The message about an unknown key: its path, and the most similar known key or all of them."""
    known = list(known)
    near = difflib.get_close_matches(str(key), known, n=1)
    hint = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(known)}"
    return f"{prefix}{key}: unknown key; {hint}"


def _build(
    schema: Any, values: Any, path: str, problems: list[str], parts: Mapping[str, type] = MappingProxyType({})
) -> Any:
    """``build`` for the part at ``path``; on errors, adds them to ``problems`` and returns None."""
    if not isinstance(values, Mapping):
        problems.append(f"{path or 'the file'}: expected 'key: value' pairs, found {_describe(values)}")
        return None
    fields = {field.name: field for field in dataclasses.fields(schema)}
    hints = {**typing.get_type_hints(schema), **parts}
    prefix = f"{path}." if path else ""
    for key in values:
        if key not in fields:
            problems.append(unknown_key(prefix, key, fields))
    before = len(problems)
    made = {}
    for name, field in fields.items():
        if name in values:
            made[name] = convert(hints[name], values[name], prefix + name, problems)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            problems.append(f"{prefix}{name}: missing")
    if len(problems) > before:  # __post_init__ needs valid fields
        return None
    try:
        return schema(**made)
    except ValueError as error:  # raised by __post_init__
        # Messages may have fields in backquotes; within a part these are removed, and the part is the prefix.
        problems.append(prefix + re.sub(r"`(\w+)`", r"\1", str(error)) if prefix else str(error))
        return None


def convert(hint: Any, value: Any, path: str, problems: list[str]) -> Any:
    """Convert ``value`` to the type ``hint``; on errors, adds them to ``problems`` and returns None.

    Types may be bool, int, float, str, dataclasses, tuples and lists of one type, dict, Literal, and a union of one of
    these with None or a Literal.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        kind, *literal = (a for a in arguments if a is not type(None))
        if not literal or not isinstance(value, str):
            return convert(kind, value, path, problems)
        words = typing.get_args(literal[0])  # as in int | Literal["auto"]
        if value in words:
            return value
        problems.append(f"{path}: expected {_NAMES[kind]} or {', '.join(words)}; found {_describe(value)}")
        return None
    if origin is Literal:
        if value in arguments and not isinstance(value, bool):  # True equals 1
            return value
        problems.append(f"{path}: expected one of {', '.join(map(str, arguments))}; found {_describe(value)}")
    elif dataclasses.is_dataclass(hint):
        return _build(hint, value, path, problems)
    elif origin in (tuple, list):
        if isinstance(value, list | tuple):
            before, items = len(problems), list[Any]()
            for i, v in enumerate(value):
                items.append(convert(arguments[0], v, f"{path}[{i}]", problems))
                if len(problems) >= before + _MOST_PROBLEMS:  # a list may be very long
                    break
            return origin(items)
        problems.append(f"{path}: expected a list, found {_describe(value)}")
    elif origin is dict:
        if isinstance(value, Mapping):
            return {str(k): convert(arguments[1], v, f"{path}.{k}", problems) for k, v in value.items()}
        problems.append(f"{path}: expected 'key: value' pairs, found {_describe(value)}")
    elif hint is float and (isinstance(value, float) or (type(value) is int and abs(value) < _HUGE)):
        return float(value)
    elif hint is int and type(value) in (int, float) and abs(value) < _HUGE and value == int(value):
        return int(value)  # people write a million as 1e6
    elif hint in (bool, str) and type(value) is hint:
        return value
    else:
        problems.append(f"{path}: expected {_NAMES[hint]}, found {_describe(value)}")
    return None


_MOST_PROBLEMS = 10  # reported for one list
_HUGE = 1 << 62  # above any count; PyTorch's integers have 64 bits
_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _describe(value: Any) -> str:
    """A description of a value with an unexpected type, for an error."""
    return "nothing" if value is None else f"{type(value).__name__} {_SHORT.repr(value)}"


_SHORT = reprlib.Repr()  # short even if aliases expand to billions of items
_SHORT.maxlevel = 2
_SHORT.maxstring = _SHORT.maxother = 200


def _plain(value: Any) -> Any:
    """``value`` with tuples as lists and mappings as dicts, because a safe dumper supports no other types."""
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
