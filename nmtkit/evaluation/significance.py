"""Paired significance tests.

Letters: D samples or trials, L sentences of the test set, Q sufficient statistics of a metric.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric

from nmtkit.evaluation.bleu import References, metric_named

Test = Literal["bs", "ar"]  # paired bootstrap (Koehn 2004), approximate randomisation (Riezler and Maxwell 2005)
Floats = npt.NDArray[np.float64]

DRAWS = {"bs": 1000, "ar": 10_000}  # numbers of samples and trials, and seed, as in sacreBLEU
SEED = 12345
ROUNDING = 1e-9  # scores that differ by less are equal


class Tested(NamedTuple):
    """The result of a paired significance test for one system."""

    score: float
    mean: float | None  # over the bootstrap samples
    margin: float | None  # of error: half the width of the 95 % interval
    p: float | None  # of the difference from the baseline; None for the baseline


def paired_test(
    test: Test, metric: str, systems: Sequence[Sequence[str]], refs: References
) -> tuple[str, list[Tested]]:
    """Test every system against the first; also returns the signature, with the number of samples or trials.

    Both tests are two-sided, and samples whose difference equals the observed one count towards p: systems with the
    same score on every sample have p = 1, even if their translations differ. The bootstrap p-value is the share of
    samples whose difference deviates from the observed difference by at least that difference. (sacreBLEU 2 centres
    absolute differences and counts only larger ones; its p is about half as large.)
    """
    measure = metric_named(metric)
    # Sums of counts are exact in float64, so that equal systems are equal on every sample.
    sentences = [np.array(measure._extract_corpus_statistics(hyps, refs), np.float64) for hyps in systems]  # (L, Q)
    values = [_value(measure, system.sum(0)) for system in sentences]
    signature = measure.get_signature()
    signature.update("seed", str(SEED))
    signature.update(test, DRAWS[test])
    if test == "ar":
        ps = [_randomisation(measure, sentences[0], system) for system in sentences[1:]]
        return str(signature), [Tested(value, None, None, p) for value, p in zip(values, [None, *ps], strict=True)]
    signature.update("p", "two-sided")  # unlike sacreBLEU's
    samples = [_bootstrap(measure, system) for system in sentences]
    tested = []
    for number, (value, sample) in enumerate(zip(values, samples, strict=True)):
        # Centred on the observed difference, the samples follow the null hypothesis.
        difference = value - values[0]
        p = _p_value(sample - samples[0] - difference, difference) if number else None
        tested.append(Tested(value, float(sample.mean()), _margin(sample), p))
    return str(signature), tested


def _value(metric: Metric, sums: Floats) -> float:
    """The score given sums of statistics (Q,)."""
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def _bootstrap(metric: Metric, sentences: Floats) -> Floats:
    """The scores (D,) on samples of the test set with replacement, given the statistics (L, Q) of its sentences.

    The samples depend only on the size of the test set, so they are the same for every system.
    """
    size = len(sentences)
    drawn = np.random.default_rng(SEED).choice(size, size=(DRAWS["bs"], size), replace=True)
    return np.array([_value(metric, sentences[rows].sum(0)) for rows in drawn])


def _randomisation(metric: Metric, first: Floats, second: Floats) -> float:
    """The p-value from trials that randomly exchange translations of two systems, given their statistics (L, Q)."""
    exchanged = np.random.default_rng(SEED).integers(2, size=(DRAWS["ar"], len(first)), dtype=bool)
    both, change = first.sum(0) + second.sum(0), second - first
    # (D, Q) of the first system; the second system has the rest of ``both``.
    sums = np.array([first.sum(0) + change[rows].sum(0) for rows in exchanged])
    differences = np.array([_value(metric, mine) - _value(metric, both - mine) for mine in sums])
    return _p_value(differences, _value(metric, first.sum(0)) - _value(metric, second.sum(0)))


def _p_value(differences: Floats, observed: float) -> float:
    """The share of differences at least as far from zero as the observed one, which counts, so that p > 0."""
    as_large = int((np.abs(differences) >= abs(observed) - ROUNDING).sum())
    return (as_large + 1) / (len(differences) + 1)


def _margin(values: Floats) -> float:
    """Half the width of the central 95 %."""
    tail, ordered = len(values) // 40, np.sort(values)
    return float(ordered[-tail - 1] - ordered[tail]) / 2
