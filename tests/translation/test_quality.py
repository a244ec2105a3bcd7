"""The confidence of a model in its translations."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nmtkit
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from tests.echo import load_echo, write_folder


@pytest.mark.parametrize("name", ["run", "blind"])
def test_quality_is_the_mean_probability_reduced_by_missing_source_attention(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    translator = nmtkit.load(write_folder(tmp_path / name), device="cpu")
    request = Request(quality=True, max_len_a=0, max_len_b=2, attention=name == "run")
    lines = ["a b c d", "a b", "z"]
    for [best], [alone] in zip(
        translator.answer(lines, request), translator.answer(lines, replace(request, attention=False)), strict=True
    ):
        assert alone.quality == best.quality
        mean = math.exp(np.mean(best.log_probs))
        assert 0 < best.quality <= 1
        if best.attention is None:
            assert math.isclose(best.quality, mean)
        else:
            seen = best.attention[:, :-1].max(axis=0).mean()
            assert math.isclose(best.quality, mean * math.exp((seen - 1) / 2), rel_tol=1e-6)


def test_the_pieces_of_a_long_line_count_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    translator = nmtkit.load(write_folder(tmp_path / "run"), device="cpu")
    [[whole], [pieces], [blank]] = (
        translator.answer([line], Request(quality=True, max_input_length=n))[0]
        for line, n in (("a b c d", 4), ("a b c d", 2), ("", 4))
    )
    assert whole.seen == pieces.seen == 1
    assert whole.quality > pieces.quality > 0  # two end marks, each with a probability
    assert blank.quality == 1
