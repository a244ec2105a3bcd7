"""Presets: the published systems, as plain values of experiments."""

import difflib
from importlib import resources
from typing import Any

from nmtkit import config as configs
from nmtkit.errors import UserError


def preset_names() -> list[str]:
    files = resources.files("nmtkit.presets").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_preset(name: str) -> dict[str, Any]:
    """The plain values of a preset. Raises UserError with the nearest names for one that does not exist."""
    names = preset_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3) or names
        raise UserError(f"--model {name}: no such preset; did you mean {', '.join(near)}? `nmtkit models` lists them")
    text = resources.files("nmtkit.presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    values: dict[str, Any] = configs.parse_yaml(text, f"{name}.yaml")
    return values
