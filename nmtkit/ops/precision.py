"""The number format of matrix products: given by the user, or chosen by measured speed.

float32 is full float32 on a GPU, too. TF32, which keeps 10 of the 23 mantissa bits, is off in PyTorch's products by
default and stays off: GPUs that have it also have bfloat16, which is faster still and which ``auto`` chooses, so
float32 is requested only for its precision. No model uses cuDNN convolutions, where TF32 is on by default.
"""

import logging
import timeit
from functools import cache
from typing import Literal

import torch

log = logging.getLogger(__name__)

TrainingPrecision = Literal["auto", "float32", "bfloat16"]
Precision = Literal["auto", "float32", "bfloat16", "int8"]  # of search, which needs no gradients
Products = Literal["float32", "bfloat16", "int8"]  # a precision resolved for a device


def resolve(precision: Precision, device: torch.device) -> Products:
    """``auto`` is bfloat16 if products are faster in it than in float32, measured once per process on a CPU."""
    if precision == "bfloat16" and device.type == "cpu":
        _warn_if_emulated()
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    return "bfloat16" if _bfloat16_is_faster() else "float32"


def dtype_of(precision: TrainingPrecision, device: torch.device) -> torch.dtype:
    """The dtype of matrix products in training; ``auto`` as in ``resolve``."""
    return torch.bfloat16 if resolve(precision, device) == "bfloat16" else torch.float32


def _bfloat16_is_faster() -> bool:
    """Whether this processor multiplies bfloat16 at least 1.5 times as fast as float32.

    Conversions cost time as well, and at equal speed float32 is safer.
    """
    return _times_as_long() < 1 / 1.5


@cache
def _warn_if_emulated() -> None:
    """Log once if bfloat16 is far slower than float32: 13 times in training on a processor with AVX2 alone."""
    if (times := _times_as_long()) > 3:
        log.warning("this processor emulates bfloat16 products, which take %.0f times as long as in float32; use "
                    "--precision float32", times)  # fmt: skip


@cache
def _times_as_long() -> float:
    """How many times as long as in float32 a medium-sized product takes in bfloat16.

    Measured once, so that all models of a process get the same precision, however busy the machine is when each is
    loaded. Two products show that they are emulated, which takes 40 times as long; twelve of them would take 0.6 s.
    """
    # In turn, so that a pause of some milliseconds slows both. (One made a training float32, at 0.7 times the speed.)
    rounds = [(_seconds(torch.float32), _seconds(torch.bfloat16))]
    while len(rounds) < 6 and rounds[0][1] < 10 * rounds[0][0]:
        rounds.append((_seconds(torch.float32), _seconds(torch.bfloat16)))
    return min(low for _, low in rounds) / min(full for full, _ in rounds)


def _seconds(dtype: torch.dtype) -> float:
    """The seconds that a product of (128, 256) and (256, 512) takes in this number format."""
    a, b = torch.ones(128, 256, dtype=dtype), torch.ones(256, 512, dtype=dtype)
    # The minimum, because longer times include other processes of the machine.
    return min(timeit.repeat(lambda: a @ b, number=1, repeat=2))
