from collections.abc import Callable, Iterator
from itertools import count

import pytest
import torch

from nmtkit.ops import precision

CPU = torch.device("cpu")


def lasting(low: float) -> Callable[..., float]:
    """Takes the place of ``_seconds``: a product takes 1 s in float32, ``low`` in bfloat16."""
    return lambda dtype: 1.0 if dtype == torch.float32 else low


@pytest.fixture(autouse=True)
def _not_measured_yet() -> Iterator[None]:
    measurements = (precision._times_as_long, precision._warn_if_emulated)
    for measurement in measurements:
        measurement.cache_clear()
    yield
    for measurement in measurements:
        measurement.cache_clear()


@pytest.mark.parametrize(("low", "expected"), [(1.0, "float32"), (0.7, "float32"), (0.6, "bfloat16")])
def test_auto_is_bfloat16_where_it_takes_two_thirds_of_the_time_or_less(
    low: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_seconds", lasting(low))
    assert precision.resolve("auto", CPU) == expected
    assert str(precision.dtype_of("auto", CPU)) == f"torch.{expected}"


def test_auto_does_not_change_when_the_machine_gets_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    for low in (0.5, 2.0):
        monkeypatch.setattr(precision, "_seconds", lasting(low))
        assert precision.resolve("auto", CPU) == "bfloat16"


def test_a_given_precision_is_used_however_slow_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_seconds", lasting(100.0))
    for name in ("float32", "bfloat16", "int8"):
        assert precision.resolve(name, CPU) == name


@pytest.mark.parametrize(("low", "products"), [(0.5, 12), (9.0, 12), (40.0, 2)])
def test_products_that_are_emulated_are_not_timed_for_long(
    low: float, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = []

    def seconds(dtype: torch.dtype) -> float:
        timed.append(dtype)
        return lasting(low)(dtype)

    monkeypatch.setattr(precision, "_seconds", seconds)
    precision.resolve("auto", CPU)
    assert 2 * timed.count(torch.bfloat16) == products


@pytest.mark.parametrize("start", range(12))
def test_a_pause_of_the_processor_does_not_change_auto(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()

    def seconds(dtype: torch.dtype) -> float:
        return lasting(0.5)(dtype) * (5.0 if start <= next(calls) < start + 10 else 1.0)

    monkeypatch.setattr(precision, "_seconds", seconds)
    assert precision.resolve("auto", CPU) == "bfloat16"


@pytest.mark.parametrize(("low", "warned"), [(0.2, False), (2.9, False), (13.4, True)])
def test_bfloat16_that_the_processor_only_emulates_is_warned_of_once(
    low: float, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(precision, "_seconds", lasting(low))
    for _ in range(2):
        precision.resolve("bfloat16", CPU)
    precision.resolve("float32", CPU)
    expected = (
        "this processor emulates bfloat16 products, which take 13 times as long as in float32; use --precision float32"
    )
    assert [record.getMessage() for record in caplog.records] == [expected] * warned
