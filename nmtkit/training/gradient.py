"""The gradient of one update: a global batch, split over processes and into micro-batches that fit into memory."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtkit.data import batches
from nmtkit.data.batches import Batch
from nmtkit.errors import UserError
from nmtkit.machine.memory import Attempt
from nmtkit.models.base import Seq2Seq
from nmtkit.training import distributed
from nmtkit.training.loss import Gradient, summed_loss
from nmtkit.training.run import Run

log = logging.getLogger(__name__)


class Sums(NamedTuple):
    """Figures of an update, which a GPU may still be computing; ``read`` waits for the GPU."""

    loss: Tensor  # () float64, this process's share of the training objective
    nll: Tensor  # () float64, negative log-likelihood in nats of its share
    tokens: int  # target words of the global batch, EOS included
    halvings: int  # as in ``Gradient``


def micro_batches(run: Run, rows: np.ndarray) -> list[Batch]:
    """This process's share of the global batch ``rows`` (P,), collated and copied to the device."""
    return [_collated(run, part).to(run.device) for part in _parts(run, rows)]


def accumulate(run: Run, rows: np.ndarray, micro: Sequence[Batch]) -> Sums:
    """Compute the gradients of the pairs ``rows`` (P,), summed over micro-batches and processes.

    micro: their ``micro_batches``. Raises UserError if a single pair does not fit into memory.
    """
    run.model.train()
    # That of the global batch, so that the sum over processes is the mean.
    tokens = int(run.corpus.lengths(rows)[1].sum()) + len(rows)
    divisor = tokens if run.settings.loss == "tokens" else len(rows)
    parts, halvings = list[np.ndarray](), 0
    while True:
        run.model.zero_grad(set_to_none=run.graphs is None)  # again after running out of memory
        total_loss, total_nll = torch.zeros(2, dtype=torch.float64, device=run.device)
        with Attempt() as attempt:
            for batch in micro:
                loss, nll = _backward(run, batch, divisor)
                total_loss, total_nll = total_loss + loss, total_nll + nll
        if not attempt.failed:
            break
        run.seed_dropout()  # the next attempt drops the same units
        if run.graphs is not None and run.graphs.release():
            continue  # without them the batch may fit
        parts, halvings = _halved(run, parts or _parts(run, rows)), halvings + 1
        micro = [_collated(run, part) for part in parts]
    distributed.sum_gradients(run.model)
    return Sums(total_loss / divisor, total_nll, tokens, halvings)


def _backward(run: Run, batch: Batch, divisor: int) -> tuple[Tensor, Tensor]:
    """Add the gradient of a micro-batch; returns loss and negative log-likelihood (), summed over its words.

    Its autograd graph must not outlive this function: CUDA graphs cannot be recorded while another one is alive.
    """
    settings = run.settings
    loss, nll = summed_loss(run.model, batch, settings.label_smoothing, run.dtype, settings.word_dropout, run.graphs)
    # Divided here, so that the gradients of micro-batches sum to that of the batch.
    (loss / divisor).backward()
    return loss.detach(), nll


def read(sums: Sums, norm: Tensor) -> Gradient:
    """The figures of an update over all processes, given the norm () of its gradient; waits for the GPU."""
    loss, nll, norm_read = torch.stack([sums.loss, sums.nll, norm.to(sums.loss)]).tolist()
    loss, nll, halvings = distributed.total(loss, nll, sums.halvings)
    return Gradient(loss, nll, sums.tokens, int(halvings), norm_read)


def _collated(run: Run, rows: np.ndarray) -> Batch:
    """The batch of the pairs ``rows`` (B,), in one of few shapes where graphs are used."""
    return batches.collate(run.corpus, rows, coarse=run.graphs is not None)


def _parts(run: Run, rows: np.ndarray) -> list[np.ndarray]:
    """The pairs of each micro-batch of this process."""
    tokens, coarse = run.settings.pass_tokens, run.graphs is not None
    return list(batches.parts(run.corpus, distributed.share(rows), tokens, coarse))


def _halved(run: Run, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Halves of ``parts``, which did not fit into memory. Raises UserError if they are single pairs."""
    log.warning("out of memory; repeating micro-batches (%d) in halves: training.pass_tokens is too high", len(parts))
    if max(map(len, parts)) == 1:
        # Names the longest sides, because the user can limit them.
        src, tgt = (int(lengths.max()) for lengths in run.corpus.lengths(np.concatenate(parts)))
        pair = f"a pair of {src} and {tgt} tokens does not fit into the memory of {run.device}"
        raise UserError(f"{pair}; use a smaller training.max_length or a smaller model")
    return [half for part in parts for half in np.array_split(part, 2) if len(half)]


def clip(model: Seq2Seq, limit: float | None) -> Tensor:
    """The global norm () of the gradients, which are scaled down to ``limit`` if it is larger."""
    # A parameter that no micro-batch used has no gradient.
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = _norm(gradients)
    # On a CPU, scaling by 1 is skipped. PyTorch divides by the norm plus 1e-6.
    if limit is not None and (norm.is_cuda or norm + 1e-6 > limit):
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return norm


def _norm(gradients: Sequence[Tensor]) -> Tensor:
    """The global norm () of tensors of any shape."""
    if not gradients or gradients[0].is_cuda:
        return torch.nn.utils.get_total_norm(gradients)
    # On a CPU, a dot product with itself takes half as long as PyTorch's norm.
    return torch.stack([gradient.flatten().dot(gradient.flatten()) for gradient in gradients]).sum().sqrt()
