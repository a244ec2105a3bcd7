"""The presets' models at toy size with random weights, a batch for them, and the same models at full size as shapes."""

import re
from collections.abc import Callable
from dataclasses import astuple, fields, replace
from functools import cache

import torch
from torch import Tensor

from nmtkit.experiment.presets import load_preset, preset_names
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.tree import Tree, select
from nmtkit.symbols import EOS, PAD

SRC_WORDS, TGT_WORDS = 11, 13
LENGTHS = [5, 3, 1, 4]  # source words of the batch's sentences, end marks included


def preset_experiment(name: str) -> Experiment:
    return build_experiment(load_preset(name), name)


# Of architectures whose first preset is deep or another paper's.
SHALLOW = ["deep-att-2x2", "deep-lau-2x2", "densenmt-4l-1"]


def one_of_each_architecture() -> list[str]:
    """The first preset of each, or one with few layers."""
    by_architecture = {load_preset(name)["architecture"]: name for name in [*reversed(preset_names()), *SHALLOW]}
    return sorted(by_architecture.values())


def full_size(preset: str) -> Seq2Seq:
    """With the paper's vocabularies, as shapes without data."""
    experiment = preset_experiment(preset)
    return experiment.empty(*experiment.data.words)


def toy(experiment: Experiment, shrink: int = 64) -> Experiment:
    """With every width (a whole number of 64 or more) divided by ``shrink``, but 2; depths and switches stay.

    The direction of a weight-normalised row of one element has no gradient.
    """
    values = {field.name: getattr(experiment.model, field.name) for field in fields(experiment.model)}
    widths = {name: max(2, value // shrink) for name, value in values.items() if type(value) is int and value >= 64}
    return replace(experiment, model=replace(experiment.model, **widths))


def simplest(experiment: Experiment) -> Experiment:
    """Wide enough to learn, and with one layer where the number of layers is a setting."""
    small = toy(experiment, shrink=16)
    layers = {field.name: 1 for field in fields(small.model) if field.name.endswith("layers")}
    return replace(small, model=replace(small.model, **layers))


def one_of_each(form: Callable[[Experiment], Experiment] = toy, *, switches: bool = True) -> list[str]:
    """The smallest preset of each kind. Kinds differ in their parts, with ``switches`` also in their switches."""
    found: dict[object, tuple[int, str]] = {}
    for (architecture, parts, *switched), size, preset in _kinds(form):
        kind = architecture, parts, *(switched if switches else ())
        found[kind] = min(found.get(kind, (10**9, "")), (size, preset))
    return sorted(preset for _, preset in found.values())


@cache
def _kinds(form: Callable[[Experiment], Experiment]) -> list[tuple[tuple[object, ...], int, str]]:
    """The kind of each preset in this form (architecture, names of parts, switches), its number of tensors and name.

    Several layers are alike from the third on.
    """
    found = []
    for preset in preset_names():
        experiment = form(preset_experiment(preset))
        model = experiment.build(SRC_WORDS, TGT_WORDS)
        parts = frozenset(re.sub(r"\d+", lambda layer: str(min(2, int(layer[0]))), name) for name in model.state_dict())
        switches = [value for value in astuple(experiment.model) if isinstance(value, bool | str)]
        found.append(((experiment.architecture, parts, *switches), len(model.state_dict()), preset))
    return found


def toy_model(preset: str, form: Callable[[Experiment], Experiment] = toy) -> Seq2Seq:
    """The preset at toy size, without dropout, with random values in every parameter, those that start at zero too."""
    torch.manual_seed(0)
    model = form(preset_experiment(preset)).build(SRC_WORDS, TGT_WORDS).eval()
    for parameter in model.parameters():
        parameter.data.normal_(std=min(parameter.shape) ** -0.5)  # every path carries a signal
    return model


def sources() -> tuple[Tensor, Tensor]:
    """Source ids and mask: four sentences of LENGTHS, closed by end marks, padded."""
    random = torch.Generator().manual_seed(0)
    src = torch.randint(4, SRC_WORDS, (len(LENGTHS), max(LENGTHS)), generator=random)
    for row, length in zip(src, LENGTHS, strict=True):
        row[length - 1] = EOS
        row[length:] = PAD
    return src, src != PAD


def targets(length: int = 6) -> Tensor:
    """Target ids (B, T) without padding."""
    return torch.randint(4, TGT_WORDS, (len(LENGTHS), length), generator=torch.Generator().manual_seed(1))


def repeat(tree: Tree, k: int) -> Tree:
    """Every row k times, sentence-major."""
    return select(tree, torch.arange(len(LENGTHS)).repeat_interleave(k))
