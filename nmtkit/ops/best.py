"""The k best of all words' log-probabilities, which are all that beam search needs in most steps.

Letters: N rows, V columns.
"""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from nmtkit.ops.native import library, search
from nmtkit.ops.native.search import GROUP


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

    Of equal values the one in the lower column comes first, by which search breaks ties.

    Columns before ``first`` do not count; k is less if fewer others remain.
    """
    if isinstance(log_probs, Logits):
        return search.best_log_softmax(log_probs.values, min(k, log_probs.values.shape[1] - first), first)
    k = min(k, log_probs.shape[1] - first)
    if library.helps(log_probs) and log_probs.stride(1) == 1:
        return search.best(log_probs, k, first)
    found, columns = _best(log_probs[:, first:], k)
    return found, columns + first


def _best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of every row of values (N, V) in plain operations.

    They lie in the k groups of columns with the highest maxima: each of those has a value that comes before any value
    of the other groups. So only these few columns need to be sorted.
    """
    groups = values.shape[1] // GROUP
    if groups < 4 * k:
        return _sorted(values, k)
    maxima = values[:, : groups * GROUP].unflatten(1, (groups, GROUP)).amax(dim=2)  # (N, groups)
    chosen = _sorted(maxima, k)[1].sort(dim=1).values  # (N, k) in the order of the columns, for the sake of ties
    columns = (chosen.unsqueeze(2) * GROUP + torch.arange(GROUP, device=values.device)).flatten(1)  # (N, k GROUP)
    # The columns after the last whole group are all candidates.
    rest = torch.arange(groups * GROUP, values.shape[1], device=values.device).expand(len(values), -1)
    columns = torch.cat([columns, rest], dim=1)
    found, places = _sorted(values.gather(1, columns), k)
    return found, columns.gather(1, places)


def _sorted(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best of every row of values (N, V) by a stable sort, unlike ``topk``, which breaks ties in any way."""
    found, columns = values.sort(dim=1, descending=True, stable=True)
    return found[:, :k], columns[:, :k]
