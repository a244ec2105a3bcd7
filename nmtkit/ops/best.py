"""The k best of all words' log-probabilities, which are all that beam search needs in most steps.

Letters: N rows, V columns.
"""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from nmtkit.kernels.door import kernel
from nmtkit.kernels.search import GROUP


class Logits(NamedTuple):
    """Log-probabilities before normalisation, which kernels apply only to those that are needed."""

    values: Tensor  # (N, V) in float32 or bfloat16


LogProbs: TypeAlias = Tensor | Logits  # (N, V)


def softmax_of(logits: Tensor) -> LogProbs:
    """The log-probabilities of logits (N, V); where there is a kernel for it, they are normalised later."""
    quick = kernel("best_log_softmax", best_log_softmax, logits) is not best_log_softmax
    return Logits(logits) if quick else whole(Logits(logits))


def whole(log_probs: LogProbs) -> Tensor:
    """All log-probabilities (N, V), normalised, in float32."""
    if isinstance(log_probs, Tensor):
        return log_probs
    return kernel("log_softmax", log_softmax, log_probs.values)(log_probs.values)


def best(log_probs: LogProbs, k: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """The k best of every row, sorted, and their columns, both (N, k); NaN comes first, as with ``topk``.

    Columns before ``first`` do not count; k is less if fewer others remain.
    """
    if isinstance(log_probs, Logits):
        logits = log_probs.values
        return kernel("best_log_softmax", best_log_softmax, logits)(logits, min(k, logits.shape[1] - first), first)
    find = kernel("best", best_values, log_probs) if log_probs.stride(1) == 1 else best_values
    return find(log_probs, min(k, log_probs.shape[1] - first), first)


def log_softmax(logits: Tensor) -> Tensor:
    """The log softmax (N, V) in float32 of logits (N, V) in float32 or bfloat16."""
    return logits.float().log_softmax(dim=-1)


def best_log_softmax(logits: Tensor, k: int, first: int) -> tuple[Tensor, Tensor]:
    """``best_values`` (N, k) of the log softmax of logits (N, V)."""
    return best_values(log_softmax(logits), k, first)


def best_values(values: Tensor, k: int, first: int) -> tuple[Tensor, Tensor]:
    """The k best of every row of values (N, V) from column ``first`` on, sorted, and their columns, both (N, k).

    On a CPU ``topk`` compares one value at a time, while a maximum is taken over many at once: the k best lie in the k
    groups of columns with the highest maxima, because each of those groups has a value at least as good as any value of
    the others.
    """
    values = values[:, first:]
    groups = values.shape[1] // GROUP
    if values.device.type != "cpu" or groups < 4 * k:
        found, columns = values.topk(k)
        return found, columns + first
    groups_of = values[:, : groups * GROUP].unflatten(1, (groups, GROUP))  # (N, groups, GROUP)
    chosen = groups_of.amax(dim=2).topk(k, sorted=False).indices  # (N, k)
    columns = (chosen.unsqueeze(2) * GROUP + torch.arange(GROUP)).flatten(1)  # (N, k GROUP)
    # The columns after the last whole group are all candidates.
    rest = torch.arange(groups * GROUP, values.shape[1]).expand(len(values), -1)
    columns = torch.cat([columns, rest], dim=1)
    found, places = values.gather(1, columns).topk(k)
    return found, columns.gather(1, places) + first
