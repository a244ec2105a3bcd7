"""Validation results, and scores by teacher forcing."""

from typing import NamedTuple

import numpy as np
import torch

from nmtkit.data import batches
from nmtkit.data.corpus import Corpus
from nmtkit.machine.memory import in_halves
from nmtkit.models.base import Seq2Seq
from nmtkit.training import distributed
from nmtkit.training.loss import score_words
from nmtkit.training.settings import Metric

LEAST_BLEU = 1.0  # lower values are noise


class Validation(NamedTuple):
    """The results of a validation."""

    cross_entropy: float  # nats per target token, EOS included
    errors: float  # token error rate: the share of target tokens that are not the most probable ones
    bleu: float  # of beam search, 0 to 100
    chrf2: float  # likewise
    train_errors: float  # on as many training pairs as the dev set has, without dropout

    def metric(self, name: Metric) -> float:
        """The value of a metric."""
        return {"bleu": self.bleu, "chrf2": self.chrf2, "cross_entropy": self.cross_entropy}[name]


def decisive(name: Metric, value: float) -> Metric:
    """The metric that ranks a validation by ``name``: cross-entropy for a BLEU of at most ``LEAST_BLEU``."""
    return "cross_entropy" if name == "bleu" and value <= LEAST_BLEU else name


def rank(name: Metric, value: float, cross_entropy: float) -> list[float]:
    """Larger for a better value of a metric; equal values, and BLEU up to ``LEAST_BLEU``, rank by cross-entropy."""
    better = {"bleu": max(value, LEAST_BLEU), "chrf2": value, "cross_entropy": -value}[name]
    return [better, -cross_entropy]


@torch.no_grad()
def teacher_forced(
    model: Seq2Seq, corpus: Corpus, pairs: np.ndarray, max_tokens: int, dtype: torch.dtype
) -> tuple[float, float]:
    """Cross-entropy in nats per target token, EOS included, and token error rate of ``pairs`` of a corpus.

    pairs (P,): indices of non-empty pairs, at least one. They are divided among the processes, in micro-batches of at
    most ``max_tokens`` padded words, halved as often as memory requires. dtype: of matrix products. Raises UserError
    for a single pair that does not fit into memory.
    """
    model.eval()
    device = model.output.bias.device

    def too_large(rows: np.ndarray) -> str:
        src, tgt = (int(lengths[0]) for lengths in corpus.lengths(rows))
        pair = f"a pair of {src} and {tgt} tokens to validate on"
        return f"{pair} does not fit into the memory of {device}; remove it or use a smaller model"

    pairs = pairs[np.argsort(corpus.lengths(pairs)[1], kind="stable")]
    sums, tokens = torch.zeros(2, dtype=torch.float64, device=device), 0
    for part, attempt in in_halves(batches.parts(corpus, distributed.share(pairs), max_tokens), too_large):
        with attempt:
            log_probs, right = score_words(model, batches.collate(corpus, part), dtype)
            sums += torch.stack([-log_probs.sum(dtype=torch.float64), (~right).sum()])
            tokens += len(right)
    nll, wrong, total = distributed.total(*sums.tolist(), tokens)
    return nll / total, wrong / total
