"""Messages of tune for a model with few settings to try; see ``test_pairs.py`` for its results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit import tune
from nmtkit.errors import UserError
from tests.echo import load_echo, write_folder


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder in the working folder, where every model is the echo."""
    monkeypatch.setattr("nmtkit.translation.loading.load_model", load_echo)
    monkeypatch.chdir(tmp_path)
    folder = write_folder(tmp_path / "data")
    for side in ("src", "tgt"):
        (folder / f"dev.raw.{side}").write_text("a b c d\nlower\n")
    return folder


def test_a_model_without_attention_has_no_coverage_penalty_to_try_but_none(
    data: Path, tmp_path: Path, nmtkit: Callable[..., Any]
) -> None:
    write_folder(tmp_path / "blind")
    complaint = "nmtkit: error: --betas 0.1,0.2: the model has no attention, so only 0 can be tried\n"
    assert nmtkit("tune", "-m", "blind", "--betas", "0.1,0.2") == (1, "", complaint)
    complaint = "nmtkit: error: --beam-size 1: a single translation cannot be re-ranked; use a larger beam\n"
    assert nmtkit("tune", "-m", "blind", "--beam-size", "1") == (1, "", complaint)
    found = nmtkit("tune", "-m", "blind", "--betas", "0.1,0")
    assert (found.status, found.err) == (0, "")
    assert "best      --length-penalty none --coverage-penalty 0 " in found.out
    settings = (data / "prep.yaml").read_text()
    (data / "prep.yaml").write_text(settings.replace("language: en", "language: fr", 1))
    found = nmtkit("tune", "-m", "blind", "--betas", "0")
    assert (found.status, found.err) == (0, "blind translates en to en, but data is fr to en\n")
    (tmp_path / "blind" / "prep.yaml").write_text((data / "prep.yaml").read_text())  # from fr to en, too
    assert nmtkit("tune", "-m", "blind", "--betas", "0").err == ""
    (data / "prep.yaml").write_text(settings)
    found = nmtkit("tune", "-m", "blind", "--betas", "0", "-b", "7")  # the options for translate have this beam, too
    assert "best      --beam-size 7 --length-penalty none --coverage-penalty 0 " in found.out


def test_the_table_has_a_row_for_every_alpha_and_none_for_one_that_is_given_twice(
    data: Path, tmp_path: Path, nmtkit: Callable[..., Any]
) -> None:
    write_folder(tmp_path / "run")
    once = nmtkit("tune", "--alphas", "0.5", "--betas", "0,0.1")
    assert once.status == 0
    assert nmtkit("tune", "--alphas", "0.5,0.5", "--betas", "0,0.10,0.1") == once
    alike = nmtkit("tune", "--alphas", "0.50000001,0.50000002", "--betas", "0")
    assert alike.status == 0
    assert [line.split()[:2] for line in alike.out.splitlines()[4:8]] == [["gnmt", "0.5"]] * 2 + [["power", "0.5"]] * 2


@pytest.mark.parametrize("name", ["alphas", "betas"])
def test_no_number_at_all_is_refused(data: Path, tmp_path: Path, name: str) -> None:
    write_folder(tmp_path / "run")
    with pytest.raises(UserError, match=rf"^`{name}` \[\]: expected numbers separated by commas, such as 0\.2,0\.4$"):
        tune(**{name: []})
