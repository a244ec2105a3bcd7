"""Presets: the published systems as plain values, from one file in ``nmtkit/presets`` for each of ``nmtkit/models``.

A file reads like its paper's tables. ``base`` is a complete experiment, every value with its section; each of
``systems`` is a row of a table and only what differs from the base, which is merged into it as ``--config`` would be.
"""

import copy
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from nmtkit import config as configs
from nmtkit.errors import UserError

# What a system says of its row in the paper; ``task`` names one of the file's ``tasks``.
_ROW = ("section", "task", "score", "parameters")
# The parts of an experiment in which a system may differ from its base.
_PARTS = ("model", "data", "training", "search")
# The parts of a file, and of its base; neither has one that may be left out.
_FILE = ("paper", "tasks", "base", "systems")
_BASE = ("task", "architecture", *_PARTS)


@dataclass(frozen=True)
class Preset:
    """A published system as its file has it: the base, and what it has in its place."""

    file: str  # name of the file, dtmt.yaml
    paper: dict[str, Any]  # the block ``paper`` of an experiment
    base: dict[str, Any]  # the other blocks, complete, as the file's base has them
    changes: dict[str, Any]  # what this system has in their place


def preset_names() -> list[str]:
    """The names of all presets, paper by paper, in the order of the tables."""
    return list(_presets())


def find_preset(name: str) -> Preset:
    """The preset of this name. Raises UserError with the nearest names where there is none."""
    presets = _presets()
    if name not in presets:
        # Names like the whole of it, else names that it is a part of: rnnsearch is too long to be like rnn.
        inside = [other for other in presets if len(name) > 2 and name in other]
        near = difflib.get_close_matches(name, presets, n=3) or inside[:3]
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UserError(f"`model` {name}: no such preset; {hint}`nmtkit models` lists them")
    return presets[name]


def load_preset(name: str) -> dict[str, Any]:
    """The plain values of an experiment, the caller's own. Raises UserError as ``find_preset`` does."""
    preset = find_preset(name)
    # A copy, because the files are read once and whoever asks may change what he gets.
    return copy.deepcopy({"paper": preset.paper, **configs.merge(preset.base, preset.changes)})


def describe_preset(name: str) -> str:
    """The whole preset as YAML, which ``load_preset`` would give as values, with the comments of its file.

    ``(base: VALUE)`` in a comment marks a value that differs from the base, whose lines and comments these are.
    """
    preset = find_preset(name)
    changes, text = configs.flatten(preset.changes), _text(preset.file)
    places = {key.removeprefix("base."): place for key, place in configs.places(text).items() if key[:5] == "base."}
    # The base's own lines; from the last change to the first, so that the places before it stay where they are.
    for key in sorted(changes, key=lambda key: places[key].start, reverse=True):
        place = places[key]
        begin, end = text.rindex("\n", 0, place.start) + 1, text.index("\n", place.stop)
        # What may follow the value on its line: the brace of {kind: constant}, and the comment.
        rest, _, comment = text[place.stop : end].partition("#")
        line = f"{text[begin : place.start]}{configs.inline_yaml(changes[key])}{rest}".rstrip()
        text = f"{text[:begin]}{line:<31}  # (base: {text[place]}){comment}{text[end:]}"
    # From the line after ``task`` to the next one that is not indented.
    [base] = re.findall(r"(?ms)^base:\n  task: .*?\n(.*?)^\S", text)
    return configs.dump_yaml({"paper": preset.paper}) + re.sub(r"(?m)^  ", "", base).rstrip() + "\n"


@cache
def _presets() -> dict[str, Preset]:
    """Every preset by its name, in the order of the files and of the systems in them. The files are read once."""
    files = sorted(file.name for file in resources.files("nmtkit.presets").iterdir() if file.name.endswith(".yaml"))
    return {name: preset for file in files for name, preset in read_presets(file, _text(file))}


def _text(file: str) -> str:
    """The text of a preset file by its name."""
    return resources.files("nmtkit.presets").joinpath(file).read_text(encoding="utf-8")


def read_presets(file: str, text: str) -> Iterator[tuple[str, Preset]]:
    """The systems in a preset file.

    Raises UserError with the file for a part that it lacks, and with the system for a key that the base does not have.
    """
    content = configs.parse_yaml(text, file)
    missing = [key for key in _FILE if not content.get(key)]
    missing += [f"base.{key}" for key in _BASE if not missing and not content["base"].get(key)]
    if missing:
        raise UserError(f"{file}: {', '.join(missing)}: missing; every file of presets has {', '.join(_FILE)}")
    base = {key: value for key, value in content["base"].items() if key != "task"}
    for name, system in content["systems"].items():
        if not isinstance(system, Mapping):
            raise UserError(f"{file}: {name}: expected what differs from the base, as in {{section: Table 1}}")
        known = {**dict.fromkeys(_ROW), **{part: base[part] for part in _PARTS}}
        unknown = list(_unknown(system, known))
        if unknown:
            raise UserError(f"{file}: {name}: " + "; ".join(unknown))
        task = system.get("task", content["base"]["task"])
        if task not in content["tasks"]:
            raise UserError(f"{file}: {name}: task: {task} is not one of {', '.join(content['tasks'])}")
        # What a paper does not say is null, as in the schema.
        row = {key: system.get(key) for key in ("section", "score", "parameters")}
        paper = {"title": content["paper"], "section": row.pop("section"), "task": content["tasks"][task], **row}
        yield name, Preset(file, paper, base, {part: system[part] for part in _PARTS if part in system})


def _unknown(values: Mapping[str, Any], known: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """A message for each key of ``values`` that ``known``, or the mapping at its place in it, does not have."""
    for key, value in values.items():
        if key not in known:
            yield configs.unknown_key(path, key, known)
        elif isinstance(value, Mapping) and isinstance(known[key], Mapping):
            yield from _unknown(value, known[key], f"{path}{key}.")
