import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.search.beam import Hypothesis, Search
from nmtkit.symbols import BOS, EOS, PAD
from tests.search.found import translate_ids
from tests.search.test_beam import Constant, Table

CONFIG = Search(length_penalty="none", max_len_a=0, max_len_b=3)


def draw(scorer: Table, *sources: list[int], n: int = 1, seed: int = 1) -> list[list[Hypothesis]]:
    return translate_ids(scorer, sources, CONFIG, device=torch.device("cpu"), n_best=n, seed=seed)


def test_translations_are_as_frequent_as_the_model_says() -> None:
    [found] = draw(Constant(0.2, 0.2, 0.3, 0.1, 0.2), [9], n=4000)  # PAD and BOS are never drawn: 1/2, 1/6, 1/3 remain
    counts = Counter(tuple(h.ids) for h in found)
    for ids, share in (((), 1 / 2), ((3,), 1 / 12), ((4,), 1 / 6), ((4, 4), 1 / 18), ((3, 4), 1 / 36)):
        assert math.isclose(counts[ids] / 4000, share, abs_tol=4 * math.sqrt(share / 4000))
    assert {word for ids in counts for word in ids} == {3, 4}
    assert max(map(len, counts)) == 3  # the end is forced there


def test_without_unk_the_other_words_keep_their_relative_frequencies() -> None:
    config = dataclasses.replace(CONFIG, unk=False)
    scorer = Constant(0.2, 0.2, 0.3, 0.1, 0.2)
    [found] = translate_ids(scorer, [[9]], config, device=torch.device("cpu"), n_best=4000, seed=1)
    counts = Counter(tuple(h.ids) for h in found)
    assert {word for ids in counts for word in ids} == {4}
    assert math.isclose(counts[()] / 4000, 3 / 5, abs_tol=0.03)
    assert all(math.isclose(h.log_probs[-1], math.log(0.3), abs_tol=1e-6) for h in found)  # the model's own


def test_log_probabilities_are_the_models_and_the_most_probable_sample_is_first() -> None:
    table = Table(7)
    [found] = draw(table, [4, 5], n=20)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for h in found:
        history = [BOS, *h.ids]
        expected = [float(table.row([4, 5, EOS], history[: t + 1])[w]) for t, w in enumerate([*h.ids, EOS])]
        np.testing.assert_allclose(h.log_probs, expected, rtol=1e-5)
        assert PAD not in h.ids


def test_samples_are_ranked_by_their_score_under_the_length_penalty() -> None:
    config = dataclasses.replace(CONFIG, length_penalty="avg")
    [found] = translate_ids(Table(7), [[4, 5]], config, device=torch.device("cpu"), n_best=20, seed=1)
    assert [h.score for h in found] == [sum(h.log_probs) / (len(h.ids) + 1) for h in found]
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_batch_mates_change_nothing_but_the_seed_does() -> None:
    sources = [[4], [5, 6, 7, 8], [], [9, 9]]
    together = draw(Table(3), *sources, n=5)
    assert together == [draw(Table(3), source, n=5)[0] for source in sources]
    assert together != draw(Table(3), *sources, n=5, seed=2)


def test_different_sentences_have_different_random_numbers_and_equal_ones_the_same() -> None:
    one, other, again = draw(Constant(0.2, 0.2, 0.2, 0.2, 0.2), [9], [8], [9], n=20)
    assert [h.ids for h in one] == [h.ids for h in again] != [h.ids for h in other]


def test_a_sample_is_as_long_as_the_settings_allow_for_its_source() -> None:
    config = dataclasses.replace(CONFIG, max_len_a=2.0, max_len_b=1)
    [[found]] = translate_ids(
        Constant(0, 0, 1e-9, 0.5, 0.5), [[9, 9, 9]], config, device=torch.device("cpu"), n_best=1, seed=1
    )
    assert len(found.ids) == 7


@pytest.mark.parametrize("word", [EOS, 3, 4])
def test_a_broken_model_is_an_error(word: int) -> None:
    chances = [0.1, 0.1, 0.4, 0.2, 0.2]
    chances[word] = math.nan
    with pytest.raises(UserError, match="are NaN"):
        draw(Constant(*chances), [4])
