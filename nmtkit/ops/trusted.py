"""Which of two twins is used: plain operations, or on a GPU Triton's kernels, if they gave the right results once.

The kernels were written where no GPU was at hand, which is why they are not relied on without having been tried.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

log = logging.getLogger(__name__)

Twin = TypeVar("Twin")
Compare = Callable[[Any, torch.device, torch.dtype], None]  # raises where the kernels give something else


def choose(plain: Twin, fused: Callable[[], Twin], compare: Compare, x: Tensor) -> Twin:
    """``plain``, or what ``fused`` imports if x (any shape) lies on a GPU where ``compare`` raised nothing.

    That is tried once for each device and dtype.
    """
    return fused() if x.is_cuda and _sound(fused, compare, x.device, x.dtype) else plain


@cache
def _sound(fused: Callable[[], Any], compare: Compare, device: torch.device, dtype: torch.dtype) -> bool:
    try:
        compare(fused(), device, dtype)
    except Exception as error:  # whatever a compiler or a driver may raise: the plain operations need neither
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _warn(f"plain operations on {device}, not Triton's kernels: {reason}")
        return False
    return True


@cache
def _warn(line: str) -> None:
    """Logs the line once, however many cells meet the same failure."""
    log.warning(line)
