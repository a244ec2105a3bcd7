"""Loading a model: the saved weights, and no unnecessary computation."""

from pathlib import Path

import pytest
import torch

from nmtkit.experiment.model import Unfilled, load_model
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment

OLD = Path(__file__).parents[1] / "training" / "made_by_0.1" / "run"


def test_loading_a_model_uses_no_random_numbers() -> None:
    before = torch.get_rng_state()
    model, _ = load_model(OLD, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert all(parameter.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(
    "preset", ["rnnsearch", "deep-att", "deep-lau", "bideep", "densenmt-4l-1", "dtmt1", "transformer-base"]
)
def test_an_uninitialised_model_has_the_right_shapes_and_uses_no_random_numbers(preset: str) -> None:
    planned = build_experiment(load_preset(preset), preset)
    before = torch.get_rng_state()
    with Unfilled():
        unfilled = planned.build(50, 60)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.device("meta"):
        drawn = planned.build(50, 60)
    shapes = ({name: tensor.shape for name, tensor in model.state_dict().items()} for model in (unfilled, drawn))
    assert next(shapes) == next(shapes)
    assert {tensor.device.type for tensor in unfilled.state_dict().values()} == {"cpu"}
