"""The best few of many columns: what beam search asks of the log-probabilities of all words, in every step.

Letters: N rows, V columns.
"""

import torch
from torch import Tensor

from nmtkit.ops.native import library, search
from nmtkit.ops.native.search import GROUP


def best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best values of every row of values (N, V), sorted, and their columns: (N, k) both, NaN first, as ``topk``.

    On a CPU ``topk`` looks at one value after the other, while maxima are taken of many at a time: the k best lie in
    the k groups of columns with the best maxima, because each of those has a value as good as any of another group.
    """
    if library.helps(values) and values.stride(1) == 1:
        return search.best(values, k)
    groups = values.shape[1] // GROUP
    if values.device.type != "cpu" or groups < 4 * k:
        return values.topk(k)
    whole = values[:, : groups * GROUP].unflatten(1, (groups, GROUP))  # (N, groups, GROUP)
    chosen = whole.amax(dim=2).topk(k, sorted=False).indices  # (N, k)
    columns = (chosen.unsqueeze(2) * GROUP + torch.arange(GROUP)).flatten(1)  # (N, k GROUP)
    # The columns behind the last whole group stand for themselves.
    rest = torch.arange(groups * GROUP, values.shape[1]).expand(len(values), -1)
    columns = torch.cat([columns, rest], dim=1)
    found, places = values.gather(1, columns).topk(k)
    return found, columns.gather(1, places)
