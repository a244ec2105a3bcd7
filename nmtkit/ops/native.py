"""What search does on a processor beside its products, in C: each in one pass where PyTorch's operations take several.

``pip`` compiles ``native.c`` when nmtkit is installed, if there is a C compiler; without one everything works as well
with the plain operations, which stand beside each use: in ``models/base.py``, ``best.py``, ``attention.py``, ``gru.py``
and ``int8.py``. There are no gradients here, and one thread does the work of two or three of PyTorch's; with more of
them than that the plain operations are as fast.

Letters: N rows, V words, K beam, B sentences, S source positions, A attention width, D inputs, E outputs.
"""

import ctypes
import sysconfig
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

VERSION = 2  # of native.c: a library that was compiled before the last change is not used
THREADS = 2  # the most of PyTorch's threads that are not as fast

_KINDS = {"AVX2": "avx2", "AVX512": "avx512"}  # of processors, as PyTorch names them
_NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
BOTH = _NAMES.keys()  # dtypes that some kernels take
GROUP = 64  # columns whose maximum is taken first, as in native.h
_TYPES: dict[str, type[ctypes.c_void_p | ctypes.c_int64]] = {"p": ctypes.c_void_p, "i": ctypes.c_int64}
_ARGUMENTS = {  # of the kernels: pointers and integers
    "log_softmax_bfloat16": "ppii", "log_softmax_float32": "ppii",
    "best": "piiiippp",
    "scores": "ppppiiii",
    "gru_gates": "pppppii", "gru_state": "pppppii",
    "quantise_bfloat16": "pppiii", "quantise_float32": "pppiii",
    "dequantise_bfloat16": "ppppii", "dequantise_float32": "ppppii",
}  # fmt: skip


def helps(*tensors: Tensor, dtypes: Collection[torch.dtype] = (torch.float32,)) -> bool:
    """Whether the kernels are there and the fastest way for these tensors, of any shapes and of one of these dtypes."""
    return (
        _library() is not None
        and torch.get_num_threads() <= THREADS
        and all(x.is_cpu and x.dtype in dtypes for x in tensors)
    )


def log_softmax(logits: Tensor) -> Tensor:
    """The log softmax (N, V) in float32 of logits (N, V) in float32 or bfloat16."""
    logits = logits.contiguous()
    out = torch.empty_like(logits, dtype=torch.float32)
    _call(f"log_softmax_{_NAMES[logits.dtype]}", logits, out, *logits.shape)
    return out


def best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best values of every row of values (N, V) in float32, sorted, of equals the last, and their columns.

    Both are (N, k). A row has its words side by side, and NaN is better than any number.
    """
    rows, words = values.shape
    maxima = torch.empty(words // GROUP + 1, dtype=torch.int32)
    found, columns = values.new_empty(rows, k), torch.empty(rows, k, dtype=torch.long)
    _call("best", values, values.stride(0), rows, words, k, maxima, found, columns)
    return found, columns


def scores(query: Tensor, keys: Tensor, factors: Tensor) -> Tensor:
    """The sum over a of factors_a / (1 + query_a key_a): query (B, K, A), keys (B, S, A), factors (A,) -> (B, K, S).

    All are float32.
    """
    result = query.new_empty(*query.shape[:2], keys.shape[1])
    operands = query.contiguous(), keys.contiguous(), factors.contiguous()
    _call("scores", *operands, result, *result.shape, len(factors))
    return result


def gru_gates(x: Tensor, product: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """The gate z (N, H) of a GRU in float32, and r * h (N, H) in bfloat16, as ``gru.step`` has them.

    x (N, 3H), the product (N, 2H) of h (N, H) and U_r and U_z, and h are float32.
    """
    h = h.contiguous()
    z, reset = torch.empty_like(h), torch.empty_like(h, dtype=torch.bfloat16)
    _call("gru_gates", x.contiguous(), product, h, z, reset, *h.shape)
    return z, reset


def gru_state(x: Tensor, product: Tensor, z: Tensor, h: Tensor) -> Tensor:
    """The next state (N, H) of a GRU from x (N, 3H), the product (N, H) of r * h and U, the gate z and h (N, H)."""
    new = torch.empty_like(z)
    _call("gru_state", x.contiguous(), product, z, h.contiguous(), new, *z.shape)
    return new


def quantise(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Rows (N, D) in float32 or bfloat16 as integers from 0 to 2 ``largest``, the latter being 0; and scales (N, 1)."""
    rows = rows.contiguous()
    integers, scales = torch.empty_like(rows, dtype=torch.uint8), torch.empty(len(rows), 1)
    _call(f"quantise_{_NAMES[rows.dtype]}", rows, integers, scales, *rows.shape, largest)
    return integers, scales


def dequantise(sums: Tensor, scales: Tensor, bias: Tensor | None, place: Tensor) -> None:
    """Writes sums (at least N, E) times scales (at least N, 1), plus bias (E,), to ``place`` (N, E) in its dtype."""
    _call(f"dequantise_{_NAMES[place.dtype]}", sums, scales, bias, place, *place.shape)


@cache
def _kernel(name: str) -> Callable[..., None]:
    """The kernel of native.h for this kind of processor, which takes addresses and numbers."""
    library = _library()
    assert library is not None, "helps() says whether there are kernels"
    function = library[f"nmtkit_{name}_{_kind()}"]
    function.argtypes, function.restype = [_TYPES[letter] for letter in _ARGUMENTS[name]], None
    return function


def _call(name: str, *arguments: Tensor | int | None) -> None:
    _kernel(name)(*(x.data_ptr() if isinstance(x, Tensor) else x for x in arguments))


@cache
def _kind() -> str:
    return _KINDS.get(torch.backends.cpu.get_cpu_capability(), "default")


@cache
def _library() -> ctypes.CDLL | None:
    """What was compiled, if it was, from this version and for this kind of processor."""
    path = Path(__file__).with_name(f"_native{sysconfig.get_config_var('EXT_SUFFIX')}")
    try:
        library = ctypes.CDLL(str(path))
        fits = library.nmtkit_version() == VERSION
        library[f"nmtkit_best_{_kind()}"]
    except (OSError, AttributeError):
        return None
    return library if fits else None
