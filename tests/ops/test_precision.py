from collections.abc import Iterator

import pytest
import torch

from nmtkit.ops import precision

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _not_measured_yet() -> Iterator[None]:
    precision._bfloat16_is_faster.cache_clear()
    yield
    precision._bfloat16_is_faster.cache_clear()


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


def test_a_given_precision_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_seconds", {}.__getitem__)
    for name in ("float32", "bfloat16", "int8"):
        assert precision.resolve(name, CPU) == name
