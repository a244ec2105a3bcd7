"""Judging a difference between two rows of the ledger: Welch's interval, verdicts, Holm's correction.

Differences are positive in the direction of the paper's claim.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

LEVEL = 0.05  # two-sided, for 95 % intervals
VERDICTS = ("reproduced", "larger", "smaller", "undecided", "excluded", "reversed", "did not train", "not run")


class Difference(NamedTuple):
    """A difference of two means whose variances may be unequal (Welch 1947)."""

    mean: float
    error: float  # the standard error; 0 if neither sample varies
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        half = t_quantile(self.freedom) * self.error if self.error else 0.0
        return self.mean - half, self.mean + half

    def p(self, value: float) -> float:
        """The two-sided p of the hypothesis that the true difference is this value."""
        if not self.error:
            return 1.0 if self.mean == value else 0.0
        return t_tail((self.mean - value) / self.error, self.freedom)


def welch(better: Sequence[float], worse: Sequence[float]) -> Difference:
    """Mean of the first minus mean of the second, of at least two values each; Welch-Satterthwaite freedom."""
    mean = statistics.mean(better) - statistics.mean(worse)
    shares = [statistics.variance(sample) / len(sample) for sample in (better, worse)]
    if not sum(shares):
        return Difference(mean, 0.0, len(better) + len(worse) - 2)
    spread = sum(share**2 / (len(sample) - 1) for share, sample in zip(shares, (better, worse), strict=True))
    return Difference(mean, math.sqrt(sum(shares)), sum(shares) ** 2 / spread)


def verdict(mean: float, paper: float | None, *, not_zero: bool, not_paper: bool) -> str:
    """The verdict on a claim, given which hypotheses are rejected: that the difference is 0, that it is the paper's.

    A claim without a number is only about the sign, so any difference in its direction reproduces it.
    """
    if not not_zero:
        return "excluded" if not_paper else "undecided"
    if mean < 0:
        return "reversed"
    if paper is None or not not_paper:
        return "reproduced"
    return "larger" if mean > paper else "smaller"


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values adjusted for multiple tests (Holm 1979), to control the family-wise error rate."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def t_tail(t: float, freedom: float) -> float:
    """The two-sided p of Student's t, the regularised incomplete beta function I_x(freedom / 2, 1 / 2) at
    x = freedom / (freedom + t^2) (Abramowitz and Stegun 1964, 26.7.1).
    """
    x, y = freedom / (freedom + t * t), t * t / (freedom + t * t)
    if not y:
        return 1.0
    a, b = freedom / 2, 0.5
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    power = math.exp(a * math.log(x) + b * math.log(y) - log_beta)  # x^a y^b / B(a, b)
    if x > (a + 1) / (a + b + 2):  # where the fraction of 1 - I_y(b, a) converges faster
        return 1 - power * _fraction(b, a, y) / b
    return power * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (26.5.8), evaluated by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 200):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c, d = 1 + numerator / c, 1 / (1 + numerator * d)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def t_quantile(freedom: float) -> float:
    """The t whose two-sided p is ``LEVEL``, by bisection, for at least one degree of freedom."""
    low, high = 0.0, 16.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > LEVEL else (low, middle)
    return high
