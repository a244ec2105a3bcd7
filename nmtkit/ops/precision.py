"""The number format in which products are done: named by the user, or chosen by how fast the device multiplies.

float32 means it on a GPU, too. TF32, which keeps 10 of its 23 bits, is off in PyTorch's products by default and stays
off: the cards that have it have bfloat16 as well, which is faster still and what ``auto`` takes there, so that float32
is asked for by those who want its digits. Models have no convolution of cuDNN, for which TF32 is on by default.
"""

import time
from typing import Literal

import torch

TrainingPrecision = Literal["auto", "float32", "bfloat16"]
Precision = Literal["auto", "float32", "bfloat16", "int8"]  # of search, which needs no gradients
Products = Literal["float32", "bfloat16", "int8"]  # what a precision comes to on a device


def resolve(precision: Precision, device: torch.device) -> Products:
    """``auto``: bfloat16 where the device multiplies it faster than float32, which a CPU is measured for (10 ms)."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    # Half again as fast at least: conversions cost something as well, and float32 is the safer of two equals.
    return "bfloat16" if _seconds(torch.float32) > 1.5 * _seconds(torch.bfloat16) else "float32"


def dtype_of(precision: TrainingPrecision, device: torch.device) -> torch.dtype:
    """The dtype of training's products, ``auto`` as ``resolve`` has it."""
    return torch.bfloat16 if resolve(precision, device) == "bfloat16" else torch.float32


def _seconds(dtype: torch.dtype) -> float:
    """The seconds that a product of moderate size takes in this number format."""
    a, b = torch.ones(128, 256, dtype=dtype), torch.ones(256, 512, dtype=dtype)
    times = []
    for _ in range(12):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)  # what it can do: on a busy machine the others measure the neighbours
