"""Learning rate schedules: the common factor of the rates of all groups."""

import math
from dataclasses import dataclass
from typing import Literal

from nmtkit.config import require_counts


@dataclass(frozen=True)
class Schedule:
    """The factor of all learning rates, a function of the update and the number of reductions.

    ``constant``: 1.
    ``plateau``: multiplied by ``factor`` at every validation after ``tolerance`` others without improvement or, if
    ``falling``, at every validation after the first reduction.
    ``inverse_sqrt``: sqrt(warmup / update) (Vaswani et al. 2017, eq. 3, relative to its highest rate).
    ``rnmt``: rises to ``replicas``, stays, and falls to half the base rate (Chen et al. 2018; Meng & Zhang 2019,
    eq. 17, with the paper's n, p, s and e), then stays or, without ``hold``, falls further to ``floor``. The number of
    replicas is a constant of the formula, independent of the machine.

    The first three begin with a linear warm-up of ``warmup`` updates.
    """

    kind: Literal["constant", "plateau", "inverse_sqrt", "rnmt"] = "constant"
    warmup: int = 0  # of rnmt: p
    factor: float = 0.5
    tolerance: int = 0
    falling: bool = False
    replicas: int = 1  # n
    start: int = 0  # s: start of the decay, in updates times replicas
    end: int = 1  # e: where the rate is halved, in the same unit
    hold: bool = True  # the rate is constant from e; false: it continues to fall
    floor: float = 0.0  # of rnmt: the smallest factor

    def __post_init__(self) -> None:
        require_counts(0, self, "warmup", "tolerance")
        if not 0 < self.factor <= 1:
            raise ValueError(f"factor: {self.factor} is not in (0, 1]")
        if self.kind in ("inverse_sqrt", "rnmt") and self.warmup < 1:
            raise ValueError(f"warmup: {self.kind} needs at least 1")
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor: {self.floor} is not in [0, 1]")
        if self.replicas < 1 or not 0 <= self.start < self.end:
            raise ValueError("replicas, start, end: at least 1, and 0 <= start < end")

    def reduces(self, stalled: int, decays: int) -> bool:
        """True if the rate is reduced after ``stalled`` validations without improvement and ``decays`` reductions."""
        return stalled > self.tolerance or (self.falling and decays > 0)

    def multiplier(self, update: int, decays: int) -> float:
        """The factor of the learning rates at ``update``, from 1, after ``decays`` reductions."""
        if self.kind == "rnmt":
            return self._rnmt(update - 1)
        warm = min(1.0, update / self.warmup) if self.warmup else 1.0
        if self.kind == "inverse_sqrt":
            return min(warm, math.sqrt(self.warmup / update))
        return warm * self.factor**decays if self.kind == "plateau" else warm

    def _rnmt(self, t: int) -> float:
        """Eq. 17 over lr0, t from 0."""
        n = self.replicas
        clock = max(n * t, self.start)
        if self.hold:
            clock = min(clock, self.end)
        decayed = n * math.pow(2 * n, (self.start - clock) / (self.end - self.start))
        return max(self.floor, min(1 + t * (n - 1) / (n * self.warmup), n, decayed))
