"""The plain function beside each kernel, for those who ask after all kernels: the log, nmtkit doctor and the tests."""

from collections.abc import Callable
from typing import Any

from nmtkit.ops import attention, best, bfloat16, int8

PLAIN: dict[str, Callable[..., Any]] = {
    "attention": attention.there_and_back,
    "log_softmax": best.log_softmax,
    "best": best.best_values,
    "best_log_softmax": best.best_log_softmax,
    "scores": attention.quick_scores,
    "weighted": attention.weighted,
    "quantise": int8.quantise,
    "dequantise": int8.dequantise,
    "pairs": int8.pack_narrow,
    "tiles": bfloat16.pack_plain,
}
