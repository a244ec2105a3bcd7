"""A tensor to which every step of a search appends, without being copied in every step.

Letters: B rows, C columns so far, D values in each.
"""

import torch
from torch import Tensor
from torch.nn import functional


class Columns:
    """Values (B, C, D), to which ``append`` adds columns and returns the result as another ``Columns``.

    The memory may have room for more columns, and is shared by all ``Columns`` that were made by appending in place.
    Appending to the latest of them copies nothing. Appending to an earlier one makes a copy, so that columns once
    written never change; and so does appending where there is no room.
    """

    def __init__(self, memory: Tensor, count: int, used: list[int]):
        """The first ``count`` columns of memory (B, at least C, D). used: how many are taken, a list that all share."""
        self._memory, self._count, self._used = memory, count, used

    @classmethod
    def none(cls, like: Tensor) -> "Columns":
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
        if new.requires_grad or not self.has_room(new.shape[1]):
            return Columns(torch.cat([self.value, new], dim=1), count, [count])
        self._memory[:, self._count : count] = new
        self._used[0] = count
        return Columns(self._memory, count, self._used)

    def has_room(self, more: int) -> bool:
        """True if so many columns can be appended without a copy."""
        return self._used[0] == self._count and self._count + more <= self._memory.shape[1]

    def take(self, rows: Tensor, columns: Tensor, room: int) -> "Columns":
        """A copy of the columns (R, C'), numbers below C, of the rows (R,), with room for so many more columns."""
        count = columns.shape[1]
        # What fills the room does not matter.
        places = functional.pad(rows[:, None] * self._memory.shape[1] + columns, (0, room))
        memory = self._memory.flatten(0, 1).index_select(0, places.flatten())
        return Columns(memory.unflatten(0, places.shape), count, [count])
