import random

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from nmtkit.evaluation import significance
from nmtkit.evaluation.bleu import metric_named, score
from nmtkit.evaluation.significance import Test, paired_test

CHANCE = random.Random(1)
REFS = [" ".join(CHANCE.choices("abcdefgh", k=12)) for _ in range(60)]


def noisy(share: float) -> list[str]:
    """The references with a share of the words replaced."""
    return [" ".join("x" if CHANCE.random() < share else word for word in ref.split()) for ref in REFS]


@pytest.mark.parametrize("test", ["bs", "ar"])
def test_a_large_difference_is_not_chance_and_a_system_does_not_differ_from_itself(test: Test) -> None:
    poor, good = noisy(0.4), noisy(0.05)
    signature, [baseline, same, better] = paired_test(test, "multi-bleu", [poor, poor, good], [REFS])
    assert f"|{test}:" in signature
    assert "seed:12345" in signature
    assert baseline.score == same.score == score("multi-bleu", poor, [REFS]).value
    assert better.score == score("multi-bleu", good, [REFS]).value
    assert baseline.p is None
    assert same.p == 1
    assert better.p is not None
    assert better.p < 0.01


def test_the_bootstrap_gives_an_interval_around_the_score() -> None:
    _, [baseline] = paired_test("bs", "chrF2", [noisy(0.2)], [REFS])
    assert baseline.mean is not None
    assert baseline.margin is not None
    assert abs(baseline.mean - baseline.score) < baseline.margin < 10


@pytest.mark.parametrize("test", ["bs", "ar"])
@pytest.mark.parametrize("metric", ["multi-bleu", "sacreBLEU-13a", "chrF2", "TER"])
def test_equal_values_of_different_text_are_no_difference(test: Test, metric: str) -> None:
    wrong, others = [" ".join("x" * 12)] * len(REFS), [" ".join("y" * 12)] * len(REFS)
    _, [first, second] = paired_test(test, metric, [wrong, others], [REFS])
    assert first.score == second.score
    assert second.p == 1


@pytest.mark.parametrize("test", ["bs", "ar"])
def test_a_gain_in_one_sentence_is_chance(test: Test) -> None:
    wrong = [" ".join("x" * 12)] * len(REFS)
    _, [_, better] = paired_test(test, "multi-bleu", [wrong, [REFS[0], *wrong[1:]]], [REFS])
    assert better.score > 0
    assert better.p is not None
    assert better.p > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("test", ["bs", "ar"])
def test_equally_good_systems_differ_no_more_often_than_the_p_value(
    test: Test, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(significance.DRAWS, test, 200)
    ps = [paired_test(test, "chrF2", [noisy(0.3), noisy(0.3)], [REFS])[1][1].p or 0.0 for _ in range(150)]
    for level in (0.1, 0.2, 0.5):
        chance = 3 * (level * (1 - level) / len(ps)) ** 0.5  # three standard deviations of a share of so many
        assert np.mean(np.array(ps) <= level) <= level + chance


def test_scores_samples_and_trials_are_those_of_sacrebleu() -> None:
    hyps, others = noisy(0.3), noisy(0.25)
    for test in ("bs", "ar"):
        signature, ours = paired_test(test, "chrF2", [hyps, others], [REFS])
        named = [("first", hyps), ("second", others)]
        signatures, results = PairedTest(named, {"chrF2": metric_named("chrF2")}, [REFS], test)()
        assert signature.replace("|p:two-sided", "") == str(signatures["chrF2"])
        assert ("|p:two-sided" in signature) == (test == "bs")
        for mine, theirs in zip(ours, results["chrF2"], strict=True):
            assert not isinstance(theirs, str)
            assert mine.score == theirs.score
            if test == "bs":
                assert (mine.mean, mine.margin) == pytest.approx((theirs.mean, theirs.ci), abs=1e-4)
            elif theirs.p_value is not None:
                assert mine.p == pytest.approx(theirs.p_value)  # nothing ties here
