"""The number format in which products are done: named by the user, or chosen by how fast the device multiplies.

float32 means it on a GPU, too. TF32, which keeps 10 of its 23 bits, is off in PyTorch's products by default and stays
off: the cards that have it have bfloat16 as well, which is faster still and what ``auto`` takes there, so that float32
is asked for by those who want its digits. Models have no convolution of cuDNN, for which TF32 is on by default.
"""

import time
from functools import cache
from typing import Literal

import torch

TrainingPrecision = Literal["auto", "float32", "bfloat16"]
Precision = Literal["auto", "float32", "bfloat16", "int8"]  # of search, which needs no gradients
Products = Literal["float32", "bfloat16", "int8"]  # what a precision comes to on a device


def resolve(precision: Precision, device: torch.device) -> Products:
    """``auto``: bfloat16 where it is multiplied faster than float32, which on a CPU is measured once a process."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    return "bfloat16" if _bfloat16_is_faster() else "float32"


def dtype_of(precision: TrainingPrecision, device: torch.device) -> torch.dtype:
    """The dtype of training's products, ``auto`` as ``resolve`` has it."""
    return torch.bfloat16 if resolve(precision, device) == "bfloat16" else torch.float32


@cache
def _bfloat16_is_faster() -> bool:
    """Whether this processor multiplies bfloat16 half again as fast as float32, at least.

    Conversions cost something as well, and float32 is the safer of two equals. It is measured once, so that all models
    of a process are in one precision, however busy the machine is when the next one is loaded.
    """
    return _seconds(torch.float32) > 1.5 * _seconds(torch.bfloat16)


def _seconds(dtype: torch.dtype) -> float:
    """The seconds that a product of moderate size takes in this number format."""
    a, b = torch.ones(128, 256, dtype=dtype), torch.ones(256, 512, dtype=dtype)
    times = []
    for _ in range(12):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)  # what it can do: on a busy machine the others measure the neighbours
