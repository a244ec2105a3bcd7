"""Significance of differences between systems: paired tests, and the spread over seeds.

Letters: D samples or trials, L sentences of the test set, Q statistics of a sentence that a metric adds up.
"""

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric

from nmtkit.errors import check_choice
from nmtkit.evaluation.bleu import References, metric_named

Test = Literal["bs", "ar"]  # paired bootstrap (Koehn 2004), approximate randomisation (Riezler and Maxwell 2005)
Floats = npt.NDArray[np.float64]

DRAWS = {"bs": 1000, "ar": 10_000}  # sacreBLEU's numbers of samples and of trials, and its seed
SEED = 12345
ROUNDING = 1e-9  # of a metric's value: two that are closer than this are equal


class Tested(NamedTuple):
    """One system in a paired test."""

    score: float
    mean: float | None  # over bootstrap samples, and half the width of the 95 % interval around it
    interval: float | None
    p: float | None  # that a difference to the baseline as large is chance; None for the baseline


def paired_test(
    test: Test, metric: str, systems: Sequence[Sequence[str]], refs: References
) -> tuple[str, list[Tested]]:
    """The signature, with the number of samples or trials in it, and every system tested against the first.

    Both tests are two-sided, and draws that are exactly as far apart as the systems count as chance: systems with the
    same value on every draw have p = 1, however different their text. The bootstrap asks how often a sample's
    difference is as far from the observed one as that is from zero. (sacreBLEU 2 takes the absolute differences first
    and their mean from them, and counts larger ones only; its p is about half as large.)
    """
    check_choice("paired", test, Test)
    measure = metric_named(metric)
    # In float64 sums of counts are exact, so that equal systems are equal on every draw.
    sentences = [np.array(measure._extract_corpus_statistics(hyps, refs), np.float64) for hyps in systems]  # (L, Q)
    values = [_value(measure, system.sum(0)) for system in sentences]
    signature = measure.get_signature()
    signature.update("seed", str(SEED))
    signature.update(test, DRAWS[test])
    if test == "ar":
        ps = [_randomisation(measure, sentences[0], system) for system in sentences[1:]]
        return str(signature), [Tested(value, None, None, p) for value, p in zip(values, [None, *ps], strict=True)]
    samples = [_bootstrap(measure, system) for system in sentences]
    tested = []
    for number, (value, sample) in enumerate(zip(values, samples, strict=True)):
        # Around the observed difference, the samples vary as they would around none if the systems were equally good.
        difference = value - values[0]
        p = _p_value(sample - samples[0] - difference, difference) if number else None
        tested.append(Tested(value, float(sample.mean()), _interval(sample), p))
    return str(signature), tested


def _value(metric: Metric, sums: Floats) -> float:
    """The metric's value for sums of statistics (Q,)."""
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def _bootstrap(metric: Metric, sentences: Floats) -> Floats:
    """The metric's value (D,) on samples of the test set with replacement; sentences (L, Q).

    The draws are the same for every system, since they depend on the size of the test set alone.
    """
    size = len(sentences)
    drawn = np.random.default_rng(SEED).choice(size, size=(DRAWS["bs"], size), replace=True)
    return np.array([_value(metric, sentences[rows].sum(0)) for rows in drawn])


def _randomisation(metric: Metric, first: Floats, second: Floats) -> float:
    """The p-value when the two systems' translations of each sentence, (L, Q) each, are exchanged at random."""
    exchanged = np.random.default_rng(SEED).integers(2, size=(DRAWS["ar"], len(first)), dtype=bool)
    both, change = first.sum(0) + second.sum(0), second - first
    # (D, Q); the other system's sums are what is left of ``both``.
    sums = np.array([first.sum(0) + change[rows].sum(0) for rows in exchanged])
    differences = np.array([_value(metric, mine) - _value(metric, both - mine) for mine in sums])
    return _p_value(differences, _value(metric, first.sum(0)) - _value(metric, second.sum(0)))


def _p_value(differences: Floats, observed: float) -> float:
    """The share of differences at least as far from zero; the observed one is counted among them, so that p > 0."""
    as_large = int((np.abs(differences) >= abs(observed) - ROUNDING).sum())
    return (as_large + 1) / (len(differences) + 1)


def _interval(values: Floats) -> float:
    """Half the width of what is left without the lowest and the highest 2.5 %."""
    tail, ordered = len(values) // 40, np.sort(values)
    return float(ordered[-tail - 1] - ordered[tail]) / 2


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float]:
    """The mean, and the standard deviation of what they are a sample of (n - 1)."""
    return statistics.mean(scores), statistics.stdev(scores)
