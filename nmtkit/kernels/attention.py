"""Additive attention by kernels (``attention.h``): ``ops`` has a plain version of each."""

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run


def attend(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The context (N, D) and the attention weights (N, S) of queries (N, A), the same number for each sentence.

    keys (B, S, A), values (B, S, D), v (A,), mask (B, S) False at padding. All are contiguous; query, context, keys and
    values have one dtype, float32 or bfloat16, the others are float32.
    """
    (sentences, sources, depth), (rows, width) = values.shape, query.shape
    assert rows % sentences == 0, "each sentence has the same number of queries"  # else C would read beyond the keys
    count = parts(rows, rows * sources * width)
    context, weights = query.new_empty(rows, depth), v.new_empty(rows, sources)
    run(
        "attend", rows, count, query=query, keys=keys, values=values, v=v, mask=mask, context=context, weights=weights,
        scratch=weights.new_empty(count, depth), beam=rows // sentences, sources=sources, width=width, depth=depth,
    )  # fmt: skip
    return context, weights


def attend_back(
    d_context: Tensor, query: Tensor, keys: Tensor, values: Tensor, v: Tensor, weights: Tensor, d_keys: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of query (B, A) and v (A,) from that of the context (B, D); accumulates that of the keys in d_keys.

    query (B, A), weights (B, S), d_keys (B, S, A) in float32, the others as for ``attend``.
    """
    (rows, sources, depth), width = values.shape, query.shape[1]
    count = parts(rows, keys.numel())
    d_query, d_v = torch.empty_like(query), weights.new_zeros(count, width)
    run(
        "attend_back", rows, count, d_context=d_context, query=query, keys=keys, values=values, v=v, weights=weights,
        d_query=d_query, d_keys=d_keys, d_v=d_v, scratch=weights.new_empty(count, width + sources), sources=sources,
        width=width, depth=depth,
    )  # fmt: skip
    return d_query, d_v.sum(dim=0)


def there_and_back(
    query: Tensor, keys: Tensor, values: Tensor, v: Tensor, mask: Tensor, d_context: Tensor
) -> tuple[Tensor, ...]:
    """Context (B, D) and weights (B, S), and the gradients of query, keys and v, for the trial in ``door.py``."""
    (context, weights), d_keys = attend(query, keys, values, v, mask), torch.zeros(keys.shape)
    d_query, d_v = attend_back(d_context, query, keys, values, v, weights, d_keys)
    return context, weights, d_query, d_keys, d_v
