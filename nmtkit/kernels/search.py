"""Operations of search other than matrix products, by kernels (``search.h``): ``ops`` has a plain version of each.

Letters: N rows, V words, K beam, B sentences, S source positions, A attention width, D inputs, E outputs, H hidden.
"""

import torch
from torch import Tensor

from nmtkit.kernels.library import parts, run

GROUP = 64  # columns with a common maximum, as in search.h


def log_softmax(logits: Tensor) -> Tensor:
    """The log softmax (N, V) in float32 of logits (N, V) in float32 or bfloat16."""
    logits, rows = logits.contiguous(), len(logits)
    out = torch.empty_like(logits, dtype=torch.float32)
    run("log_softmax", rows, parts(rows, out.numel()), logits=logits, result=out, words=logits.shape[1])
    return out


def best_log_softmax(logits: Tensor, k: int, first: int) -> tuple[Tensor, Tensor]:
    """``ops.best.best_log_softmax``: logits (N, V) in float32 or bfloat16 -> values and columns, (N, k) each."""
    logits = logits.contiguous()
    (rows, words), count = logits.shape, parts(len(logits), logits.numel())
    found, columns = torch.empty(rows, k), torch.empty(rows, k, dtype=torch.long)
    scratch = torch.empty(count, (words + GROUP - 1) // GROUP, dtype=torch.int32)  # the maxima of all groups
    run(
        "best_log_softmax", rows, count, logits=logits, found=found, columns=columns, scratch=scratch, words=words,
        first=first, k=k,
    )  # fmt: skip
    return found, columns


def scores(query: Tensor, keys: Tensor, factors: Tensor) -> Tensor:
    """``ops.attention.quick_scores``: query (B, K, A), keys (B, S, A), factors (A,), all float32 -> (B, K, S)."""
    (rows, beam, width), sources = query.shape, keys.shape[1]
    result = query.new_empty(rows, beam, sources)
    run(
        "scores", rows, parts(rows, result.numel() * width), query=query.contiguous(), keys=keys.contiguous(),
        factors=factors.contiguous(), result=result, beam=beam, sources=sources, width=width,
    )  # fmt: skip
    return result


def weighted(weights: Tensor, values: Tensor) -> Tensor:
    """``ops.attention.weighted``: weights (B, K, S), values (B, S, D) in float32 or bfloat16 -> (B, K, D), float32."""
    (rows, beam, sources), depth = weights.shape, values.shape[2]
    result = weights.new_empty(rows, beam, depth)
    run(
        "weighted", rows, parts(rows, result.numel() * sources), weights=weights.contiguous(),
        values=values.contiguous(), result=result, beam=beam, sources=sources, depth=depth,
    )  # fmt: skip
    return result


def quantise(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """``ops.int8.quantise``: rows (N, D) in float32 or bfloat16 -> integers (N, D) and scales (N, 1)."""
    rows, count = rows.contiguous(), len(rows)
    integers, scales = torch.empty_like(rows, dtype=torch.uint8), torch.empty(count, 1)
    run(
        "quantise", count, parts(count, rows.numel()), numbers=rows, integers=integers, scales=scales,
        width=rows.shape[1], largest=largest,
    )  # fmt: skip
    return integers, scales


def dequantise(sums: Tensor, scales: Tensor, bias: Tensor | None, place: Tensor) -> None:
    """``ops.int8.dequantise``: sums (at least N, E), scales (at least N, 1), bias (E,) to ``place`` (N, E)."""
    rows, width = place.shape
    run("dequantise", rows, parts(rows, place.numel()), sums=sums, scales=scales, bias=bias, result=place, width=width)
