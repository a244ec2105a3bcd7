"""The short form of ``python -m tests.torture``."""

import random
from pathlib import Path

import pytest

from tests.torture import torture


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_is_killed_at_random_moments_ends_as_the_undisturbed_one(processes: int, tmp_path: Path) -> None:
    report = torture(tmp_path, 5, 60, processes, random.Random(processes))
    assert int(report.split()[0]) >= 5
