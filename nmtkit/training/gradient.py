"""The gradient of one update: a global batch in as many micro-batches as memory asks for, shared by all processes."""

import logging
from typing import NamedTuple

import numpy as np
import torch

from nmtkit.data import batches
from nmtkit.errors import UserError
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.memory import is_full
from nmtkit.training import distributed
from nmtkit.training.loss import summed_loss
from nmtkit.training.run import Run

log = logging.getLogger(__name__)


class Gradient(NamedTuple):
    """What is known of a batch once its gradient is in the parameters."""

    loss: float  # what was minimised: per word or per sentence, smoothed
    nll: float  # negative log-likelihood in nats, summed over the words
    tokens: int  # target words, end-of-sentence marks included
    halvings: int  # how often memory ran out, so that all was done again in twice as many micro-batches


def accumulate(run: Run, rows: np.ndarray) -> Gradient:
    """Give the parameters their gradients for the pairs ``rows`` (P,), summed over micro-batches and processes.

    Raises UserError where memory does not hold a single pair.
    """
    run.model.train()
    tokens = int(run.corpus.lengths(rows)[1].sum()) + len(rows)
    divisor = tokens if run.settings.loss == "tokens" else len(rows)
    parts = list(batches.parts(run.corpus, distributed.share(rows), run.settings.pass_tokens))
    halvings = 0
    while (sums := _backward(run, parts, divisor)) is None:
        log.warning("out of memory in %d passes; again in halves: training.pass_tokens is too high", len(parts))
        halvings += 1
        if max(map(len, parts)) == 1:
            src, tgt = (int(lengths.max()) for lengths in run.corpus.lengths(np.concatenate(parts)))
            raise UserError(
                f"a pair of {src} and {tgt} tokens does not fit into the memory of {run.device}: take a smaller "
                "training.max_length or a smaller model"
            )
        parts = [half for part in parts for half in np.array_split(part, 2) if len(half)]
    distributed.sum_gradients(run.model)
    loss, nll, all_halvings = distributed.total(*sums, halvings)
    return Gradient(loss / divisor, nll, tokens, int(all_halvings))


def _backward(run: Run, parts: list[np.ndarray], divisor: int) -> tuple[float, float] | None:
    """Add up the gradient of all parts; the summed loss and negative log-likelihood. None if memory runs out."""
    run.model.zero_grad(set_to_none=True)
    total_loss = total_nll = 0.0
    try:
        for part in parts:
            batch = batches.collate(run.corpus, part)
            loss, nll = summed_loss(run.model, batch, run.settings.label_smoothing, run.dtype)
            (loss / divisor).backward()
            total_loss += float(loss.detach())
            total_nll += float(nll)
    except (RuntimeError, MemoryError) as error:
        if not is_full(error):
            raise
        return None
    return total_loss, total_nll


def clip(model: Seq2Seq, limit: float | None) -> float:
    """The norm of all gradients together, which are scaled down to ``limit`` if that is less."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if limit is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return float(norm)
