"""The loss in training and validation. No other module excludes padding or applies the output layer.

Letters: B sentences, S source words, T target words, R target words of a batch without padding, H hidden.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.data.batches import Batch
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.cross_entropy import linear_cross_entropy, score
from nmtkit.symbols import BOS
from nmtkit.training.graphs import Graphs


class Gradient(NamedTuple):
    """Figures of a batch whose gradient has been computed."""

    loss: float  # the training objective: per word or per sentence, with label smoothing
    nll: float  # negative log-likelihood in nats, summed over the words
    tokens: int  # target words, EOS included
    halvings: int  # how often memory ran out and the batch was repeated with twice as many micro-batches
    norm: float  # of the gradient, before clipping


def summed_loss(
    model: Seq2Seq,
    batch: Batch,
    label_smoothing: float,
    dtype: torch.dtype,
    word_dropout: float = 0.0,
    graphs: Graphs | None = None,
) -> tuple[Tensor, Tensor]:
    """Loss and negative log-likelihood () in nats, summed over a batch's target words; only the loss has a gradient.

    They differ by label smoothing: the target word has probability 1 - ``label_smoothing``, and the other words share
    the rest. Source words and previous target words are dropped with probability ``word_dropout``.
    """
    hidden, words = _hidden(model, batch, dtype, word_dropout, graphs)
    return linear_cross_entropy(hidden, model.output.weight, model.output.bias, words, label_smoothing)


def drop_words(ids: Tensor, p: float) -> Tensor:
    """ids (...), each replaced with probability ``p`` by BOS, whose embedding is zero (in DenseNMT, that of EOS).

    Word dropout (Gal and Ghahramani 2016; Sennrich and Zhang 2019), without rescaling the other embeddings.
    """
    return ids.masked_fill(torch.rand(ids.shape, device=ids.device) < p, BOS) if p else ids


def score_words(model: Seq2Seq, batch: Batch, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The log-probability of each target word (R,), float32 in nats, and whether it was the most probable one (R,)."""
    hidden, words = _hidden(model, batch, dtype, 0.0, None)
    return score(hidden, model.output.weight, model.output.bias, words)


def _hidden(
    model: Seq2Seq, batch: Batch, dtype: torch.dtype, word_dropout: float, graphs: Graphs | None
) -> tuple[Tensor, Tensor]:
    """The input (R, H) of the output layer in ``dtype``, and the target words (R,), both without padding."""
    batch = batch.to(model.output.bias.device)
    src, previous = drop_words(batch.src, word_dropout), drop_words(batch.tgt, word_dropout)
    # States and sums are in float32.
    with torch.autocast(src.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        inputs = src, batch.mask, previous
        hidden = model(*inputs) if graphs is None else graphs.hidden(model, *inputs)  # (B, T, H)
    return hidden.flatten(0, 1)[batch.words].to(dtype), batch.tgt.flatten()[batch.words]
