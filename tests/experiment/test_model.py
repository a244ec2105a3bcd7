"""Loading a model: the saved weights, and no unnecessary computation."""

from pathlib import Path

import pytest
import torch

from nmtkit.experiment.model import load_model
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment

OLD = Path(__file__).parents[1] / "training" / "made_by_0.1" / "run"


def test_loading_a_model_uses_no_random_numbers() -> None:
    before = torch.get_rng_state()
    model, _ = load_model(OLD, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert all(parameter.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    "preset", ["rnnsearch", "deep-att", "deep-lau", "bideep", "densenmt-4l-1", "dtmt1", "transformer-base"]
)
def test_an_empty_model_has_the_right_shapes_and_uses_no_random_numbers(preset: str, device: str) -> None:
    planned = build_experiment(load_preset(f"{preset}-small"), preset)
    before = torch.get_rng_state()
    empty = planned.empty(50, 60, device)
    assert torch.equal(torch.get_rng_state(), before)
    filled = planned.build(50, 60)
    shapes = ({name: tensor.shape for name, tensor in model.state_dict().items()} for model in (empty, filled))
    assert next(shapes) == next(shapes)
    assert {tensor.device.type for tensor in empty.state_dict().values()} == {device}
