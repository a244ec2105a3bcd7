"""Tuning of length and coverage penalties on a development set, by re-ranking its n-best lists with every setting.

The n-best lists were found with the model's own penalties, so larger beams offer more choice.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nmtkit.evaluation.bleu import References, metric_named
from nmtkit.search.settings import Search


class Candidate(NamedTuple):
    """A hypothesis of an n-best list, with the features for ranking."""

    text: str
    log_prob: float
    length: int  # target words, EOS included
    coverage: float  # to be multiplied by the coverage penalty; at most 0


def grid(search: Search, alphas: Sequence[float], betas: Sequence[float]) -> list[Search]:
    """``search`` with every length penalty, with every alpha if the penalty has one, and with every coverage penalty.

    A number that is given twice is tried once. Raises ValueError for one that ``Search`` does not accept.
    """
    alphas, betas = (list(dict.fromkeys(numbers)) for numbers in (alphas, betas))
    forms = [replace(search, length_penalty=penalty) for penalty in ("none", "avg")]
    forms += [replace(search, length_penalty=penalty, alpha=alpha) for penalty in ("gnmt", "power") for alpha in alphas]
    return [replace(form, coverage_penalty=beta) for form in forms for beta in betas]


def best(candidates: Sequence[Candidate], search: Search) -> int:
    """The index of the candidate that search ranks first; on a tie, the first."""
    scores = [search.score(c.log_prob, c.length) + search.coverage_penalty * c.coverage for c in candidates]
    return int(np.argmax(scores))


def tune(
    n_best: Sequence[Sequence[Candidate]], refs: References, metric: str, settings: Sequence[Search]
) -> list[float]:
    """The score, by a metric of plain text, of the candidates that each setting ranks first."""
    measure = metric_named(metric)
    # Computed once for all settings.
    statistics = []  # for each sentence, (candidates, Q)
    for candidates, *lines in zip(n_best, *refs, strict=True):
        texts = [candidate.text for candidate in candidates]
        repeated = [[line] * len(texts) for line in lines]
        statistics.append(np.array(measure._extract_corpus_statistics(texts, repeated), np.float64))
    values = []
    for search in settings:
        chosen = [rows[best(candidates, search)] for rows, candidates in zip(statistics, n_best, strict=True)]
        values.append(float(measure._compute_score_from_stats(np.sum(chosen, axis=0).tolist()).score))
    return values
