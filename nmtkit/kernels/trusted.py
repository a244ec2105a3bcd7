"""Kernels or the plain operations that they replace: kernels are used once they have given the right results.

The kernels of the cells and of products are tried before they are used, because they depend on the compiler of the
machine. There are none for a GPU, which takes the plain operations.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from nmtkit.kernels import library

log = logging.getLogger(__name__)

Twin = TypeVar("Twin")
Compare = Callable[[Any, torch.device, torch.dtype], None]  # raises where the kernels give something else


def choose(plain: Twin, native: Callable[[], Twin], compare: Compare, x: Tensor) -> Twin:
    """``plain``, or the kernels that ``native`` imports if there are any for tensors like x (any shape).

    They are used if ``compare`` raises nothing, which is tried once for each device and dtype.
    """
    if not library.helps(x, dtypes=library.BOTH):
        return plain
    return native() if sound(native, compare, x.device, x.dtype) else plain


@cache
def sound(fused: Callable[[], Any], compare: Compare, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether ``compare`` accepts the kernels that ``fused`` imports; logs a warning if not."""
    try:
        # The first tensor may come from a search, where gradients are off, or from a training in another dtype.
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
            compare(fused(), device, dtype)
    except Exception as error:  # whatever a compiler or a driver may raise: the plain operations need neither
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _warn(f"plain operations on {device}, not kernels: {reason}")
        return False
    return True


@cache
def _warn(line: str) -> None:
    """Logs the line once, however many cells meet the same failure."""
    log.warning(line)
