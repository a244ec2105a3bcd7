import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]  # the command line of tests/conftest.py


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "raw" / f"{split}.en").write_text(f"a {split}\nb {split}\n")
        (tmp_path / "raw" / f"{split}.fr").write_text(f"c {split}\nd {split}\n")
    return tmp_path


def test_where_nothing_is_wrong_nothing_is_printed(nmtkit: Run) -> None:
    assert nmtkit("doctor", "-s", "en") == (0, "", "nothing found\nnext: nmtkit prep -s en -t fr\n")


def test_a_finding_is_a_line_on_stdout(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "dev.fr").write_text("c dev\n\n")
    assert nmtkit("doctor", "-s", "en") == (0, "raw/dev.fr:2: blank\n", "1 findings\nnext: nmtkit prep -s en -t fr\n")


def test_what_prep_would_refuse_is_a_failure(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "dev.fr").write_bytes(b"c dev\n\xe9\n")
    status, out, _ = nmtkit("doctor", "-s", "en")
    assert status == 1
    assert out.startswith("raw/dev.fr:2: not UTF-8")


def test_a_preset_that_does_not_fit_into_the_memory_is_a_failure(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmtkit.experiment.size.free_memory", lambda: 10**12)
    assert nmtkit("doctor", "-s", "en", "--model", "deep-att").status == 0
    monkeypatch.setattr("nmtkit.experiment.size.free_memory", lambda: 10**9)
    status, out, _ = nmtkit("doctor", "-s", "en", "--model", "deep-att")
    assert status == 1
    assert "deep-att needs " in out
    assert " GiB before the first batch, and 0.9 GiB are free here\n" in out


def test_findings_for_scripts_are_a_list_of_objects(nmtkit: Run, folder: Path) -> None:
    (folder / "raw" / "dev.fr").write_text("c dev\n\n")
    outcome = nmtkit("doctor", "-s", "en", "--json")
    finding = {"path": "raw/dev.fr", "what": "blank", "fatal": False, "count": 1, "lines": [2]}
    assert (json.loads(outcome.out), outcome.err) == ([finding], "1 findings\n")
