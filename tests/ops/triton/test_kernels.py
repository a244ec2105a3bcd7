"""Triton's kernels keep the laws in laws.py, on a CPU in Triton's interpreter, and on a GPU where there is one.

Triton's compiler refuses things that its interpreter accepts, so they are also compiled, for which no GPU is needed.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

LAWS = Path(__file__).with_name("laws.py")
ROOT = Path(__file__).parents[3]
KERNELS = {
    "_forward", "_backward", "_gates", "_gates_backward", "_state", "_candidate_backward", "_gru", "_gru_backward",
    "_lau", "_lau_backward", "_scores",
}  # fmt: skip
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed; make slow does that"
)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("interpret", ["1", pytest.param("0", marks=needs_gpu)], ids=["interpreter", "GPU"])
def test_the_kernels_keep_their_laws(interpret: str) -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", LAWS]
    settings = {"TRITON_INTERPRET": interpret, "TRITON_DEFAULT_FP_FUSION": "1"}  # 3.9 warns without the latter
    done = subprocess.run(run, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("capability", ["75", "80", "90", "100"], ids=["Turing", "Ampere", "Hopper", "Blackwell"])
def test_the_kernels_compile_for_every_generation_of_gpus_and_fit_into_its_registers(capability: str) -> None:
    run = [sys.executable, "-m", "tests.ops.triton.compiling", capability]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert {name for name, _, _ in lines} == KERNELS
    assert {spilled for _, _, spilled in lines} == {"0"}
