"""Learning rates: the common factor at every update."""

from typing import Any

import pytest

from nmtkit.config import build
from nmtkit.errors import UserError
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.training.schedules import Schedule

# Meng and Zhang 2019, "Training Details": base rate and schedule for each language pair
ZH_EN = (1e-3, Schedule("rnmt", warmup=500, replicas=2, start=8000, end=64000))
EN_DE = (1e-4, Schedule("rnmt", warmup=50, replicas=8, start=200_000, end=1_200_000))
EN_FR = (1e-4, Schedule("rnmt", warmup=50, replicas=8, start=400_000, end=3_000_000))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(), {(1, 0): 1.0, (10**6, 0): 1.0, (9, 5): 1.0}),
        (Schedule(warmup=4), {(1, 0): 0.25, (2, 0): 0.5, (4, 0): 1.0, (9, 0): 1.0}),
        (Schedule("plateau", factor=0.5), {(7, 0): 1.0, (7, 1): 0.5, (7, 3): 0.125}),
        (Schedule("plateau", warmup=10, factor=0.1), {(5, 0): 0.5, (5, 2): 0.005, (20, 1): 0.1}),
        (Schedule("inverse_sqrt", warmup=4), {(1, 0): 0.25, (4, 0): 1.0, (16, 0): 0.5, (16, 3): 0.5}),
    ],
)
def test_the_rate_warms_up_linearly_and_falls_according_to_its_kind(
    schedule: Schedule, expected: dict[tuple[int, int], float]
) -> None:
    for (update, decays), multiplier in expected.items():
        assert schedule.multiplier(update, decays) == pytest.approx(multiplier, rel=1e-12)


@pytest.mark.parametrize(
    ("pair", "t", "rate"),
    [
        *((ZH_EN, t, rate) for t, rate in [
            (0, 1e-3), (250, 1.25e-3), (500, 1.5e-3), (1000, 2e-3), (4000, 2e-3), (8000, 1.641e-3), (12000, 1.346e-3),
            (18000, 1e-3), (24000, 7.430e-4), (32000, 5e-4), (60000, 5e-4),
        ]),
        *((EN_DE, t, rate) for t, rate in [
            (0, 1e-4), (100, 2.75e-4), (200, 4.5e-4), (400, 8e-4), (25000, 8e-4), (50000, 4.595e-4), (75000, 2.639e-4),
            (87500, 2e-4), (125000, 8.706e-5), (150000, 5e-5), (200000, 5e-5),
        ]),
        *((EN_FR, t, rate) for t, rate in [
            (0, 1e-4), (400, 8e-4), (50000, 8e-4), (100000, 5.222e-4), (200000, 2.225e-4), (212500, 2e-4),
            (300000, 9.481e-5), (375000, 5e-5), (500000, 5e-5),
        ]),
    ],
)  # fmt: skip
def test_equation_17_gives_the_rates_that_follow_from_its_constants(
    pair: tuple[float, Schedule], t: int, rate: float
) -> None:
    lr0, schedule = pair
    assert lr0 * schedule.multiplier(t + 1, decays=0) == pytest.approx(rate, rel=4e-4)


@pytest.mark.parametrize("pair", [ZH_EN, EN_DE, EN_FR])
def test_equation_17_reaches_exactly_half_the_base_rate_at_its_end_and_holds_it(pair: tuple[float, Schedule]) -> None:
    schedule = pair[1]
    last = schedule.end // schedule.replicas
    assert schedule.multiplier(last + 1, 0) == schedule.multiplier(10 * last, 0) == 0.5


@pytest.mark.parametrize(("pair", "t", "rate"), [(ZH_EN, 60000, 1.25e-4), (EN_DE, 200_000, 1.649e-5),
                                                 (EN_FR, 500_000, 1.721e-5)])  # fmt: skip
def test_without_hold_equation_17_continues_to_fall(pair: tuple[float, Schedule], t: int, rate: float) -> None:
    lr0, s = pair
    falling = Schedule("rnmt", warmup=s.warmup, replicas=s.replicas, start=s.start, end=s.end, hold=False)
    assert lr0 * falling.multiplier(t + 1, 0) == pytest.approx(rate, rel=4e-4)


@pytest.mark.parametrize(("preset", "update"), [("dtmt4", 78_509), ("dtmt4-ende", 150_001), ("dtmt4-enfr", 375_001)])
def test_dtmts_rates_fall_to_the_5e_5_of_the_authors_release_and_stay(preset: str, update: int) -> None:
    training = build_experiment(load_preset(preset), preset).training
    rates = [training.optimizer.lr * training.schedule.multiplier(u, 0) for u in (update - 1000, update, 10 * update)]
    assert rates[0] > rates[1]
    assert rates[1:] == pytest.approx([5e-5, 5e-5])


def test_with_one_replica_equation_17_only_decays() -> None:
    schedule = Schedule("rnmt", warmup=500, replicas=1, start=8000, end=64000)
    assert schedule.multiplier(1, 0) == schedule.multiplier(8001, 0) == 1.0
    assert schedule.multiplier(36001, 0) == pytest.approx(0.5**0.5)
    assert schedule.multiplier(64001, 0) == 0.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "rnmt"}, "warmup: rnmt needs at least 1"),
        ({"kind": "inverse_sqrt"}, "warmup: inverse_sqrt needs at least 1"),
        ({"kind": "rnmt", "warmup": 5, "start": 9, "end": 9}, "replicas, start, end: at least 1, and 0 <= start < end"),
        ({"floor": 2.0}, "floor: 2.0 is not in [0, 1]"),
        ({"factor": 0.0}, "factor: 0.0 is not in (0, 1]"),
        ({"warmup": -1}, "warmup: -1 is not at least 0"),
    ],
)
def test_an_impossible_schedule_is_an_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        build(Schedule, values, "schedule")
    assert str(error.value) == f"schedule: {message}"
