from pathlib import Path

import numpy as np
import pytest

from nmtkit.text import hashes
from nmtkit.text.hashes import pair_hash, repeated


def test_a_hash_depends_on_where_one_side_ends() -> None:
    pairs = [(["a", "b"], ["c"]), (["a"], ["b", "c"]), (["a", "b", "c"], []), (["ab"], ["c"]), (["c"], ["a", "b"])]
    assert len({pair_hash(*pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_all_but_the_first_of_equal_hashes_are_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(hashes, "_AT_ONCE", at_once)
    values = np.random.default_rng(1).integers(0, 40, 100, dtype=np.uint64)
    parts = np.split(values, [0, 13, 50])
    files = [tmp_path / str(number) for number in range(len(parts))]
    for file, part in zip(files, parts, strict=True):
        part.astype("<u8").tofile(file)
    marks = repeated(files)
    assert [len(mark) for mark in marks] == [len(part) for part in parts]
    expected = [value in values[:place] for place, value in enumerate(values)]
    assert np.concatenate(marks).tolist() == expected


def test_without_pairs_nothing_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert [mark.tolist() for mark in repeated([tmp_path / "empty"] * 2)] == [[], []]
