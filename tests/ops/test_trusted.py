"""Kernels are used if they were right when they were tried, plain steps otherwise."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from nmtkit.kernels import library, trusted
from nmtkit.ops import gated, gru, lau, lstm, nematus

LIKE = torch.zeros(1)
CELLS: dict[str, Any] = {"LSTM": lstm, "GRU": gru, "LAU": lau}
every_cell = pytest.mark.parametrize("name", CELLS)


pytestmark = pytest.mark.usefixtures("untried")


def chosen(cell: Any, twin: object) -> object:
    """What is used for a tensor on a GPU, where ``twin`` stands for the kernels."""
    return trusted.choose(cell.PLAIN, lambda: twin, cell._compare, LIKE)


def twin_of(cell: Any, **others: Callable[..., object]) -> Any:
    """Sound steps, but for ``others``."""
    twin = SimpleNamespace(forward=cell.PLAIN.forward, backward=cell.PLAIN.backward)
    vars(twin).update(others)
    return twin


@every_cell
def test_sound_kernels_are_used(name: str, caplog: pytest.LogCaptureFixture) -> None:
    twin = twin_of(CELLS[name])
    assert chosen(CELLS[name], twin) is twin
    assert caplog.text == ""


@every_cell
def test_kernels_whose_gradient_differs_are_not_used_and_one_line_says_so(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    cell = CELLS[name]

    def halved(*arguments: Any) -> Any:
        result = cell.PLAIN.backward(*arguments)
        terms, *ds = result if isinstance(result, tuple) else (result,)
        halves = [term / 2 for term in terms]
        return (halves, *ds) if ds else halves

    assert chosen(cell, twin_of(cell, backward=halved)) is cell.PLAIN
    assert caplog.messages == [f"plain operations on cpu, not kernels: ArithmeticError: other results of {name}"]


@every_cell
def test_kernels_whose_result_differs_are_not_used(name: str) -> None:
    cell = CELLS[name]

    def damped(*arguments: Any) -> None:
        cell.PLAIN.forward(*arguments)
        arguments[-1].h.mul_(0.8)

    assert chosen(cell, twin_of(cell, forward=damped)) is cell.PLAIN


@pytest.mark.parametrize("which", ["gru", "lau"])
@pytest.mark.parametrize("wrong", ["result", "gradient"])
def test_cells_with_normalised_gates_that_differ_are_not_used(
    which: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    plain = getattr(gated.PLAIN, which)

    def differs(*arguments: Tensor | None) -> Tensor:
        new: Tensor = plain(*arguments)
        # Without a change of the value, half the gradient.
        return 0.8 * new if wrong == "result" else (new + new.detach()) / 2

    twin = SimpleNamespace(gru=gated.PLAIN.gru, lau=gated.PLAIN.lau)
    assert chosen(gated, twin) is twin
    trusted.sound.cache_clear()
    assert chosen(gated, SimpleNamespace(**{**vars(twin), which: differs})) is gated.PLAIN
    assert f"other results of the {which.upper()} with normalised gates" in caplog.text


def test_a_step_of_nematus_that_differs_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    def damped(*arguments: Any) -> Tensor:
        return 0.8 * nematus.PLAIN.step(*arguments)

    assert chosen(nematus, SimpleNamespace(step=damped)) is nematus.PLAIN
    assert "other results of the GRU of Nematus" in caplog.text
    sound = SimpleNamespace(step=nematus.PLAIN.step)
    trusted.sound.cache_clear()
    assert chosen(nematus, sound) is sound


def test_kernels_that_raise_are_not_used_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def fails(*arguments: Tensor) -> None:
        raise RuntimeError("no kernel image is available\nfor execution on the device")

    for cell in (lau, gru, lau):
        assert chosen(cell, twin_of(cell, forward=fails)) is cell.PLAIN
    assert caplog.messages == ["plain operations on cpu, not kernels: RuntimeError: no kernel image is available"]


def test_what_was_found_holds_for_every_later_tensor() -> None:
    calls = []

    def compare(twin: object, device: torch.device, dtype: torch.dtype) -> None:
        calls.append(dtype)

    def fused() -> object:
        return gru.PLAIN

    for _ in range(3):
        trusted.choose(lstm.PLAIN, fused, compare, LIKE)
    assert calls == [torch.float32]


@pytest.mark.skipif(library._library() is None, reason="nmtkit was installed without a C compiler")
@pytest.mark.parametrize("dtype", library.BOTH)
@pytest.mark.parametrize("cell", [gru, gated, nematus])
def test_on_a_cpu_kernels_in_c_are_used_unless_they_are_wrong(
    cell: Any, dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.zeros(1, dtype=dtype)
    assert trusted.choose(cell.PLAIN, cell._native, cell._compare, x) is cell._native()
    assert caplog.text == ""
    wrong = SimpleNamespace()
    assert trusted.choose(cell.PLAIN, lambda: wrong, cell._compare, x) is cell.PLAIN
    assert "plain operations on cpu, not kernels" in caplog.text


@pytest.mark.parametrize("cell", [lstm, gru, lau, gated, nematus])
def test_a_tensor_that_no_kernel_takes_takes_plain_operations_without_a_word(
    cell: Any, caplog: pytest.LogCaptureFixture
) -> None:
    double = torch.zeros(1, dtype=torch.float64)
    assert trusted.choose(cell.PLAIN, cell._native, cell._compare, double) is cell.PLAIN
    assert caplog.text == ""
