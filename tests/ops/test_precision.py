from collections.abc import Iterator

import pytest
import torch

from nmtkit.ops import precision

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _not_measured_yet() -> Iterator[None]:
    measurements = (precision._bfloat16_is_faster, precision._warn_if_emulated)
    for measurement in measurements:
        measurement.cache_clear()
    yield
    for measurement in measurements:
        measurement.cache_clear()


@pytest.mark.parametrize(("low", "expected"), [(1.0, "float32"), (0.7, "float32"), (0.6, "bfloat16")])
def test_auto_is_bfloat16_where_it_takes_two_thirds_of_the_time_or_less(
    low: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_seconds", {torch.float32: 1.0, torch.bfloat16: low}.__getitem__)
    assert precision.resolve("auto", CPU) == expected
    assert str(precision.dtype_of("auto", CPU)) == f"torch.{expected}"


def test_auto_does_not_change_when_the_machine_gets_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in ({torch.float32: 1.0, torch.bfloat16: 0.5}, {torch.float32: 1.0, torch.bfloat16: 2.0}):
        monkeypatch.setattr(precision, "_seconds", seconds.__getitem__)
        assert precision.resolve("auto", CPU) == "bfloat16"


def test_a_given_precision_is_used_however_slow_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_seconds", {torch.float32: 1.0, torch.bfloat16: 100.0}.__getitem__)
    for name in ("float32", "bfloat16", "int8"):
        assert precision.resolve(name, CPU) == name


@pytest.mark.parametrize(("low", "warned"), [(0.2, False), (2.9, False), (13.4, True)])
def test_bfloat16_that_the_processor_only_emulates_is_warned_of_once(
    low: float, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(precision, "_seconds", {torch.float32: 1.0, torch.bfloat16: low}.__getitem__)
    for _ in range(2):
        precision.resolve("bfloat16", CPU)
    precision.resolve("float32", CPU)
    expected = (
        "this processor has no bfloat16 products: they take 13 times as long as in float32, which --precision float32 "
        "chooses"
    )
    assert [record.getMessage() for record in caplog.records] == [expected] * warned
