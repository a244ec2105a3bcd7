"""The signatures of the C kernels: names and types of their arguments, in order.

In C each is a struct, ``GIVEN(name)``, which also documents the shapes; a test compares the two.
"""

from typing import NamedTuple

import torch


class Argument(NamedTuple):
    """The type of an argument. A tensor is on the CPU, and contiguous unless ``strided``."""

    c: str  # the C type of an integer, or of a tensor's elements
    dtypes: tuple[torch.dtype, ...] = ()  # of a tensor
    flag: str = ""  # of a tensor that may be float32 or bfloat16: the name of the flag that is 1 for bfloat16
    optional: bool = False  # may be None
    strided: bool = False  # rows may be strided; another argument is the stride


LOW = Argument("any", (torch.float32, torch.bfloat16), "low")
X = LOW._replace(flag="x_low")  # an input with its own dtype
FLOAT = Argument("float", (torch.float32,))
BFLOAT16 = Argument("uint16_t", (torch.bfloat16,))
BOOL = Argument("uint8_t", (torch.bool,))
UINT8 = Argument("uint8_t", (torch.uint8,))
INT8 = Argument("int8_t", (torch.int8,))
INT32 = Argument("int32_t", (torch.int32,))
INT64 = Argument("int64_t", (torch.int64,))
SIZE = Argument("int64_t")  # an integer
FLAG = Argument("int64_t")  # 1 if the tensors that name it are bfloat16; flags come last, and callers omit them

FLOAT_OR_NONE = FLOAT._replace(optional=True)
LOW_ROWS, X_ROWS, BFLOAT16_ROWS = (each._replace(strided=True) for each in (LOW, X, BFLOAT16))

NORMS = dict.fromkeys(["gates_gain", "gates_shift", "gain", "shift"], FLOAT_OR_NONE)


class Cell(NamedTuple):
    """The forward and backward kernels of a recurrent cell, NAME and NAME_back."""

    inputs: dict[str, Argument]  # x, s and the state come first
    results: tuple[str, ...]  # float32, with the shape of the state
    sizes: tuple[str, ...] = ("width",)  # "x_step" is the row stride of x, 0 where all rows share one
    neutral: tuple[str, ...] = ()  # optional inputs; None becomes a row of zeros or ones
    added: bool = False  # x and s only enter as x + s, so with equal dtypes they share a gradient

    def arguments(self) -> dict[str, Argument]:
        """The arguments of the forward kernel."""
        return {**self.inputs, **dict.fromkeys(self.results, FLOAT), **self._numbers()}

    def of_backward(self) -> dict[str, Argument]:
        """The arguments of the backward kernel: inputs, gradients of results, and buffers for those of the inputs."""
        places = {f"d_{name}": kind._replace(strided=False, optional=True) for name, kind in self.inputs.items()}
        places.pop("d_keep", None)
        return {**self.inputs, **{f"d_{name}": FLOAT for name in self.results}, **places, **self._numbers()}

    def _numbers(self) -> dict[str, Argument]:
        return {**dict.fromkeys(self.sizes, SIZE), "x_low": FLAG, "low": FLAG}


TERMS, PARTS = {"x": X, "s": LOW}, {"x": X_ROWS, "s": LOW}
GATED = Cell(
    {**TERMS, "h": FLOAT, "gain": FLOAT_OR_NONE, "bias": FLOAT, "candidate_bias": FLOAT, "keep": FLOAT},
    ("new_h",), ("gates", "width", "x_step", "keep_step"), ("x", "keep"),
)  # fmt: skip
CELLS = {
    # cells.h
    "lstm": Cell({**TERMS, "c": FLOAT, "peepholes": FLOAT}, ("new_h", "new_c"), added=True),
    "gru_gates": Cell({**PARTS, "h": FLOAT}, ("reset", "z"), ("width", "x_step"), added=True),
    "gru_state": Cell({**PARTS, "h": FLOAT, "z": FLOAT}, ("new_h",), ("width", "x_step"), added=True),
    "gated_gru": GATED,
    "gated_lau": GATED,
    "nematus": Cell({**TERMS, "h": FLOAT, "bias": FLOAT, **NORMS}, ("new_h",), ("width", "x_step"), ("x", "bias")),
}  # fmt: skip

ARGUMENTS: dict[str, dict[str, Argument]] = {
    # attention.h
    "attend": {
        "query": LOW, "keys": LOW, "values": LOW, "v": FLOAT, "mask": BOOL, "context": LOW, "weights": FLOAT,
        "scratch": FLOAT, "beam": SIZE, "sources": SIZE, "width": SIZE, "depth": SIZE, "low": FLAG,
    },
    "attend_back": {
        "d_context": LOW, "query": LOW, "keys": LOW, "values": LOW, "v": FLOAT, "weights": FLOAT, "d_query": LOW,
        "d_keys": FLOAT, "d_v": FLOAT, "scratch": FLOAT, "sources": SIZE, "width": SIZE, "depth": SIZE, "low": FLAG,
    },
    # search.h
    "log_softmax": {"logits": LOW, "result": FLOAT, "words": SIZE, "low": FLAG},
    "best_log_softmax": {
        "logits": LOW, "found": FLOAT, "columns": INT64, "scratch": INT32, "words": SIZE, "first": SIZE, "k": SIZE,
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
        "sums": FLOAT, "scales": FLOAT, "bias": FLOAT_OR_NONE, "result": LOW, "width": SIZE, "low": FLAG,
    },
    # pairs.h
    "pairs_multiply": {
        "x": UINT8, "strips": INT8, "first": INT32, "scales": FLOAT, "bias": FLOAT, "x_scales": FLOAT, "result": LOW,
        "count": SIZE, "depth": SIZE, "width": SIZE, "low": FLAG,
    },
    # tiles.h
    "tiles_lay_out": {
        "matrix": LOW_ROWS, "tiles": BFLOAT16, "down": SIZE, "right": SIZE, "depth": SIZE, "width": SIZE,
        "low": FLAG,
    },
    "tiles_multiply": {
        "x": BFLOAT16_ROWS, "tiles": BFLOAT16, "bias": FLOAT_OR_NONE, "result": LOW, "count": SIZE,
        "stride": SIZE, "depth": SIZE, "width": SIZE, "low": FLAG,
    },
    **{name: cell.arguments() for name, cell in CELLS.items()},
    **{f"{name}_back": cell.of_backward() for name, cell in CELLS.items()},
}  # fmt: skip
