from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.echo import write_model


def test_a_bundle_translates_like_its_models(
    tmp_path: Path, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, preset in enumerate(["rnnsearch", "deep-ed"]):
        write_model(tmp_path / preset, preset, seed)
    (tmp_path / "in").write_text("a b\n\nlower c\n")
    assert nmtkit("ensemble", "rnnsearch", "deep-ed") == (
        0,
        "",
        "ensemble: rnnsearch, deep-ed\nnext: nmtkit translate -m ensemble < in.txt > out.txt\n",
    )
    bundled = nmtkit("translate", "-i", "in", "-m", "ensemble", "--scores", "sentence", "--max-len-b", "3")
    options = ["-m", "rnnsearch", "-m", "deep-ed", "--scores", "sentence", "--max-len-b", "3"]
    assert nmtkit("translate", "-i", "in", *options) == bundled
    assert (bundled.status, len(bundled.out.splitlines())) == (0, 3)
    status, _, err = nmtkit("average", "-m", "ensemble")
    assert status == 1
    assert err.startswith("nmtkit: error: ensemble: an ensemble, not a single model")


def test_a_bundle_keeps_its_weights_and_how_to_combine(
    tmp_path: Path, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["one", "two"]):
        write_model(tmp_path / name, "rnnsearch", seed)
    (tmp_path / "in").write_text("a b\n")
    combined = ["--combine", "logprob", "--weights", "5,1"]
    assert nmtkit("ensemble", "one", "two", *combined).status == 0
    end = ["-i", "in", "--scores", "sentence", "--max-len-b", "3"]
    bundled = nmtkit("translate", "-m", "ensemble", *end).out
    assert bundled == nmtkit("translate", "-m", "one", "-m", "two", *combined, *end).out
    for other in (["--combine", "logprob"], ["--weights", "5,1"]):
        assert bundled != nmtkit("translate", "-m", "one", "-m", "two", *other, *end).out


def test_missing_models_are_an_error_and_nothing_is_written(
    tmp_path: Path, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = nmtkit("ensemble", "one", "two")
    assert (status, err) == (
        1,
        "nmtkit: error: one: not a model folder (no config.yaml); `nmtkit train` or `nmtkit import` makes one\n",
    )
    assert not (tmp_path / "ensemble").exists()


def test_an_ensemble_can_be_written_repeatedly_even_inside_the_folder_of_a_member(
    tmp_path: Path, nmtkit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run", "nem"):
        write_model(tmp_path / name, "rnnsearch")
    (tmp_path / "run" / "tensorboard").mkdir()
    for output in ("run/first", "run/second", "third"):
        assert nmtkit("ensemble", "run", "nem", "-o", output).status == 0
        assert [path.name for path in Path(output).glob("members/*/*") if path.is_dir()] == ["checkpoints"] * 2
        assert nmtkit("inspect", f"{output}/members/1-run").status == 0
