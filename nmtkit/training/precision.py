"""The number format in which products are done."""

import time
from typing import Literal

import torch

Precision = Literal["auto", "float32", "bfloat16"]


def resolve(precision: Precision, device: torch.device) -> torch.dtype:
    """``auto``: bfloat16 where this processor multiplies it faster than float32, which is measured (half a second)."""
    if precision != "auto":
        return torch.bfloat16 if precision == "bfloat16" else torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    # Half again as fast at least: conversions cost something as well, and float32 is the safer of two equals.
    return torch.bfloat16 if _seconds(torch.float32) > 1.5 * _seconds(torch.bfloat16) else torch.float32


def _seconds(dtype: torch.dtype) -> float:
    """The seconds that a product of moderate size takes in this number format."""
    a, b = torch.ones(128, 256, dtype=dtype), torch.ones(256, 512, dtype=dtype)
    times = []
    for _ in range(12):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)  # what it can do: on a busy machine the others measure the neighbours
