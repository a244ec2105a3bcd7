"""``models``: the presets and the figures of their papers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmtkit.config import load_yaml
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder, check_regular
from nmtkit.options import Option, by_keyword, option
from nmtkit.workflow.shared import presets


# fmt: off
@dataclass(frozen=True)
class ModelsOptions:
    """The options of ``models``."""

    preset: str | None = option(None, Option(
        "Preset to show in full, instead of the list.", metavar="PRESET", argument=True, complete=presets))
# fmt: on


def describe_presets(options: ModelsOptions) -> list[dict[str, Any]]:
    """Every preset, or the one of that name, with its paper's figures: ``nmtkit models --json``.

    ``parameters_ours`` are the millions of parameters of nmtkit's model with the paper's vocabularies. Raises UserError
    for a preset that does not exist.
    """
    from nmtkit.experiment.presets import find_preset, preset_names

    trained = trained_here()
    names = [options.preset] if options.preset else sorted(preset_names())
    found = {name: find_preset(name, "preset") for name in names}
    # The keys are an interface for scripts.
    return [
        {
            "preset": name,
            "architecture": preset.base["architecture"],
            "paper": preset.paper["title"],
            "table": preset.paper["section"],
            "task": preset.paper["task"],
            "score": preset.paper["score"],
            "parameters_ours": millions(name),
            "parameters_paper": preset.paper["parameters"],
            "trained_here": [folder for folder, paper in trained if paper == preset.paper],
            "small_trained_here": [folder for folder, paper in trained if preset.small and paper == preset.small.paper],
        }
        for name, preset in found.items()
    ]


list_presets = by_keyword(ModelsOptions, describe_presets, "list_presets")


def trained_here() -> list[tuple[str, Any]]:
    """The names of the model folders in the current folder, with the ``paper`` of their configurations."""
    folders = []
    for path in sorted(Path().glob(f"*/{ModelFolder(Path()).config.name}")):
        try:
            check_regular(path.parent)
            folders.append((path.parent.name, load_yaml(path).get("paper")))
        except UserError:  # a config.yaml that is not nmtkit's
            continue
    return folders


def millions(name: str) -> float:
    """The number of parameters of a preset's model in millions, with the paper's vocabularies."""
    from nmtkit.experiment.plan import parameters_by_part
    from nmtkit.experiment.presets import load_preset
    from nmtkit.experiment.schema import build_experiment

    planned = build_experiment(load_preset(name), name)
    return parameters_by_part(planned, *planned.data.words)["total"] / 1e6
