"""On a GPU training compiles the plain step of every cell. Here a CPU does the same, with the compiler for CPUs."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nmtkit.kernels import door
from nmtkit.kernels.door import FUSED, kernel
from nmtkit.ops import gru
from nmtkit.ops.loop import scan
from nmtkit.ops.plain import PLAIN
from tests.kernels.compiled import COMPILED, arguments
from tests.laws import assert_near, gradients, leaves

# PyTorch's own use of it, when it imports its compiler.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inductor")


@pytest.fixture(autouse=True)
def compiler(untried: None, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Cells on the CPU are compiled like those on a GPU; yields PyTorch's counters."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no processes that are left waiting for more
    monkeypatch.setattr(door, "COMPILED", "cpu")
    from torch._dynamo.utils import counters
    from torch._inductor import config

    torch._dynamo.reset()
    counters.clear()
    # Vector instructions are only a CPU's, and finding out which ones the C++ compiler knows takes most of the time.
    with config.patch({"cpp.vec_isa_ok": False}):
        yield counters["stats"]
    torch._dynamo.reset()


def resized(name: str, dtype: torch.dtype, rows: int, width: int) -> list[Any]:
    """The arguments of a kernel's trial with this many rows of another width; shared arguments are parameters."""
    made: list[Any] = []
    for x in arguments(name, dtype):
        several = x.shape[0] == door.N
        shape = [rows if several else x.shape[0], *x.shape[1:]]
        shape[-1] = max(1, x.shape[-1] * width // door.H)
        leaf = torch.randn(shape).to(x.dtype)
        made.append((leaf if several else nn.Parameter(leaf)).requires_grad_(x.requires_grad))
    return made


def outcome(step: Any, given: list[Any]) -> list[Tensor]:
    """Results and gradients."""
    results = step(*given)
    results = (results,) if isinstance(results, Tensor) else results
    return [*results, *gradients(results, [x for x in given if x.requires_grad])]


def assert_compiled(name: str, dtype: torch.dtype, compiler: Any) -> None:
    """A cell is compiled once for all shapes of a batch, and equals its plain function."""
    for rows in (9, 7, 30, 12, 80):
        given = resized(name, dtype, rows, 6)
        step = kernel(name, COMPILED[name], *given[:2])
        assert step is not COMPILED[name]
        for mine, other in zip(outcome(step, given), outcome(COMPILED[name], given), strict=True):
            assert mine.dtype == other.dtype
            assert_near(mine, other, 1e-2 if mine.dtype == torch.bfloat16 else 1e-5)
        assert compiler["unique_graphs"] == 2  # forward and backward


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FUSED)
def test_every_cell_is_compiled_once_for_all_batches(
    name: str, dtype: torch.dtype, compiler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert_compiled(name, dtype, compiler)
    assert warned(caplog) == []


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    ours = [record for record in caplog.records if record.name.startswith("nmtkit")]  # torch also warns, of CUDA
    return [record.getMessage() for record in ours if record.levelno >= logging.WARNING]


def fails(function: Any, **settings: Any) -> Any:
    """Replaces torch.compile, and behaves as without a compiler."""

    def step(*given: Any) -> Any:
        raise RuntimeError("no compiler\nSet TORCHDYNAMO_VERBOSE=1")

    return step


@pytest.mark.parametrize("name", FUSED)
def test_without_a_compiler_plain_operations_are_used_and_one_line_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch, "compile", fails)
    given = arguments(name, torch.float32)
    step = kernel(name, COMPILED[name], *given[:2])
    for _ in range(2):
        for mine, other in zip(outcome(step, given), outcome(COMPILED[name], given), strict=True):
            assert_near(mine, other, 1e-5)
    reason = "RuntimeError: no compiler"
    assert warned(caplog) == [f"{name} cannot be compiled, so plain operations are used ({reason})"]


def test_a_full_memory_is_no_failure_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(function: Any, **settings: Any) -> Any:
        def step(*given: Any) -> Any:
            raise torch.OutOfMemoryError

        return step

    monkeypatch.setattr(torch, "compile", full)
    given = arguments("lstm", torch.float32)
    step = kernel("lstm", COMPILED["lstm"], *given[:2])
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            step(*given)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_search_waits_for_no_compiler(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "compile")
    with mode():
        assert all(kernel(name, plain, torch.ones(1)) is plain for name, plain in PLAIN.items())


def test_nothing_else_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    every = {**PLAIN, **COMPILED}
    assert [name for name, plain in every.items() if kernel(name, plain, torch.ones(1)) is not plain] == [*FUSED]


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "compile")
    monkeypatch.setenv("NMTKIT_KERNELS", "off")
    assert all(kernel(name, plain, torch.ones(1)) is plain for name, plain in PLAIN.items())


@pytest.mark.parametrize(
    ("off", "used"),
    [
        ("", f"kernels by torch.compile: {', '.join(FUSED)}; CUDA graphs in training"),
        ("off", f"kernels by torch.compile: none; switched off by NMTKIT_KERNELS: {', '.join([*FUSED, 'graphs'])}"),
        ("graphs", f"kernels by torch.compile: {', '.join(FUSED)}; switched off by NMTKIT_KERNELS: graphs"),
        (
            "lstm",
            f"kernels by torch.compile: {', '.join([*FUSED][1:])}; CUDA graphs in training; "
            "switched off by NMTKIT_KERNELS: lstm",
        ),
    ],
)
def test_the_line_about_a_gpu_compiles_nothing(off: str, used: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "COMPILED", "cuda")
    monkeypatch.delattr(torch, "compile")
    monkeypatch.setenv("NMTKIT_KERNELS", off)
    assert door.report(PLAIN, "cuda") == used


def test_a_recurrence_uses_compiled_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    def looped(x: Tensor, h: Tensor, u_gates: Tensor, u: Tensor) -> Tensor:
        states = []
        for x_gates, x_candidate in zip(x[..., :8], x[..., 8:], strict=True):
            reset, z = gru.gates(x_gates, h @ u_gates, h)
            h = gru.state(x_candidate, reset @ u, h, z)
            states.append(h)
        return torch.stack(states)

    calls = []
    monkeypatch.setattr(torch, "compile", lambda f, **_: lambda *given: calls.append(f.__name__) or f(*given))
    given = x, first, *weights = leaves((3, 2, 12), (2, 4), (4, 8), (4, 4))
    found = scan(gru.step, x, [first], None, False, weights)
    expected = looped(*given)
    for mine, other in zip((found, *gradients(found, given)), (expected, *gradients(expected, given)), strict=True):
        assert_near(mine, other, 1e-6)
    assert {*calls} == {"gates", "state", "back"}
