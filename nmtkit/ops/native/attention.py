"""Additive attention in training by a kernel each way, as ``ops/attention.py`` has it in plain operations."""

import torch
from torch import Tensor

from nmtkit.ops.loop import Shared
from nmtkit.ops.native.library import parts, run


def attend(query: Tensor, keys: Shared, values: Shared, v: Shared, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The context (B, D) and the weights (B, S), in float32, of a query (B, A) in the dtype of keys and values.

    keys (B, S, A), values (B, S, D), v (A,), mask (B, S) True = real. All lie in one piece.
    """
    (rows, sources, depth), width = values.value.shape, query.shape[1]
    count = parts(rows, keys.value.numel())
    context, weights = query.new_empty(rows, depth), v.wide().new_empty(rows, sources)
    given = query, keys.value, values.value, v.wide(), mask, context, weights, weights.new_empty(count, depth)
    run("attend", rows, count, *given, sources, width, depth, query.dtype)
    return context, weights


def back(d_context: Tensor, query: Tensor, keys: Shared, values: Shared, v: Shared, weights: Tensor) -> Tensor:
    """The query's gradient (B, A) from that of the context, (B, D); adds to those of the keys and of v.

    query (B, A), weights (B, S).
    """
    (rows, sources, depth), width = values.value.shape, query.shape[1]
    count = parts(rows, keys.value.numel())
    d_query, d_v = torch.empty_like(query), weights.new_zeros(count, width)
    room, d_keys = weights.new_empty(count, width + sources), keys.sum()
    given = d_context, query, keys.value, values.value, v.wide(), weights, d_query, d_keys, d_v, room
    run("attend_back", rows, count, *given, sources, width, depth, query.dtype)
    v.add(d_v.sum(dim=0))
    return d_query
