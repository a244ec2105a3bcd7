"""The short forms of ``python -m tests.torture`` and ``python -m tests.torture_prep``."""

import random
from pathlib import Path

import pytest

from tests.torture import torture
from tests.torture_prep import torture_prep


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_is_killed_at_random_moments_ends_as_the_undisturbed_one(processes: int, tmp_path: Path) -> None:
    report = torture(tmp_path, 5, 60, processes, random.Random(processes))
    assert int(report.split()[0]) >= 5


@pytest.mark.slow
def test_a_prep_that_is_killed_at_random_moments_leaves_the_files_of_the_undisturbed_one(tmp_path: Path) -> None:
    choose = random.Random(1)
    for side in "xy":
        lines = (" ".join(choose.choices(["ab", "abc", "Bcd", "cde", "."], k=9)) for _ in range(20_000))
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    options = ["-s", "x", "-t", "y", "--train", str(tmp_path / "train.x"), str(tmp_path / "train.y"), "--bpe", "9"]
    assert int(torture_prep(tmp_path, [*options, "-j", "2"], 3, choose).split()[0]) >= 3
