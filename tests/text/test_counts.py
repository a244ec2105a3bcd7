import resource
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.text.counts import merged, most_frequent, write_run

words = st.text(st.sampled_from("ab\u00e9\u2029中😀"), min_size=1, max_size=3)


@given(st.lists(st.dictionaries(words, st.integers(1, 9))))
def test_merging_runs_adds_their_counts(tmp_path_factory: pytest.TempPathFactory, counts: list[dict[str, int]]) -> None:
    folder = tmp_path_factory.mktemp("runs")
    runs = [folder / str(number) for number in range(len(counts))]
    for run, found in zip(runs, counts, strict=True):
        write_run(run, sorted(found.items()))
    total = sum(map(Counter, counts), Counter[str]())
    assert list(merged(runs)) == sorted(total.items())
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    assert most_frequent(merged(runs), 2) == ordered[:2]
    assert most_frequent(merged(runs), len(ordered) + 1) == ordered


@pytest.mark.parametrize("number", [100, 101, 1001])
def test_any_number_of_runs_is_merged_with_few_open_files(tmp_path: Path, number: int) -> None:
    runs = [tmp_path / f"{i}.words" for i in range(number)]
    for i, run in enumerate(runs):
        run.write_text(f"a\t1\nb{i:04}\t{i}\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert list(merged(runs)) == [("a", number), *((f"b{i:04}", i) for i in range(number))]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {*tmp_path.iterdir()} == {*runs}
