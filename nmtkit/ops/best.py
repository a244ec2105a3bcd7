"""The top k log-probabilities of each row; a step of beam search rarely needs more.

Letters: N rows, V columns.
"""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from nmtkit.kernels.door import kernel
from nmtkit.kernels.search import GROUP


class Logits(NamedTuple):
    """Unnormalised log-probabilities; kernels normalise only the top k."""

    values: Tensor  # (N, V) in float32 or bfloat16


LogProbs: TypeAlias = Tensor | Logits  # (N, V)


def softmax_of(logits: Tensor) -> LogProbs:
    """The log-probabilities of logits (N, V); with a kernel, normalisation is deferred to it."""
    quick = kernel("best_log_softmax", best_log_softmax, logits) is not best_log_softmax
    return Logits(logits) if quick else whole(Logits(logits))


def whole(log_probs: LogProbs) -> Tensor:
    """All log-probabilities (N, V), normalised, in float32."""
    if isinstance(log_probs, Tensor):
        return log_probs
    return kernel("log_softmax", log_softmax, log_probs.values)(log_probs.values)


def best(log_probs: LogProbs, k: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """The top k of every row, sorted, and their columns, both (N, k); NaN comes first, as with ``topk``.

    Ties go to the last column, so not to EOS, whose id is low; a GPU breaks ties arbitrarily, as ``topk`` does. Columns
    before ``first`` are ignored; k is reduced if fewer others remain.
    """
    if isinstance(log_probs, Logits):
        logits = log_probs.values
        return kernel("best_log_softmax", best_log_softmax, logits)(logits, min(k, logits.shape[1] - first), first)
    return best_values(log_probs, min(k, log_probs.shape[1] - first), first)


def log_softmax(logits: Tensor) -> Tensor:
    """The log softmax (N, V) in float32 of logits (N, V) in float32 or bfloat16."""
    return logits.float().log_softmax(dim=-1)


def best_log_softmax(logits: Tensor, k: int, first: int) -> tuple[Tensor, Tensor]:
    """``best_values`` (N, k) of the log softmax of logits (N, V)."""
    return best_values(log_softmax(logits), k, first)


def best_values(values: Tensor, k: int, first: int) -> tuple[Tensor, Tensor]:
    """The top k of each row of float32 values (N, V) from column ``first`` on, sorted, and their columns: (N, k) each.

    On a CPU ``topk`` compares one value at a time, while a maximum is computed over many at once: the top k are in the
    k groups of columns with the largest maxima, because these k maxima precede any value of another group.
    """
    values = values[:, first:]
    if values.device.type != "cpu":
        found, columns = values.topk(k)
        return found, columns + first
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
    return values.gather(1, best), best + first


def _best_columns(values: Tensor, columns: Tensor, k: int) -> Tensor:
    """The columns (N, k) of the top k values (N, C), whose columns are (N, C) or (C,).

    ``topk`` breaks ties arbitrarily, so it is given int64 keys that are all different: the value in the upper half, the
    column in the lower. The values are mapped to integers of the same order, NaN of either sign above all, as in
    ``kernels/all.h``.
    """
    bits = values.view(torch.int32)
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)) - 0x7FFFFF
    keys: Tensor = torch.add(columns, ordered, alpha=1 << 32)
    return keys.topk(k).values & 0xFFFFFFFF
