"""Additive attention in training by a kernel each way, as ``ops/attention.py`` has it in plain operations."""

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run


def attend(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The context (B, D) and the weights (B, S), in float32, of a query (B, A) in the dtype of keys and values.

    keys (B, S, A), values (B, S, D), v (A,) in float32, mask (B, S) True = real. All are contiguous.
    """
    (rows, sources, depth), width = values.shape, query.shape[1]
    count = parts(rows, keys.numel())
    context, weights = query.new_empty(rows, depth), v.new_empty(rows, sources)
    given = query, keys, values, v, mask, context, weights, weights.new_empty(count, depth)
    run("attend", rows, count, *given, sources, width, depth, query.dtype)
    return context, weights


def back(
    d_context: Tensor, query: Tensor, keys: Tensor, values: Tensor, v: Tensor, weights: Tensor, d_keys: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the query (B, A) and of v (A,) from that of the context (B, D); adds that of the keys to d_keys.

    query (B, A), weights (B, S), d_keys (B, S, A) in float32, the others as for ``attend``.
    """
    (rows, sources, depth), width = values.shape, query.shape[1]
    count = parts(rows, keys.numel())
    d_query, d_v = torch.empty_like(query), weights.new_zeros(count, width)
    room = weights.new_empty(count, width + sources)
    given = d_context, query, keys, values, v, weights, d_query, d_keys, d_v, room
    run("attend_back", rows, count, *given, sources, width, depth, query.dtype)
    return d_query, d_v.sum(dim=0)
