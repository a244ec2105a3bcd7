"""What each kernel in C is given: the names of its arguments in their order, and what each must be.

The C side has them as a struct, ``GIVEN(name)``, where the shapes stand; a test compares the two.
"""

from typing import NamedTuple

import torch


class Argument(NamedTuple):
    """What an argument must be. A tensor lies on the CPU, without gaps unless it says otherwise."""

    c: str  # its type in C: of an integer, or of what a tensor's address points to
    dtypes: tuple[torch.dtype, ...] = ()  # of a tensor
    flag: str = ""  # of a tensor in either of two dtypes: the argument that tells C whether it is bfloat16
    optional: bool = False  # whether None may be given
    gaps: bool = False  # whether the tensor's rows may have gaps between them: the kernel is told where they begin

    def or_none(self) -> "Argument":
        """The same, or None."""
        return self._replace(optional=True)

    def with_gaps(self) -> "Argument":
        """The same with gaps between rows."""
        return self._replace(gaps=True)


LOW = Argument("any", (torch.float32, torch.bfloat16), "low")
FLOAT = Argument("float", (torch.float32,))
BFLOAT16 = Argument("uint16_t", (torch.bfloat16,))
BOOL = Argument("uint8_t", (torch.bool,))
UINT8 = Argument("uint8_t", (torch.uint8,))
INT8 = Argument("int8_t", (torch.int8,))
INT32 = Argument("int32_t", (torch.int32,))
INT64 = Argument("int64_t", (torch.int64,))
SIZE = Argument("int64_t")  # an integer
FLAG = Argument("int64_t")  # whether the tensors that name it are low; flags come last, and no caller gives them

ARGUMENTS: dict[str, dict[str, Argument]] = {
    # attention.h
    "attend": {
        "query": LOW, "keys": LOW, "values": LOW, "v": FLOAT, "mask": BOOL, "context": LOW, "weights": FLOAT,
        "room": FLOAT, "sources": SIZE, "width": SIZE, "depth": SIZE, "low": FLAG,
    },
    "attend_back": {
        "d_context": LOW, "query": LOW, "keys": LOW, "values": LOW, "v": FLOAT, "weights": FLOAT, "d_query": LOW,
        "d_keys": FLOAT, "d_v": FLOAT, "room": FLOAT, "sources": SIZE, "width": SIZE, "depth": SIZE, "low": FLAG,
    },
    # search.h
    "log_softmax": {"logits": LOW, "result": FLOAT, "words": SIZE, "low": FLAG},
    "best": {
        "values": FLOAT.with_gaps(), "found": FLOAT, "columns": INT64, "room": INT32, "stride": SIZE, "words": SIZE,
        "first": SIZE, "k": SIZE,
    },
    "best_log_softmax": {
        "logits": LOW, "found": FLOAT, "columns": INT64, "room": INT32, "words": SIZE, "first": SIZE, "k": SIZE,
        "low": FLAG,
    },
    "scores": {
        "query": FLOAT, "keys": FLOAT, "factors": FLOAT, "result": FLOAT, "beam": SIZE, "sources": SIZE, "width": SIZE,
    },
    "weighted": {
        "weights": FLOAT, "values": LOW, "result": FLOAT, "beam": SIZE, "sources": SIZE, "depth": SIZE, "low": FLAG,
    },
    "quantise": {"numbers": LOW, "integers": UINT8, "scales": FLOAT, "width": SIZE, "largest": SIZE, "low": FLAG},
    "dequantise": {
        "sums": FLOAT, "scales": FLOAT, "bias": FLOAT.or_none(), "result": LOW, "width": SIZE, "low": FLAG,
    },
    # pairs.h
    "pairs_multiply": {
        "x": UINT8, "strips": INT8, "first": INT32, "scales": FLOAT, "bias": FLOAT, "x_scales": FLOAT, "result": LOW,
        "count": SIZE, "depth": SIZE, "width": SIZE, "low": FLAG,
    },
    # tiles.h
    "tiles_lay_out": {
        "matrix": LOW.with_gaps(), "tiles": BFLOAT16, "down": SIZE, "right": SIZE, "depth": SIZE, "width": SIZE,
        "low": FLAG,
    },
    "tiles_multiply": {
        "x": BFLOAT16.with_gaps(), "tiles": BFLOAT16, "bias": FLOAT.or_none(), "result": LOW, "count": SIZE,
        "stride": SIZE, "depth": SIZE, "width": SIZE, "low": FLAG,
    },
}  # fmt: skip
