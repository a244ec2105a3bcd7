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

    Columns before ``first`` do not count; k is less if fewer others remain. On a CPU ``topk`` compares one value at a
    time, while a maximum is taken over many at once: the k best lie in the k groups of columns with the highest maxima,
    because each of those groups has a value at least as good as any value of the others.
    """
    if isinstance(log_probs, Logits):
        return search.best_log_softmax(log_probs.values, min(k, log_probs.values.shape[1] - first), first)
    k = min(k, log_probs.shape[1] - first)
    if library.helps(log_probs) and log_probs.stride(1) == 1:
        return search.best(log_probs, k, first)
    found, columns = _best(log_probs[:, first:], k)
    return found, columns + first


def _best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of every row of values (N, V) in plain operations."""
    groups = values.shape[1] // GROUP
    if values.device.type != "cpu" or groups < 4 * k:
        return values.topk(k)
    groups_of = values[:, : groups * GROUP].unflatten(1, (groups, GROUP))  # (N, groups, GROUP)
    chosen = groups_of.amax(dim=2).topk(k, sorted=False).indices  # (N, k)
    columns = (chosen.unsqueeze(2) * GROUP + torch.arange(GROUP)).flatten(1)  # (N, k GROUP)
    # The columns after the last whole group are all candidates.
    rest = torch.arange(groups * GROUP, values.shape[1]).expand(len(values), -1)
    columns = torch.cat([columns, rest], dim=1)
    found, places = values.gather(1, columns).topk(k)
    return found, columns.gather(1, places)
