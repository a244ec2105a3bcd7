"""Translations as JSON, and attention weights as arrays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nmtkit
from nmtkit.align.posunk import Replacement
from nmtkit.translation import loading
from nmtkit.translation.formats import attention_arrays, json_values
from nmtkit.translation.request import Request
from tests.echo import load_echo, with_lexicon, write_folder


def test_the_attention_of_a_line_in_pieces_is_that_of_its_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    translator = nmtkit.load(write_folder(tmp_path / "run"), device="cpu")
    [[best]] = translator.answer(["a b c d e"], Request(attention=True, max_input_length=2))
    with attention_arrays(tmp_path / "looks.npz") as keep:
        keep(7, best)
    with np.load(tmp_path / "looks.npz") as arrays:
        shape = len(arrays["7.target"]), len(arrays["7.source"])
        assert (best.pieces, shape, arrays["7.attention"].shape) == (3, (6, 6), shape)
        assert np.array_equal(arrays["7.attention"], best.attention)


def test_json_says_how_each_unknown_word_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    translator = with_lexicon(nmtkit.load(write_folder(tmp_path / "run"), device="cpu"), {"y": "Y"})
    [[best]] = translator.answer(["a x y"], Request(replace_unk=True))
    assert json_values(best)["replaced"] == [
        {"token": 1, "by": "x", "how": "copied", "source": 1},
        {"token": 2, "by": "Y", "how": "translated", "source": 2},
    ]
    left = replace(best, replaced=[Replacement(1, None, False)])  # an unknown word that is left is not replaced
    assert json_values(left)["replaced"] == []
