"""Files of nmtkit 0.1 can always be loaded: ``made_by_0.1`` was written by it, before all later changes.

It holds a data folder of sixty pairs whose translation is the source backwards, a run of 300 updates on them (RNNsearch
with 12 units, float32), the test set as 0.1 translated it with that run, and the weights after the twelve updates that
0.1 went on with.
"""

import shutil
from pathlib import Path

import pytest
import torch

from nmtkit.config import load_yaml, merge
from nmtkit.errors import UserError
from nmtkit.experiment.run import run_experiment
from nmtkit.experiment.schema import Experiment, build_experiment, load_experiment
from nmtkit.folders import ModelFolder
from nmtkit.training import averaging
from nmtkit.training.checkpoint import load_weights
from nmtkit.translation.loading import load, write_ensemble

OLD = Path(__file__).parent / "made_by_0.1"
CPU = torch.device("cpu")


@pytest.fixture
def run(tmp_path: Path) -> ModelFolder:
    shutil.copytree(OLD / "run", tmp_path / "run")
    return ModelFolder(tmp_path / "run")


def translated(folder: Path) -> list[str]:
    return list(load(folder, "cpu").translate((OLD / "data" / "test.raw.src").read_text().splitlines()))


def longer(run: ModelFolder) -> Experiment:
    """The experiment of ``nmtkit train --max-updates 312`` in this folder."""
    values = merge(load_yaml(run.config), {"training": {"max_updates": 312}})
    return build_experiment(values, str(run.config))


def test_a_run_of_0_1_translates_as_before(run: ModelFolder) -> None:
    assert translated(run.path) == (OLD / "translations").read_text().splitlines()


def test_a_run_of_0_1_is_resumed_as_before(run: ModelFolder) -> None:
    progress = run_experiment(longer(run), OLD / "data", run.path, CPU)
    assert (progress.update, progress.finished) == (312, "312 updates")
    weights, expected = load_weights(run.weights(312)), load_weights(OLD / "update-312.safetensors")
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():  # other processors round differently
        torch.testing.assert_close(weights[name], tensor, rtol=1e-3, atol=1e-4)
    assert load_experiment(run) == longer(run)
    assert len(run.metrics.read_text().splitlines()) > len((OLD / "run" / "metrics.jsonl").read_text().splitlines())


def test_a_run_of_0_1_is_averaged_and_used_in_an_ensemble(run: ModelFolder, tmp_path: Path) -> None:
    averaging.average(run, ModelFolder(tmp_path / "averaged"), [])
    write_ensemble([run.path, tmp_path / "averaged"], tmp_path / "ensemble", "prob", None)
    for folder in ("averaged", "ensemble"):
        assert translated(tmp_path / folder) == (OLD / "translations").read_text().splitlines()


def test_damaged_weights_of_0_1_are_detected_by_the_trainers_checksum(run: ModelFolder) -> None:
    content = bytearray(run.weights(300).read_bytes())
    content[-1] ^= 1
    run.weights(300).write_bytes(content)
    with pytest.raises(UserError, match=r"trainer\.pt: cannot be used \(the weights beside it are not those"):
        run_experiment(longer(run), OLD / "data", run.path, CPU)
