"""A plan and its text: warnings of too few updates and too many parameters, none for a sound plan."""

from pathlib import Path
from typing import Any

import pytest

from nmtkit.config import merge
from nmtkit.data.corpus import Encoded, write_header
from nmtkit.errors import UserError
from nmtkit.experiment.plan import examine_memory, examine_plan, parameters_by_part, planned_updates
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.training.settings import Training


def text(folder: Path, pairs: int, words: int = 12) -> Path:
    """A data folder with nothing but its sizes: this many pairs with this many words per side."""
    side = Encoded("<u2", pairs, pairs * words, "", "")
    write_header(folder, {"train.src": side, "train.tgt": side})
    return folder


def plan(preset: str, **training: Any) -> Experiment:
    return build_experiment(merge(load_preset(preset), {"training": training}), preset)


def test_full_size_deep_att_on_5000_pairs_gets_two_warnings(tmp_path: Path) -> None:
    few, many = examine_plan(plan("deep-att"), text(tmp_path, 5000))
    assert few == "training.max_epochs allows only 56 updates; fewer than 1,000 are rarely enough"
    assert many.startswith(("219.", "220."))
    assert "M parameters for 65,000 target words, 3," in many
    assert many.endswith("per word; with more than 100, models overfit")


def test_a_warning_of_few_updates_names_the_limit(tmp_path: Path) -> None:
    [few] = examine_plan(plan("bideep-small", max_updates=300), text(tmp_path, 20_000))
    assert few == "training.max_updates allows only 300 updates; fewer than 1,000 are rarely enough"


@pytest.mark.parametrize("preset", ["deep-att", "dtmt4", "densenmt-8l-2", "bideep", "transformer-big"])
@pytest.mark.parametrize("pairs", [12_000, 29_000, 200_000])
def test_a_small_version_gets_no_warning_on_a_small_corpus(preset: str, pairs: int, tmp_path: Path) -> None:
    assert examine_plan(plan(f"{preset}-small"), text(tmp_path, pairs)) == []


def test_a_full_size_system_gets_no_warning_on_the_papers_corpus(tmp_path: Path) -> None:
    assert examine_plan(plan("dtmt4"), text(tmp_path, 1_250_000, words=25)) == []


@pytest.mark.parametrize(
    ("training", "updates"),
    [
        ({"batch_sentences": 80, "max_epochs": 9}, 9 * 13),
        ({"batch_sentences": 80, "max_epochs": 9, "max_updates": 50}, 50),
        ({"batch_sentences": None, "batch_tokens": 1300, "max_epochs": 2}, 20),
        ({"batch_sentences": None, "batch_tokens": "auto", "max_epochs": 2}, None),
        ({"batch_sentences": None, "batch_tokens": "auto", "max_updates": 7}, 7),
        ({"batch_sentences": 80}, None),
        ({"batch_sentences": 80, "max_epochs": 9, "concatenations": 1.0}, 9 * 25),  # of 1000 more pairs
        ({"batch_sentences": None, "batch_tokens": 1300, "max_epochs": 2, "concatenations": 1.0}, 2 * 30),
    ],
)
def test_the_updates_of_a_plan_are_those_that_its_first_limit_allows(training: Any, updates: int | None) -> None:
    settings = plan("bideep", max_epochs=None, max_updates=None).training
    side = Encoded("<u2", 1000, 12_000, "", "")
    planned = Training(**{**vars(settings), **training})
    shorter = Encoded("<u2", 1000, 9_000, "", "")
    assert {planned_updates(planned, *sides) for sides in ((side, side), (side, shorter), (shorter, side))} == {updates}


@pytest.mark.parametrize(
    ("optimizer", "bytes"),
    [({"name": "adam"}, 16), ({"name": "nag", "momentum": 0.9}, 12), ({"name": "sgd", "momentum": 0.0}, 8)],
)
def test_a_parameter_needs_memory_for_its_gradient_and_each_moment_too(
    optimizer: Any, bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan("bideep-small", optimizer=optimizer)
    needed = bytes * parameters_by_part(planned, *planned.data.words)["total"]
    for free, findings in ((needed + 1, 0), (needed, 1)):
        monkeypatch.setattr("nmtkit.experiment.plan.free_memory", lambda device, free=free: free)
        assert len(examine_memory(planned, tmp_path, "planned")) == findings


def test_without_encoded_text_there_is_no_plan(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ids\.json: .*make it with nmtkit vocab"):
        examine_plan(plan("bideep"), tmp_path)
