"""The functions that are compiled on a GPU, and arguments for them."""

from typing import Any

import torch

from nmtkit.kernels import door
from nmtkit.kernels.door import FUSED, KERNELS
from nmtkit.ops.loop import keep
from nmtkit.ops.plain import PLAIN

COMPILED = {name: {**PLAIN, "keep": keep}[name] for name in FUSED}  # the plain functions


def arguments(name: str, dtype: torch.dtype) -> list[Any]:
    """Of a compiled function: those of a kernel's trial, or for ``keep``."""
    if name != "keep":
        return [*KERNELS[name].arguments(dtype)]
    states = [torch.randn(door.N, door.H).requires_grad_() for _ in range(4)]
    return [(torch.randn(door.N, 1) > 0).float(), *states]
