"""The parts that the kernels share. A twin does what its cell's ``Plain`` does: a product and a Triton kernel a step.

The tests run the kernels in Triton's interpreter, on a CPU, and compile them for GPUs, but they never ran on one: none
was at hand. ``trusted.py`` therefore has them tried before they are relied on.

A program does BLOCK columns of one row of a state (B, H), each with its gates, or all of a row. What it gets is
contiguous; arithmetic is in float32 whatever is loaded or stored. For an argument that may be None, None makes a kernel
of its own. The mask is read in the kernel, so that the host waits for nothing. Rows are counted in 64 bits, because a
row's number times the width of all gates may pass 2^31.

A kernel's arguments are the places that it reads and writes, one by one: the Triton that comes with the oldest PyTorch
that is supported takes no tuples of them.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = tl.constexpr(256)  # two elements for each of a program's 128 threads


def as_bytes(real: Tensor | None) -> Tensor | None:
    """A step's mask (B, 1) as kernels read it."""
    return None if real is None else real.view(torch.uint8)


def run(kernel: Any, like: Tensor, *arguments: Any) -> None:
    """Launches ``kernel`` for every element of ``like`` (B, H), on its device."""
    rows, width = like.shape
    with torch.cuda.device_of(like):  # Triton launches on the current device, which may be another
        kernel[(rows, triton.cdiv(width, BLOCK.value))](*arguments, width)


def run_rows(kernel: Any, like: Tensor, *arguments: Any) -> None:
    """Launches ``kernel`` for every row of ``like`` (N, H), which a program has to itself: its BLOCK is at least H."""
    rows, width = like.shape
    block = triton.next_power_of_2(width)
    with torch.cuda.device_of(like):
        # Four elements for each of a program's threads, of which there are at most 512.
        kernel[(rows,)](*arguments, width, BLOCK=block, num_warps=min(max(block // 128, 1), 16))


@triton.jit
def places(width):
    """For this program's elements: whether they exist, row, column, and place in a state."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    return column < width, row, column, row * width + column


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1  # Triton's language itself has no tanh


@triton.jit
def load(x, at, exists):
    return tl.load(x + at, mask=exists, other=0).to(tl.float32)


@triton.jit
def store(x, at, value, exists):
    """In the type of x."""
    tl.store(x + at, value.to(x.dtype.element_ty), mask=exists)


@triton.jit
def is_real(mask, row):
    return tl.load(mask + row) != 0


@triton.jit
def sum_of(a, b, c, at, exists):
    """The sum of the terms that there are."""
    total = load(a, at, exists)
    if b is not None:
        total += load(b, at, exists)
    if c is not None:
        total += load(c, at, exists)
    return total
