"""The k best of all words' log-probabilities, which are all that beam search needs in most steps.

Letters: N rows, V columns.
"""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from nmtkit.kernels import library, search
from nmtkit.kernels.search import GROUP


class Logits(NamedTuple):
    """Log-probabilities before normalisation, which kernels apply only to those that are needed."""

    values: Tensor  # (N, V) in float32 or bfloat16


LogProbs: TypeAlias = Tensor | Logits  # (N, V)


def softmax_of(logits: Tensor) -> LogProbs:
    """The log-probabilities of logits (N, V); where there are kernels for it, they are normalised later."""
    if library.helps(logits, dtypes=library.BOTH):
        return Logits(logits)
    return logits.float().log_softmax(dim=-1)


def whole(log_probs: LogProbs) -> Tensor:
    """All log-probabilities (N, V), normalised, in float32."""
    return log_probs if isinstance(log_probs, Tensor) else search.log_softmax(log_probs.values)


def best(log_probs: LogProbs, k: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """The k best of every row, sorted, and their columns, both (N, k); NaN comes first, as with ``topk``.

    Of equal values the last column comes first, so that EOS, whose id is low, does not win ties; a GPU breaks ties
    arbitrarily, as ``topk`` does. Columns before ``first`` do not count; k is less if fewer others remain.
    """
    if isinstance(log_probs, Logits):
        return search.best_log_softmax(log_probs.values, min(k, log_probs.values.shape[1] - first), first)
    k = min(k, log_probs.shape[1] - first)
    if library.helps(log_probs) and log_probs.stride(1) == 1:
        return search.best(log_probs, k, first)
    values = log_probs[:, first:]
    found, columns = values.topk(k) if values.device.type != "cpu" else _best(values, k)
    return found, columns + first


def _best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """``best`` of values (N, V) on a CPU, in plain operations.

    ``topk`` compares one value at a time, while a maximum is taken over many at once: the k best lie in the k best
    groups of columns by their maxima, because each of those groups has a value that comes before any of the others'.
    """
    groups, columns = values.shape[1] // GROUP, torch.arange(values.shape[1])
    if groups < 4 * k:
        best = _best_columns(values, columns, k)
    else:
        maxima = values[:, : groups * GROUP].unflatten(1, (groups, GROUP)).amax(dim=2)  # (N, groups)
        chosen = _best_columns(maxima, columns[:groups], k)
        # The columns after the last whole group are all candidates.
        rest = columns[groups * GROUP :].expand(len(values), -1)
        candidates = torch.cat([(chosen.unsqueeze(2) * GROUP + columns[:GROUP]).flatten(1), rest], dim=1)
        best = _best_columns(values.gather(1, candidates), candidates, k)
    return values.gather(1, best), best


def _best_columns(values: Tensor, columns: Tensor, k: int) -> Tensor:
    """The columns (N, k) of the k best values (N, C), whose columns are (N, C) or (C,).

    ``topk`` breaks ties arbitrarily, so it sorts int64 keys that are all different: the value in the upper half, the
    column in the lower. The values are integers in the order of the numbers, NaN of either sign above all, as in
    ``kernels/functions.h``.
    """
    bits = values.view(torch.int32)
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)) - 0x7FFFFF
    keys: Tensor = torch.add(columns, ordered, alpha=1 << 32)
    return keys.topk(k).values & 0xFFFFFFFF
