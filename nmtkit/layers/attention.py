"""Additive attention layers, with one head and with several."""

import torch
from torch import Tensor, nn

from nmtkit.layers.linear import Linear
from nmtkit.ops import attention
from nmtkit.ops.attention import Additive
from nmtkit.ops.precision import Products


class ExponentialKeys(nn.Module):
    """Exponentials of keys for ``quick_additive``, computed once for each sentence."""

    def __init__(self, key: nn.Module):
        super().__init__()
        self.key = key

    def forward(self, annotations: Tensor) -> Tensor:
        """Annotations (B, S, D) -> exp(2 keys) (B, S, A) in float32."""
        return attention.exponential(self.key(annotations))


class Attending(nn.Module):
    """A module with additive attention, whose ``key`` maps annotations (B, S, D) to keys."""

    key: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.additive: Additive = attention.additive

    def for_search(self, precision: Products) -> "Attending":
        """``converted.Convertible.for_search``: computed from exponentials in low precision."""
        if precision != "float32":
            self.additive, self.key = attention.quick_additive, ExponentialKeys(self.key)
        return self


class AdditiveAttention(Attending):
    """The alignment model v . tanh(query W_a + key U_a + b) of Bahdanau et al. 2015 (A.1.2).

    Keys are projected by ``key`` once for each sentence, queries by ``query`` in every step.
    """

    def __init__(self, query: int, key: int, width: int):
        super().__init__()
        self.query = Linear(query, width, bias=False)  # W_a
        self.key = Linear(key, width)  # U_a, b
        self.v = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.v, std=width**-0.5)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Context (N, D) and attention weights (N, S) in float32 of N = B x K queries.

        query (N, Q), keys (B, S, A) already projected by ``key``, values (B, S, D), mask (B, S) False at padding.
        """
        return self.additive(self.query(query), keys, values, self.v, mask)


class MultiHeadAdditiveAttention(Attending):
    """Additive attention in heads that share v, as in the release of Meng and Zhang 2019.

    Queries, keys and the annotations, which are the values, are split into heads; the heads' contexts are concatenated
    and projected. ``ops.attention`` treats each head as a sentence.
    """

    def __init__(self, query: int, key: int, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = Linear(query, width, bias=False)  # W_q
        self.key = Linear(key, width, bias=False)  # W_k
        self.v = nn.Parameter(torch.empty(width // heads))
        self.out = Linear(key, key)  # W_out
        nn.init.normal_(self.v, std=len(self.v) ** -0.5)

    def keys_and_values(self, annotations: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, heads, S, A / heads) and values (B, heads, S, D / heads) of annotations (B, S, D)."""
        keys, values = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (self.key(annotations), annotations))
        return keys.contiguous(), values.contiguous()

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Context (N, D) and attention weights (N, S), the mean over the heads, of N = B x K queries.

        query (N, Q), keys and values from ``keys_and_values``, mask (B, S) False at padding.
        """
        split = self.query(query).unflatten(0, (len(keys), -1)).unflatten(-1, (self.heads, -1))  # (B, K, heads, A)
        rows = split.transpose(1, 2).flatten(0, 2)  # the K queries of a head are adjacent
        masks = mask.repeat_interleave(self.heads, dim=0)
        context, weights = self.additive(rows, keys.flatten(0, 1), values.flatten(0, 1), self.v, masks)
        context, weights = (x.unflatten(0, split.transpose(1, 2).shape[:3]) for x in (context, weights))
        return self.out(context.transpose(1, 2).flatten(2).flatten(0, 1)), weights.mean(dim=1).flatten(0, 1)
