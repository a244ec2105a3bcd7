"""Triton's kernels keep the laws in kernels.py, and where they do not work the plain steps are used."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import nmtkit.ops
from nmtkit.ops import attention, recurrence, steps, trusted

Choose = Callable[[ModuleType | None], ModuleType]
GPU: Any = SimpleNamespace(is_cuda=True, device=torch.device("cpu"), dtype=torch.float32)  # what is asked of a tensor
LAWS = Path(__file__).with_name("kernels.py")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed; make slow does that")
@pytest.mark.parametrize("interpret", ["1", pytest.param("0", marks=needs_gpu)], ids=["interpreter", "GPU"])
def test_the_kernels_keep_their_laws(interpret: str) -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", LAWS]
    settings = {"TRITON_INTERPRET": interpret, "TRITON_DEFAULT_FP_FUSION": "1"}  # 3.9 warns without the latter
    done = subprocess.run(run, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Choose]:
    """Gives the steps that are used for a tensor on a GPU, with another module or none as ``ops/kernels.py``."""

    def choose(kernels: ModuleType | None) -> ModuleType:
        monkeypatch.delattr(nmtkit.ops, "kernels", raising=False)
        monkeypatch.setitem(sys.modules, "nmtkit.ops.kernels", kernels)
        return recurrence._step(GPU)

    def forget() -> None:
        trusted._tried.cache_clear()
        trusted._warn.cache_clear()

    forget()
    yield choose
    forget()


def like_steps(**others: Callable[..., object]) -> ModuleType:
    """A module of sound steps but for ``others``."""
    module = ModuleType("kernels")
    vars(module).update(vars(steps) | others)
    return module


def test_sound_kernels_are_used(chosen: Choose, caplog: pytest.LogCaptureFixture) -> None:
    kernels = like_steps()
    assert chosen(kernels) is kernels
    assert caplog.text == ""


def halved(*arguments: Tensor) -> list[Tensor]:
    return [term / 2 for term in steps.gru_backward(*arguments)]


def test_kernels_that_differ_are_not_used_and_one_line_says_so(
    chosen: Choose, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = like_steps(gru_backward=halved)
    assert chosen(kernels) is steps
    assert chosen(kernels) is steps
    assert caplog.messages == ["plain operations on cpu, not Triton's kernels: ArithmeticError: other results of GRU"]


def test_kernels_that_raise_are_not_used_and_one_line_says_so(chosen: Choose, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*arguments: Tensor) -> None:
        raise RuntimeError("no kernel image is available\nfor execution on the device")

    assert chosen(like_steps(lau=fails)) is steps
    assert caplog.messages == [
        "plain operations on cpu, not Triton's kernels: RuntimeError: no kernel image is available"
    ]


def test_without_triton_plain_operations_are_used_and_one_line_says_so(
    chosen: Choose, caplog: pytest.LogCaptureFixture
) -> None:
    assert chosen(None) is steps
    assert trusted.kernels(attention._compare, GPU) is None
    assert len(caplog.messages) == 1
    assert "ModuleNotFoundError" in caplog.text


def test_a_tensor_on_a_cpu_takes_plain_operations_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    assert recurrence._step(torch.zeros(1)) is steps
    assert caplog.text == ""
