"""Impossible settings are refused when they are read."""

import pytest

from nmtkit.errors import UserError
from nmtkit.training.settings import Training
from tests.training.conftest import small_experiment


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_sentences": None}, "batch_sentences, batch_tokens: give one of the two"),
        ({"batch_tokens": 100}, "batch_sentences, batch_tokens: give one of the two"),
        ({"batch_tokens": "auto"}, "batch_sentences, batch_tokens: give one of the two"),
        ({"batch_sentences": None, "batch_tokens": "atuo"}, "expected a whole number or auto; found str 'atuo'"),
        ({"batch_sentences": None, "batch_tokens": 0}, "batch_tokens: 0 is not at least 1"),
        ({"patience": 0}, "patience: 0 is not at least 1"),
        ({"min_lr": 0}, "min_lr: 0.0 is not above 0; null: no minimum"),
        ({"min_lr": 1e-4}, "min_lr: schedule.kind constant has no minimum, only plateau; set it to null"),
        ({"seed": 1 << 31}, r"seed: 2147483648 is not in \[0, 2147483648\)"),
        ({"dropout_seed": -1}, r"dropout_seed: -1 is not in"),
        ({"save_every": 0}, "save_every: 0.0 is not above 0; null: at validations only"),
        ({"label_smoothing": 1}, r"label_smoothing: 1.0 is not in \[0, 1\)"),
        ({"concatenations": 11}, r"concatenations: 11.0 is not between 0 and 10"),
        ({"word_dropout": 1}, r"word_dropout: 1.0 is not in \[0, 1\)"),
        ({"clip_norm": 0}, "clip_norm: 0.0 is not above 0; null: no clipping"),
        ({"clip_factor": 0}, r"clip_factor: 0.0 is not in \(0, 1\]"),
        ({"optimizer": {"lr": 1e300}}, r"lr: 1e\+300 is not above 0 and below 1e\+30"),
        ({"optimizer": {"decay": -1}}, "decay: -1.0 is not 0 or above"),
        ({"optimizer": {"momentum": 1}}, r"momentum: 1.0 is not in \[0, 1\)"),
        ({"groups": {"other": {"lr": -1}}}, "lr: -1.0 is not 0 or above"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small_experiment(**values)


def test_every_default_of_training_is_valid() -> None:
    assert Training(small_experiment().training.optimizer, batch_tokens=1000).loss == "tokens"
