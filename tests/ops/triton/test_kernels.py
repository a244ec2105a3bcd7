"""Triton's kernels keep the laws in laws.py, on a CPU in Triton's interpreter, and on a GPU where there is one."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

LAWS = Path(__file__).with_name("laws.py")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed; make slow does that")
@pytest.mark.parametrize("interpret", ["1", pytest.param("0", marks=needs_gpu)], ids=["interpreter", "GPU"])
def test_the_kernels_keep_their_laws(interpret: str) -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", LAWS]
    settings = {"TRITON_INTERPRET": interpret, "TRITON_DEFAULT_FP_FUSION": "1"}  # 3.9 warns without the latter
    done = subprocess.run(run, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
