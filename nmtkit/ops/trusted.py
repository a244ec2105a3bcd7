"""Whether Triton's kernels are used: on a GPU, if Triton is there and they gave the right results when they were tried.

The kernels were written where no GPU was at hand, which is why they are not relied on without having been tried.
"""

import logging
from collections.abc import Callable
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

log = logging.getLogger(__name__)

Compare = Callable[[ModuleType, torch.device, torch.dtype], None]  # raises where kernels give something else


def kernels(compare: Compare, x: Tensor) -> ModuleType | None:
    """The module ``kernels`` if x lies on a GPU where ``compare`` raised nothing. That is tried once."""
    return _tried(compare, x.device, x.dtype) if x.is_cuda else None


@cache
def _tried(compare: Compare, device: torch.device, dtype: torch.dtype) -> ModuleType | None:
    try:
        from nmtkit.ops import kernels

        compare(kernels, device, dtype)
    except Exception as error:  # whatever a compiler or a driver may raise: the plain operations need neither
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _warn(f"plain operations on {device}, not Triton's kernels: {reason}")
        return None
    return kernels


@cache
def _warn(line: str) -> None:
    """Says it once, however often it is tried."""
    log.warning(line)
