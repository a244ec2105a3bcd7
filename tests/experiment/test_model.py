"""Loading a model: the saved weights, and no unnecessary computation."""

from pathlib import Path

import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.experiment.model import check_vocabularies, load_model
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.folders import SIDES, ModelFolder

OLD = Path(__file__).parents[1] / "training" / "made_by_0.1" / "run"


def test_loading_a_model_uses_no_random_numbers() -> None:
    before = torch.get_rng_state()
    model, _ = load_model(OLD, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_a_data_folder_has_the_ids_of_a_model_only_if_both_vocabularies_are_the_same(tmp_path: Path) -> None:
    lines = {side: (OLD / f"vocab.{side}").read_text().splitlines(keepends=True) for side in SIDES}
    for other in (None, *SIDES):
        for side in SIDES:
            (tmp_path / f"vocab.{side}").write_text("".join(lines[side][: -1 if side == other else None]))
        if other is None:
            check_vocabularies(ModelFolder(OLD), tmp_path)
        else:
            with pytest.raises(UserError, match=r"its vocabularies are not those of .*run; give the model's `data` fo"):
                check_vocabularies(ModelFolder(OLD), tmp_path)


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
