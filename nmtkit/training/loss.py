"""What training minimises and a validation measures: the one place where padding is left out and the output layer meets
the loss.

Letters: B sentences, S source words, T target words, R words of a batch's target that are no padding, H hidden.
"""

import torch
from torch import Tensor

from nmtkit.data.batches import Batch
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.cross_entropy import linear_cross_entropy, score
from nmtkit.symbols import PAD


def summed_loss(model: Seq2Seq, batch: Batch, label_smoothing: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Loss and negative log-likelihood (nats) of a batch's target words, summed: two scalars of shape ().

    Only the loss carries a gradient. They differ by the smoothing: a target word has 1 - ``label_smoothing``, and all
    others share the rest.
    """
    hidden, words = _at_words(model, batch, dtype)
    return linear_cross_entropy(hidden, model.output.weight, model.output.bias, words, label_smoothing)


def score_words(model: Seq2Seq, batch: Batch, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Of each target word its log-probability (R,), float32 in nats, and whether it was the most probable one (R,)."""
    hidden, words = _at_words(model, batch, dtype)
    return score(hidden, model.output.weight, model.output.bias, words)


def _at_words(model: Seq2Seq, batch: Batch, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What the output layer reads where there is a target word, (R, H) of ``dtype``, and these words, (R,)."""
    batch = batch.to(model.output.weight.device)
    # Float32 states and sums whatever dtype is: autocast changes the products alone.
    with torch.autocast(batch.src.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        hidden = model(batch.src, batch.mask, batch.tgt)  # (B, T, H)
    real = (batch.tgt != PAD).flatten().nonzero().squeeze(1)
    return hidden.flatten(0, 1)[real].to(dtype), batch.tgt.flatten()[real]
