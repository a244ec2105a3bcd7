import random

import pytest

from nmtkit.evaluation.bleu import score
from nmtkit.evaluation.significance import Test, mean_and_deviation, paired_test

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
    assert baseline.interval is not None
    assert abs(baseline.mean - baseline.score) < baseline.interval < 10


def test_the_deviation_is_of_a_sample() -> None:
    assert mean_and_deviation([1.0, 2.0, 6.0]) == (3.0, pytest.approx(7**0.5))
