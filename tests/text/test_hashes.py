import subprocess
import sys
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
    marks = repeated(files, tmp_path / "marks")
    assert [len(mark) for mark in marks] == [len(part) for part in parts]
    expected = [value in values[:place] for place, value in enumerate(values)]
    assert np.concatenate(marks).tolist() == expected


def test_without_pairs_nothing_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert [mark.tolist() for mark in repeated([tmp_path / "empty"] * 2, tmp_path / "marks")] == [[], []]


def test_a_full_disk_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    """Also on a full disk, where sparse files may have any length: zeros are written before the file is mapped."""
    np.zeros(300_000, "<u8").tofile(tmp_path / "hashes")
    code = """
import resource, signal, sys
from pathlib import Path
from nmtkit.text.hashes import repeated
folder = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))
try:
    repeated([folder / "hashes"], folder / "marks")
except OSError as error:
    print(error.strerror, (folder / "marks").stat().st_size)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"File too large {1 << 17}\n", "")
