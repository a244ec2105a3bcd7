"""Presets: the configurations of the published systems, one YAML file in ``nmtkit/presets`` for each model file.

``base`` is a complete experiment, with the section of the paper as a comment on every value; each of ``systems`` is a
row of a table, with the values that differ from the base. Every system has a small version, NAME-small, for 10,000 to
200,000 pairs: the file's ``small``, which never enlarges a model, and then the system's own ``small`` are merged into
the system.
"""

import copy
import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from nmtkit import config as configs
from nmtkit.errors import UserError

# Keys of a system; ``task`` is one of the file's ``tasks``, also that of its ``small``.
_ROW = ("section", "task", "score", "parameters", "small")
_PARTS = ("model", "data", "training", "search")  # the parts in which a system may differ from its base
# The required keys of a file and of its base.
_FILE = ("paper", "tasks", "base", "small", "systems")
_BASE = ("task", "architecture", *_PARTS)

SMALL = "-small"  # suffix of small versions
DEFAULT = "nematus-low-resource-small"  # the default of `nmtkit train` for small corpora, also called "small"
DEFAULT_FROM_250K = "nematus-low-resource-250k-small"  # the default for larger corpora
# ``paper.task`` of a small version. Its score was measured by nmtkit's authors; null if it was not trained.
TRAINED = (
    "Multi30k English-German, 29,000 pairs, trained here (recipes/multi30k/README.md); test2016, sacreBLEU 13a, cased"
)
UNTRAINED = "10,000 to 200,000 pairs; not trained here"


@dataclass(frozen=True)
class Preset:
    """A published system: the base and its changes."""

    file: str  # dtmt.yaml
    paper: dict[str, Any]
    base: dict[str, Any]  # the file's base, without ``paper``
    changes: dict[str, Any]  # merged into the base
    small: "Preset | None"  # the small version; None for a small version


def preset_names() -> list[str]:
    """The names of all published systems, in the order of files and tables, without their small versions."""
    return list(_presets())


def default_preset(tokens: int) -> str:
    """The name of the default preset of `nmtkit train` for this many target tokens."""
    return DEFAULT if tokens < 250_000 else DEFAULT_FROM_250K


def find_preset(name: str, argument: str = "model") -> Preset:
    """The preset of this name, or ``DEFAULT`` for "small".

    Raises UserError with similar names if there is none; ``argument`` is what gave the name.
    """
    presets = _presets()
    name = _full(name)
    system = presets.get(name.removesuffix(SMALL))
    if system is not None and system.small is not None and name.endswith(SMALL):
        return system.small
    if name not in presets:
        # Similar names, else names that contain it: difflib finds rnnsearch too long to be similar to rnn.
        inside = [other for other in presets if len(name) > 2 and name in other]
        every = [*presets, *(other + SMALL for other in presets), "small"]
        near = difflib.get_close_matches(name, every, n=3) or inside[:3]
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UserError(f"`{argument}` {name}: no such preset; {hint}`nmtkit models` lists them")
    return presets[name]


def _full(name: str) -> str:
    """The name of the preset that "small" is short for, or the name itself."""
    return DEFAULT if name == "small" else name


def load_preset(name: str) -> dict[str, Any]:
    """A copy of a preset's values. Raises UserError as ``find_preset`` does."""
    preset = find_preset(name)
    return copy.deepcopy({"paper": preset.paper, **configs.merge(preset.base, preset.changes)})


def describe_preset(name: str) -> str:
    """The complete preset as YAML with the comments of its file; parsed, it has the values of ``load_preset``.

    A value that differs from the base has the comment ``(base: VALUE)``, and a value that the base lacks ``(new)``.
    Comments of the system and, for a small version, of the file's ``small`` replace those of the base.
    """
    preset, system = find_preset(name), f"systems.{_full(name).removesuffix(SMALL)}."
    text = _text(preset.file)
    comments = _comments(text, [system] if preset.small else [system, "small.", f"{system}small."])
    for path, last, value, _ in _additions(preset.changes, preset.base):
        key = path + last
        text = _insert(text, key, value, next((c for k, c in comments.items() if f"{k}.".startswith(f"{key}.")), ""))
    changes = {k: v for k, v in configs.flatten(preset.changes).items() if k in configs.flatten(preset.base)}
    places = {key.removeprefix("base."): place for key, place in configs.places(text).items() if key[:5] == "base."}
    # From the last change to the first, so that earlier positions stay valid.
    for key in sorted(changes, key=lambda key: places[key].start, reverse=True):
        place = places[key]
        begin, end = text.rindex("\n", 0, place.start) + 1, text.index("\n", place.stop)
        # The rest of the line: a comment, perhaps after the brace of {kind: constant}.
        rest, _, comment = text[place.stop : end].partition("#")
        comment = comments.get(key) or comment
        line = f"{text[begin : place.start]}{configs.inline_yaml(changes[key])}{rest}".rstrip()
        which = f"{key.rpartition('.')[2]}: " if "{" in text[begin : place.start] else ""
        text = f"{text[:begin]}{line:<31}  # (base: {which}{text[place]}){comment}{text[end:]}"
    # From the line after ``task`` to the end of the base.
    [base] = re.findall(r"(?ms)^base:\n  task: .*?\n(.*?)^\S", text)
    return configs.dump_yaml({"paper": preset.paper}) + re.sub(r"(?m)^  ", "", base).rstrip() + "\n"


def _comments(text: str, paths: Sequence[str]) -> dict[str, str]:
    """The comment of each key below ``paths``, the last path first; in ``systems``, only of a key alone on its line."""
    places = configs.places(text)
    lines = {key: text.count("\n", 0, place.start) for key, place in places.items()}
    keys = Counter(lines.values())
    rest = {key: text[place.stop : text.index("\n", place.stop)] for key, place in places.items()}
    return {
        key.removeprefix(path): rest[key].partition("#")[2]
        for path in paths
        for key in places
        if key.startswith(path) and "#" in rest[key] and (path == "small." or keys[lines[key]] == 1)
    }


def _additions(
    changes: Mapping[str, Any], base: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, str, Any, Mapping[str, Any]]]:
    """Each key of ``changes`` that ``base`` lacks: the path of its mapping, key, value, and the mapping in ``base``."""
    for key, value in changes.items():
        if key not in base:
            yield path, key, value, base
        elif isinstance(value, Mapping) and isinstance(base[key], Mapping):
            yield from _additions(value, base[key], f"{path}{key}.")


def _insert(text: str, key: str, value: Any, comment: str) -> str:
    """The text of a preset file with a value added to its base, at the end of the mapping that has the key."""
    parent, _, name = f"base.{key}".rpartition(".")
    last = max(place.stop for other, place in configs.places(text).items() if other.startswith(f"{parent}."))
    begin, end = text.rindex("\n", 0, last) + 1, text.index("\n", last)
    # Within the braces of a flow mapping, or on a new line.
    if f"{parent.rpartition('.')[2]}: {{" in text[begin:last]:
        return f"{text[:last]}, {name}: {configs.inline_yaml(value)}{text[last:]}"
    line = f"{'  ' * key.count('.')}  {name}: {configs.inline_yaml(value)}"
    return f"{text[:end]}\n{line:<31}  # (new){comment}{text[end:]}"


@cache
def _presets() -> dict[str, Preset]:
    """Every preset by name, in the order of files and systems."""
    files = sorted(file.name for file in resources.files("nmtkit.presets").iterdir() if file.name.endswith(".yaml"))
    return {name: preset for file in files for name, preset in read_presets(file, _text(file))}


def _text(file: str) -> str:
    return resources.files("nmtkit.presets").joinpath(file).read_text(encoding="utf-8")


def read_presets(file: str, text: str) -> Iterator[tuple[str, Preset]]:
    """The presets in a file. Raises UserError for missing parts, and for keys of a system that the base lacks."""
    content = configs.parse_yaml(text, file)
    missing = [key for key in _FILE if not content.get(key)]
    missing += [f"base.{key}" for key in _BASE if not missing and not content["base"].get(key)]
    if missing:
        raise UserError(f"{file}: {', '.join(missing)}: missing; every preset file has {', '.join(_FILE)}")
    base = {key: value for key, value in content["base"].items() if key != "task"}
    for key, value in content["small"].get("model", {}).items():
        if type(value) is int and key not in base["model"]:  # an upper limit of a size
            raise UserError(f"{file}: {configs.unknown_key('small.model.', key, base['model'])}")
    for name, system in content["systems"].items():
        if not isinstance(system, Mapping):
            raise UserError(f"{file}: {name}: expected differences from the base, as in {{section: Table 1}}")
        known = {**dict.fromkeys(_ROW), **{part: base[part] for part in _PARTS}}
        unknown = [configs.unknown_key(path, key, mapping) for path, key, _, mapping in _additions(system, known)]
        if unknown:
            raise UserError(f"{file}: {name}: " + "; ".join(unknown))
        if not system.get("section"):
            raise UserError(f"{file}: {name}: section: missing; name the table or the section of the paper")
        task = system.get("task", content["base"]["task"])
        if task not in content["tasks"]:
            raise UserError(f"{file}: {name}: task: {task} is not one of {', '.join(content['tasks'])}")
        section, own = system.get("section"), system.get("small", {})
        paper = {
            "title": content["paper"], "section": section, "task": content["tasks"][task],
            "score": system.get("score"), "parameters": system.get("parameters"),
        }  # fmt: skip
        where = content["tasks"][own["task"]] if "task" in own else TRAINED if own.get("score") else UNTRAINED
        measured = {
            "section": f"small version of {name}, {section}", "task": where, "score": own.get("score"),
            "parameters": None,
        }  # fmt: skip
        changes, own_changes = ({part: each[part] for part in _PARTS if part in each} for each in (system, own))
        values = _shrink(configs.merge(base, changes), content["small"], own_changes)
        flat = configs.flatten(base)
        different = {k: v for k, v in configs.flatten(values).items() if k not in flat or v != flat[k]}
        small = Preset(file, paper | measured, base, configs.nested(different.items()), None)
        yield name, Preset(file, paper, base, changes, small)


def _shrink(values: Mapping[str, Any], small: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a small version: ``values`` with ``small`` and then ``own`` merged in."""
    sizes = {key: value for key, value in small.get("model", {}).items() if type(value) is int}
    # A null, such as Deep-ED's attention, stays null.
    kept = {key: (old := values["model"][key]) and min(old, most) for key, most in sizes.items()}
    shrunk = configs.merge(configs.merge(configs.merge(values, small), {"model": kept}), own)
    groups = shrunk["training"].get("groups")
    # null removes a parameter group.
    if groups is not None:
        shrunk["training"]["groups"] = {name: group for name, group in groups.items() if group is not None}
    return shrunk
