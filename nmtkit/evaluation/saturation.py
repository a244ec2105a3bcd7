"""Saturation of additive attention: the share of tanh units so close to -1 or 1 that gradients vanish.

Keys with a standard deviation far above 1 saturate v . tanh(query + key) (Bahdanau et al. 2015, A.1.2).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.data.batches import Batch
from nmtkit.layers.attention import Attending
from nmtkit.models.base import Decoder, Seq2Seq, previous_words
from nmtkit.ops import attention
from nmtkit.symbols import PAD

SATURATED = 0.99  # the magnitude of tanh above which its slope is less than 0.02


class Saturation(NamedTuple):
    """The saturation of one attention on a batch, without padding."""

    name: str  # of the module, as in ``nmtkit inspect --shapes``
    keys: float  # the standard deviation of the keys
    share: float  # of units whose tanh is above ``SATURATED`` in magnitude


@torch.no_grad()
def saturation(model: Seq2Seq, batch: Batch) -> list[Saturation]:
    """The saturation of every additive attention of the model on a batch, without dropout."""
    model.eval()
    attending = {name: module for name, module in model.named_modules() if isinstance(module, Attending)}
    counts = {name: _Count(batch.tgt != PAD) for name in attending}
    for name, module in attending.items():
        module.additive = counts[name]
    try:
        memory, state = model.begin(batch.src, batch.mask)
        words = model.embedding["tgt"](previous_words(batch.tgt))
        # The ``unroll`` of the decoder may not call ``additive``; this one calls ``step``, which does.
        Decoder.unroll(model.decoder, memory, state, words)
    finally:
        for module in attending.values():
            module.additive = attention.additive
    return [Saturation(name, count.keys, count.saturated / count.units) for name, count in counts.items()]


class _Count:
    """``additive`` that counts saturated units; real (B, T): False at padding."""

    def __init__(self, real: Tensor) -> None:
        self.steps = iter(real.t())
        self.keys = math.nan
        self.saturated = self.units = 0

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """As ``additive``, with a query for each sentence or for each head of a sentence."""
        real = next(self.steps)
        rows = real.repeat_interleave(len(query) // len(real))  # the heads of a sentence are adjacent
        if math.isnan(self.keys):
            self.keys = float(keys[mask].std())
        units = (query.unsqueeze(1) + keys)[rows][mask[rows]].tanh()
        self.saturated += int((units.abs() > SATURATED).sum())
        self.units += units.numel()
        return attention.additive(query, keys, values, v, mask)
