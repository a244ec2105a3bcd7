"""A kernel is used if it agreed with the plain function in its trial and is not switched off."""

from typing import Any

import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.kernels import door, library
from nmtkit.kernels.door import KERNELS, kernel
from nmtkit.ops.plain import PLAIN

pytestmark = pytest.mark.usefixtures("untried")
every = pytest.mark.parametrize("name", KERNELS)
KNOWN = [*KERNELS, "keep", "graphs"]
needs_kernels = pytest.mark.skipif(not library.compiled(), reason="C kernels: pip install -e . with a C compiler")


def like(name: str) -> torch.Tensor:
    """A tensor that this kernel supports. Skips kernels that this processor lacks."""
    if not all(map(library.has, KERNELS[name].c)):
        pytest.skip("not for this processor")
    return torch.empty(1, dtype=KERNELS[name].dtypes[0])


def is_used(name: str) -> bool:
    return kernel(name, PLAIN[name], like(name)) is not PLAIN[name]


def test_every_kernel_has_a_plain_function() -> None:
    assert KERNELS.keys() == PLAIN.keys()


@every
def test_a_right_kernel_is_used_silently(name: str, caplog: pytest.LogCaptureFixture) -> None:
    for dtype in KERNELS[name].dtypes:
        assert kernel(name, PLAIN[name], like(name).to(dtype)) is KERNELS[name].function
    assert caplog.text == ""


@every
@pytest.mark.parametrize("wrong", ["results", "error"])
def test_a_wrong_kernel_is_not_used_and_one_warning_names_it(
    name: str, wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(first: torch.Tensor, *others: Any) -> Any:
        if wrong == "error":
            raise RuntimeError("illegal instruction\nor so")
        return right.function(first / 2, *others)

    right = KERNELS[name]
    monkeypatch.setitem(KERNELS, name, right._replace(function=fails))
    for dtype in right.dtypes:
        assert kernel(name, PLAIN[name], like(name).to(dtype)) is PLAIN[name]
    reason = {"results": "ArithmeticError: the results differ", "error": "RuntimeError: illegal instruction"}[wrong]
    assert caplog.messages == [f"kernel {name} failed its trial, so plain operations are used ({reason})"]
    assert f"; failed: {name}" in door.report(PLAIN, "cpu")


@needs_kernels
def test_a_kernel_that_changes_its_inputs_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeroes(rows: torch.Tensor, largest: int) -> tuple[torch.Tensor, torch.Tensor]:
        result: tuple[torch.Tensor, torch.Tensor] = right.function(rows, largest)
        rows.zero_()
        return result

    right = KERNELS["quantise"]
    monkeypatch.setitem(KERNELS, "quantise", right._replace(function=zeroes))
    assert not is_used("quantise")


@needs_kernels
def test_a_kernel_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    right = KERNELS["quantise"]
    monkeypatch.setitem(
        KERNELS, "quantise", right._replace(arguments=lambda dtype: calls.append(dtype) or right.arguments(dtype))
    )
    for dtype in (torch.float32, torch.bfloat16, torch.float32):
        kernel("quantise", PLAIN["quantise"], torch.empty(1, dtype=dtype))
    assert calls == [torch.float32] * 2 + [torch.bfloat16] * 2  # once for each of the two functions


@needs_kernels
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_the_trial_works_in_every_autograd_mode(mode: Any) -> None:
    with mode():
        assert "failed" not in door.report(PLAIN, "cpu")


@needs_kernels
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_unsupported_tensors_use_plain_operations_silently(device: str, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.empty(1, dtype=torch.float64 if device == "cpu" else torch.float32, device=device)
    assert all(kernel(name, plain, x) is plain for name, plain in PLAIN.items())
    assert caplog.text == ""


@every
def test_each_kernel_can_be_switched_off_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "log_softmax" if name != "log_softmax" else "scores"
    monkeypatch.setenv("NMTKIT_KERNELS", f" {name},")
    assert not is_used(name)
    assert is_used(other)
    assert f"; switched off by NMTKIT_KERNELS: {name}" in door.report(PLAIN, "cpu")


@needs_kernels
def test_a_kernel_for_other_processors_is_no_fault_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "has", lambda name: not name.startswith("tiles"))
    assert door.report(PLAIN, "cpu").endswith("; only for other processors: tiles")


@needs_kernels
def test_all_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMTKIT_KERNELS", "off")
    assert door.report(PLAIN, "cpu") == f"kernels in C: none; switched off by NMTKIT_KERNELS: {', '.join(KERNELS)}"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("scores,tile", "NMTKIT_KERNELS=scores,tile: no kernel is called tile; did you mean tiles?"),
        ("of", "NMTKIT_KERNELS=of: no kernel is called of; did you mean off?"),
        ("xyzzy", f"NMTKIT_KERNELS=xyzzy: no kernel is called xyzzy; off, or some of {', '.join(KNOWN)}"),
    ],
)
def test_an_unknown_kernel_name_is_refused(value: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMTKIT_KERNELS", value)
    with pytest.raises(UserError) as error:
        kernel("scores", PLAIN["scores"], torch.empty(1))
    assert str(error.value) == complaint


def test_without_compiled_kernels_plain_functions_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "compiled", lambda: False)
    assert not is_used("scores")


@pytest.mark.parametrize(
    ("machine", "kind", "remedy"),
    [
        ("x86_64", "avx2", "install nmtkit again where there is a C compiler"),
        ("x86_64", "default", "they need a processor with AVX2"),
        ("arm64", "default", "install nmtkit again where there is a C compiler"),
    ],
)
def test_a_compiler_is_suggested_only_for_supported_processors(
    machine: str, kind: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(library, "kind", lambda: kind)
    monkeypatch.setattr(library, "compiled", lambda: False)
    assert door.report(PLAIN, "cpu") == f"no C kernels, so training and search are slower: {remedy}"
