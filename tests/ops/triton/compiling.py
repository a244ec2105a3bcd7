"""Compiles every Triton kernel for a GPU that need not be there; test_kernels.py runs it: ``compiling.py 90``.

It calls the operations as models do, on a CPU, and each launch compiles its kernel for the compute capability that is
given, 90 for 9.0, and launches nothing. Of each kernel a line is written: its name, registers a thread, and bytes that
did not fit into registers.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction

from nmtkit.ops import trusted
from nmtkit.ops.triton import attention
from tests.ops import test_gated
from tests.ops.test_recurrence import OPS, inputs, leaves, ragged

WIDTHS = [100, 1024]  # no multiple of 16, and one; a warp and eight where a program does a row


class Driver:
    """What Triton asks of a GPU's driver before it compiles."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device


def call_everything(dtype: torch.dtype, width: int) -> None:
    """Every operation that has kernels, forward and backward, with and without each thing that may be left out."""
    for op in OPS.values():
        for mask in (None, ragged(3, 2)):
            results = op.fast(*leaves(inputs(op, 3, 2, width), dtype), mask, False)
            torch.autograd.backward(results, [torch.ones_like(r) for r in results])
    for kind in test_gated.KINDS:
        for layer_norm in (False, True):
            for dropout in (False, True):
                cell, _, tensors = test_gated.cell(kind, layer_norm, 2, width, dropout)
                cell(*leaves(tensors, dtype)).sum().backward()
    query, keys = torch.zeros(2, width, dtype=dtype), torch.zeros(2, 3, width, dtype=dtype)
    attention.scores(query, keys, torch.zeros(width), torch.ones(2, 3, dtype=torch.bool))


def main() -> None:
    made: dict[str, Any] = {}
    launch: Callable[..., Any] = JITFunction.run

    def compiled(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **settings: Any) -> Any:
        result = launch(kernel, *arguments, grid=grid, warmup=True, **settings)
        made[result.hash] = result
        return result

    JITFunction.run = compiled
    triton.runtime.driver.set_active(Driver(int(sys.argv[1])))
    trusted.choose = lambda plain, triton, native, compare, x: triton()
    for dtype in (torch.float32, torch.bfloat16):
        for width in WIDTHS:
            call_everything(dtype, width)
    for kernel in made.values():
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(kernel.asm["cubin"])
            file.flush()
            tool = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
            usage = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
        registers, stack, local = re.findall(r"REG:(\d+) STACK:(\d+).* LOCAL:(\d+)", usage)[0]
        print(kernel.metadata.name, registers, int(stack) + int(local))


if __name__ == "__main__":
    main()
