from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.data.counts import merged, most_frequent, write_run

words = st.text(st.sampled_from("ab\u00e9\u2029中😀"), min_size=1, max_size=3)


@given(st.lists(st.dictionaries(words, st.integers(1, 9))))
def test_runs_merged_are_the_counts_added_up(
    tmp_path_factory: pytest.TempPathFactory, counts: list[dict[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    runs = [folder / str(number) for number in range(len(counts))]
    for run, found in zip(runs, counts, strict=True):
        write_run(run, found)
    total = sum(map(Counter, counts), Counter[str]())
    assert list(merged(runs)) == sorted(total.items())
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    assert most_frequent(runs, 2) == ordered[:2]
    assert most_frequent(runs, 99) == ordered
