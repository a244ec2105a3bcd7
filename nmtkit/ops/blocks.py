"""Rows in blocks of a few sizes, for products by oneDNN, which generates code for every number of rows.

Generating code takes 1 to 20 ms in bfloat16, longer than many products, and in search the number of rows changes from
step to step. The results of a block also stay in the processor's cache until they are converted.

Letters: N rows, D inputs, E outputs.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

SIZES = (8, 16, 32, 64, 128, 192, 256)  # rows of a block; larger ones are hardly faster with AMX
MOST_ROWS = SIZES[-1]


def by_blocks(
    multiply: Callable[[Tensor, Tensor], None], rows: Tensor, outputs: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Rows (..., D) multiplied in blocks by ``multiply`` -> (..., E) in ``dtype``, where E is ``outputs``.

    ``multiply`` takes the rows of a block (P, D), where P is one of ``SIZES``, and the place (R, E) for the results of
    the first R rows; the others are zeros.
    """
    x = rows.reshape(-1, rows.shape[-1])
    result = x.new_empty(len(x), outputs, dtype=dtype)
    for part, place in zip(x.split(MOST_ROWS), result.split(MOST_ROWS), strict=True):
        missing = next(size for size in SIZES if size >= len(part)) - len(part)
        multiply(functional.pad(part, (0, 0, 0, missing)) if missing else part, place)
    return result.view(*rows.shape[:-1], outputs)
