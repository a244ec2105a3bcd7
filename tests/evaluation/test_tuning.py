from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.evaluation.bleu import score
from nmtkit.evaluation.tuning import Candidate, best, grid, tune
from nmtkit.search.beam import Search, beam_search, coverage
from nmtkit.symbols import UNK
from tests.search.test_beam import Looking, batch

PLAIN = Search(beam_size=4, length_penalty="none", max_len_a=1, max_len_b=2)
GRID = grid(PLAIN, [0.3, 1.0, 2.0], [0.0, 0.5])


@given(st.integers(0, 10**6), st.lists(st.integers(UNK, 20), min_size=1, max_size=4), st.sampled_from(GRID))
@settings(max_examples=40)
def test_a_re_ranked_n_best_list_has_the_order_of_search(seed: int, src: list[int], setting: Search) -> None:
    [listed] = beam_search(Looking(seed), *batch(src), PLAIN, n_best=4, attention=True)
    candidates = []
    for hypothesis in listed:
        assert hypothesis.attention is not None
        looked = coverage(hypothesis.attention[::-1, :-1])
        candidates.append(Candidate("", sum(hypothesis.log_probs), len(hypothesis.log_probs), looked))
    [searched] = beam_search(Looking(seed), *batch(src), setting, n_best=4)
    chosen = listed[best(candidates, setting)]
    assert (chosen.ids, chosen.log_probs) == (searched[0].ids, searched[0].log_probs)


def test_the_value_of_a_setting_is_the_metric_of_its_first_ranked_candidates() -> None:
    refs = ["a b c d e f", "g h i j k l m"]
    n_best = [
        [Candidate("a b c d", -2.0, 5, -1.0), Candidate("a b c d e f", -2.5, 7, 0.0)],
        [Candidate("g h i j", -2.0, 5, 0.0), Candidate("g h i j k l x", -3.5, 8, -1.0)],
    ]
    none, mean, covering = PLAIN, replace(PLAIN, length_penalty="avg"), replace(PLAIN, coverage_penalty=1.0)
    for metric in ("sacreBLEU-13a", "chrF2"):
        values = tune(n_best, [refs, refs[::-1]], metric, [none, mean, covering])
        chosen = [["a b c d", "g h i j"], ["a b c d e f", "g h i j"], ["a b c d e f", "g h i j"]]
        assert values == [pytest.approx(score(metric, texts, [refs, refs[::-1]]).value) for texts in chosen]


def test_the_grid_has_every_setting_once() -> None:
    found = [(s.length_penalty, s.alpha, s.coverage_penalty) for s in grid(PLAIN, [0.5, 1.0, 0.5], [0.0, 0.1, 0.1])]
    assert len(found) == len(set(found)) == (2 + 2 * 2) * 2
    with pytest.raises(ValueError, match=r"alpha: 11\.0 is not between 0 and 10"):
        grid(PLAIN, [11.0], [0.0])
