"""Presets: complete, quoting their papers, and explained when asked for wrongly."""

from importlib import resources
from typing import Any

import pytest
import torch

from nmtkit.config import build, dump_yaml, parse_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset, preset_names
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.models.base import Seq2Seq

every_preset = pytest.mark.parametrize("preset", preset_names())


def full_size(preset: str) -> Seq2Seq:
    """With the paper's vocabularies, as shapes without data."""
    experiment = build_experiment(load_preset(preset), preset)
    with torch.device("meta"):
        return experiment.build(experiment.data.src_vocab, experiment.data.tgt_vocab)


@every_preset
def test_a_preset_survives_the_way_to_a_model_folder_and_back(preset: str) -> None:
    experiment = build_experiment(load_preset(preset), preset)
    assert build_experiment(parse_yaml(dump_yaml(to_dict(experiment)), "config.yaml"), "config.yaml") == experiment


@every_preset
def test_a_preset_says_at_its_head_where_it_comes_from(preset: str) -> None:
    text = resources.files("nmtkit.presets").joinpath(f"{preset}.yaml").read_text(encoding="utf-8")
    head = text.partition("paper:")[0]
    paper = build_experiment(load_preset(preset), preset).paper
    assert all(line.startswith("# ") for line in head.splitlines())
    assert paper.title in head
    assert paper.section in head
    assert paper.score is None or f"{paper.score} BLEU" in head


@every_preset
def test_the_model_of_a_preset_is_written_out_in_full(preset: str) -> None:
    values = load_preset(preset)
    assert to_dict(build_experiment(values, preset))["model"] == values["model"]


def mistake(name: str = "deep-att", **changes: Any) -> str:
    with pytest.raises(UserError) as error:
        build_experiment({**load_preset(name), **changes}, "run.yaml")
    return str(error.value)


def test_a_preset_that_is_not_there_is_answered_with_its_neighbours() -> None:
    with pytest.raises(UserError) as error:
        load_preset("rnnsaerch")
    expected = "--model rnnsaerch: no such preset; did you mean rnnsearch, rnnsearch-30? `nmtkit models` lists them"
    assert str(error.value) == expected


def test_a_name_like_no_preset_is_answered_with_all_of_them() -> None:
    with pytest.raises(UserError) as error:
        load_preset("../../etc/passwd")
    assert ", ".join(preset_names()) in str(error.value)


def test_an_architecture_that_is_not_there_is_answered_with_those_that_are() -> None:
    known = sorted({load_preset(name)["architecture"] for name in preset_names()})
    assert mistake(architecture="deepatt") == f"architecture: 'deepatt' is not one of {', '.join(known)}"
    assert mistake(architecture=["base"]).startswith("architecture: ['base'] is not one of ")


def test_a_configuration_without_architecture_asks_for_one() -> None:
    assert mistake(architecture=None) == "run.yaml: architecture: missing; give the name of a preset with --model"


def test_mistakes_in_the_model_and_elsewhere_are_reported_together() -> None:
    model = {**load_preset("deep-att")["model"], "widht": 3, "dropout": "x"}
    assert mistake(model=model, trainig={}) == (
        "run.yaml: trainig: unknown key; did you mean training?; "
        "model.widht: unknown key; did you mean width?; model.dropout: expected a number, found str 'x'"
    )


def test_a_part_that_the_schema_leaves_open_has_the_schema_that_is_given() -> None:
    values = load_preset("rnnsearch")
    with pytest.raises(UserError, match="model: missing"):
        build(Experiment, {key: value for key, value in values.items() if key != "model"}, "run.yaml", {"model": dict})


ARCHITECTURES = sorted({(values := load_preset(name))["architecture"]: name for name in preset_names()}.items())


@pytest.mark.parametrize("preset", [preset for _, preset in ARCHITECTURES])
@pytest.mark.parametrize("value", [0, -1])
def test_a_size_that_no_model_can_have_is_refused_by_name(preset: str, value: int) -> None:
    values = load_preset(preset)
    for name in [name for name, size in values["model"].items() if type(size) is int]:
        changed = {**values, "model": {**values["model"], name: value}}
        try:
            with torch.device("meta"):
                model = build_experiment(changed, preset).build(8, 9)
        except UserError as error:
            assert f"model.{name}: " in str(error)  # noqa: PT017
        else:
            assert value == 0
            assert all(parameter.numel() for parameter in model.parameters()), name
