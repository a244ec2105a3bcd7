"""Whether a difference between systems is more than chance: sacreBLEU's paired tests, and the spread over seeds."""

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from sacrebleu.significance import PairedTest

from nmtkit.evaluation.bleu import References, metric_named

Test = Literal["bs", "ar"]  # paired bootstrap (Koehn 2004), approximate randomisation


class Tested(NamedTuple):
    """One system in a paired test."""

    score: float
    mean: float | None  # over bootstrap resamples, and half the width of the 95 % interval around it
    interval: float | None
    p: float | None  # that a difference to the baseline as large is chance; None for the baseline


def paired_test(
    test: Test, metric: str, systems: Sequence[Sequence[str]], refs: References
) -> tuple[str, list[Tested]]:
    """The signature, with the number of samples or trials in it, and every system tested against the first.

    One that says the same as the first has p = 1; sacreBLEU, which counts larger differences only, gives it the least.
    """
    named = [(str(number), hyps) for number, hyps in enumerate(systems)]
    signatures, results = PairedTest(named, {metric: metric_named(metric)}, refs, test)()
    [(name, signature)] = signatures.items()
    found = []
    for hyps, result in zip(systems, results[name], strict=True):
        assert not isinstance(result, str)
        p = 1.0 if result.p_value is not None and list(hyps) == list(systems[0]) else _plain(result.p_value)
        found.append(Tested(float(result.score), _plain(result.mean), _plain(result.ci), p))
    return str(signature), found


def _plain(value: float | None) -> float | None:
    """Without NumPy's types, which JSON does not know."""
    return None if value is None else float(value)


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float]:
    """The mean, and the standard deviation of what they are a sample of (n - 1)."""
    return statistics.mean(scores), statistics.stdev(scores)
