"""Shared by all models: groups of parameters, counting."""

import torch
from torch import nn

from nmtkit.models.base import count_parameters, groups


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.ModuleList([nn.Linear(2, 2)])
        self.key = nn.Linear(3, 2)
        self.v = nn.Parameter(torch.zeros(5))


def names(*wanted: str) -> dict[str, list[str]]:
    return {group: [name for name, _ in found] for group, found in groups(Part(), wanted).items()}


def test_without_names_every_parameter_is_in_other() -> None:
    assert names() == {"other": ["v", "recurrent.0.weight", "recurrent.0.bias", "key.weight", "key.bias"]}


def test_a_group_is_named_after_any_part_of_a_parameters_name() -> None:
    assert names("recurrent", "v") == {
        "recurrent": ["recurrent.0.weight", "recurrent.0.bias"],
        "v": ["v"],
        "other": ["key.weight", "key.bias"],
    }


def test_the_innermost_name_wins() -> None:
    assert names("recurrent", "bias") == {
        "recurrent": ["recurrent.0.weight"],
        "bias": ["recurrent.0.bias", "key.bias"],
        "other": ["v", "key.weight"],
    }


def test_a_part_of_a_word_is_no_name() -> None:
    assert names("rec", "k")["rec"] == names("rec", "k")["k"] == []


def test_other_may_be_given_by_name() -> None:
    assert names("other") == names()


def test_every_number_of_every_parameter_counts() -> None:
    assert count_parameters(Part()) == (2 * 2 + 2) + (3 * 2 + 2) + 5
