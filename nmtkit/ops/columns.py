"""A tensor to which every step of a search appends, without being copied in every step.

Letters: B rows, C columns so far, D values in each.
"""

from typing import Self

import torch
from torch import Tensor

SPARE = 1.0  # columns for which there is room after a copy, as a share of those that were copied


class Columns:
    """Values (B, C, D), to which ``append`` puts further columns.

    They lie at the beginning of memory that has room for more, which is shared with those that they were appended to.
    So appending to the last of them copies nothing, and what was there before is never written to: appending once more
    to an earlier one makes a copy.
    """

    def __init__(self, memory: Tensor, count: int, used: list[int]):
        """The first ``count`` columns of memory (B, at least C, D). used: how many are taken, one number for all."""
        self._memory, self._count, self._used = memory, count, used

    @classmethod
    def none(cls, like: Tensor) -> Self:
        """No columns yet, with the rows and the width of ``like`` (B, ..., D)."""
        return cls(like.new_empty(len(like), 0, like.shape[-1]), 0, [0])

    @property
    def value(self) -> Tensor:
        """All columns (B, C, D)."""
        return self._memory[:, : self._count]

    def append(self, new: Tensor) -> "Columns":
        """These columns and ``new`` (B, T, D) behind them."""
        if not self._count:
            return Columns(new, new.shape[1], [new.shape[1]])
        count = self._count + new.shape[1]
        # Nothing is written to what a gradient may still be computed from.
        if self._used[0] != self._count or count > self._memory.shape[1] or new.requires_grad:
            spare = new.new_empty(len(new), 0 if new.requires_grad else int(SPARE * count), new.shape[2])
            return Columns(torch.cat([self.value, new, spare], dim=1), count, [count])
        self._memory[:, self._count : count] = new
        self._used[0] = count
        return Columns(self._memory, count, self._used)

    def select(self, rows: Tensor) -> "Columns":
        """The given rows (R,) of all columns, as a copy."""
        return Columns(self.value.index_select(0, rows), self._count, [self._count])
