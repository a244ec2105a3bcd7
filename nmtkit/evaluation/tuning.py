"""Length and coverage penalties chosen on a development set: one n-best list, re-ranked under every setting.

The hypotheses are those that search found under its own penalties, so a wider beam makes the choice freer.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nmtkit.evaluation.bleu import References, metric_named
from nmtkit.search.settings import Search


class Candidate(NamedTuple):
    """One hypothesis of an n-best list, with the features that its rank depends on."""

    text: str
    log_prob: float
    length: int  # target words, the end mark included
    coverage: float  # what the coverage penalty multiplies, at most 0


def grid(search: Search, alphas: Sequence[float], betas: Sequence[float]) -> list[Search]:
    """Every length penalty with every alpha, where it has one, and every coverage penalty beta; the rest as it is.

    Raises ValueError for a number that search does not take.
    """
    forms = [replace(search, length_penalty=penalty) for penalty in ("none", "avg")]
    forms += [replace(search, length_penalty=penalty, alpha=alpha) for penalty in ("gnmt", "power") for alpha in alphas]
    return [replace(form, coverage_penalty=beta) for form in forms for beta in betas]


def best(candidates: Sequence[Candidate], search: Search) -> int:
    """The number of the candidate that search ranks first; the first one of equals."""
    scores = [search.score(c.log_prob, c.length) + search.coverage_penalty * c.coverage for c in candidates]
    return int(np.argmax(scores))


def tune(
    n_best: Sequence[Sequence[Candidate]], refs: References, metric: str, settings: Sequence[Search]
) -> list[float]:
    """The metric's value (of plain text) of the candidates that each of the settings ranks first."""
    measure = metric_named(metric)
    # Counted once for every candidate; a setting is then a choice and a sum, however many settings there are.
    statistics = []  # of each sentence: (candidates, Q) that the metric adds up
    for candidates, *lines in zip(n_best, *refs, strict=True):
        texts = [candidate.text for candidate in candidates]
        repeated = [[line] * len(texts) for line in lines]
        statistics.append(np.array(measure._extract_corpus_statistics(texts, repeated), np.float64))
    values = []
    for search in settings:
        chosen = [rows[best(candidates, search)] for rows, candidates in zip(statistics, n_best, strict=True)]
        values.append(float(measure._compute_score_from_stats(np.sum(chosen, axis=0).tolist()).score))
    return values
