"""The gradient of one update: a global batch in as many micro-batches as memory asks for, shared by all processes."""

import logging

import numpy as np
import torch

from nmtkit.data import batches
from nmtkit.errors import UserError
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.memory import is_full
from nmtkit.training import distributed
from nmtkit.training.loss import Gradient, summed_loss
from nmtkit.training.run import Run

log = logging.getLogger(__name__)


def accumulate(run: Run, rows: np.ndarray) -> Gradient:
    """Give the parameters their gradients for the pairs ``rows`` (P,), summed over micro-batches and processes.

    Raises UserError where memory does not hold a single pair.
    """
    run.model.train()
    # Of the global batch, before it is shared: every process divides by the same number, and the sum is the mean.
    tokens = int(run.corpus.lengths(rows)[1].sum()) + len(rows)
    divisor = tokens if run.settings.loss == "tokens" else len(rows)
    parts = list(batches.parts(run.corpus, distributed.share(rows), run.settings.pass_tokens))
    halvings, done = 0, False
    while not done:
        # A new start after a failure: what the micro-batches before it have added is counted again.
        run.model.zero_grad(set_to_none=True)
        total_loss = total_nll = 0.0
        try:
            for part in parts:
                loss, nll = summed_loss(
                    run.model, batches.collate(run.corpus, part), run.settings.label_smoothing, run.dtype
                )
                # Divided here, so that the gradients of all micro-batches add up to that of the whole batch.
                (loss / divisor).backward()
                total_loss += float(loss.detach())
                total_nll += float(nll)
            done = True
        except (RuntimeError, MemoryError) as error:
            # Anything else is a bug and keeps its traceback.
            if not is_full(error):
                raise
            parts = _halved(run, parts)
            halvings += 1
    distributed.sum_gradients(run.model)
    total_loss, total_nll, all_halvings = distributed.total(total_loss, total_nll, halvings)
    return Gradient(total_loss / divisor, total_nll, tokens, int(all_halvings))


def _halved(run: Run, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Micro-batches of half the size, where memory does not hold ``parts``. Raises UserError for single pairs."""
    log.warning("out of memory in %d passes; again in halves: training.pass_tokens is too high", len(parts))
    if max(map(len, parts)) == 1:
        # The longest sides, which are what the user can limit.
        src, tgt = (int(lengths.max()) for lengths in run.corpus.lengths(np.concatenate(parts)))
        raise UserError(
            f"a pair of {src} and {tgt} tokens does not fit into the memory of {run.device}: take a smaller "
            "training.max_length or a smaller model"
        )
    return [half for part in parts for half in np.array_split(part, 2) if len(half)]


def clip(model: Seq2Seq, limit: float | None) -> float:
    """The norm of all gradients together, which are scaled down to ``limit`` if that is less."""
    # A parameter that no micro-batch used has no gradient.
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if limit is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return float(norm)
