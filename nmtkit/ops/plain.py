"""The reference implementation of each kernel, for the log, nmtkit doctor and the tests."""

from collections.abc import Callable
from typing import Any

from nmtkit.ops import attention, best, bfloat16, gated, gru, int8, lstm, nematus

PLAIN: dict[str, Callable[..., Any]] = {
    "lstm": lstm.plain,
    "gru_gates": gru.gates,
    "gru_state": gru.state,
    "gated_gru": gated.plain_gru,
    "gated_lau": gated.plain_lau,
    "nematus": nematus.plain,
    "attention": attention.there_and_back,
    "log_softmax": best.log_softmax,
    "best_log_softmax": best.best_log_softmax,
    "scores": attention.quick_scores,
    "weighted": attention.weighted,
    "quantise": int8.quantise,
    "dequantise": int8.dequantise,
    "pairs": int8.pack_narrow,
    "tiles": bfloat16.pack_plain,
}
