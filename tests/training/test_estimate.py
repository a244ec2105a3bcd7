from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nmtkit.config import load_yaml
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.experiment.run import run_experiment
from nmtkit.folders import ModelFolder
from nmtkit.ops.cross_entropy import chunk_rows
from nmtkit.training import checkpoint
from nmtkit.training import estimate as estimates
from nmtkit.training.estimate import Estimate, busy_budget, estimate
from nmtkit.training.loss import Gradient
from nmtkit.training.run import Run
from tests.training.conftest import small_experiment, small_run

CPU = torch.device("cpu")
CHUNKS = 4 * 1000 * chunk_rows(1000)


def estimated(words: int = 1000, **training: object) -> Estimate:
    planned = small_experiment(**training)
    return estimate(planned.build(20, 20), planned.training, 1_000_000, words, CPU)


@pytest.mark.parametrize(("name", "states"), [("sgd", 0), ("adam", 2), ("adadelta", 2)])
def test_a_parameter_its_gradient_and_each_optimizer_state_take_four_bytes(name: str, states: int) -> None:
    found = estimated(optimizer={"name": name, "lr": 0.1})
    assert found.weights == 4_000_000
    assert found.optimizer == 4_000_000 * (1 + states)


def test_the_memory_of_a_micro_batch_grows_with_its_words() -> None:
    one, two = (estimated(pass_tokens=tokens).activations - CHUNKS for tokens in (4096, 8192))
    assert 0 < one < two
    assert two == pytest.approx(2 * one, rel=0.01)


def test_a_large_vocabulary_costs_time() -> None:
    assert estimated(words=5_000_000).words_per_second < 0.5 * estimated(words=1000).words_per_second


def test_the_models_own_size_is_measured() -> None:
    planned = small_experiment()
    wide = replace(planned, model=replace(planned.model, width=4 * planned.model.width))
    narrow_one, wide_one = (
        estimate(e.build(20, 20), e.training, 1, 1000, CPU).activations - CHUNKS for e in (planned, wide)
    )
    assert wide_one > 2 * narrow_one


AUTO = {"batch_sentences": None, "batch_tokens": "auto"}


class ManyPairs:
    """Pairs of 1 to 60 words on both sides."""

    def __init__(self, size: int) -> None:
        self._lengths = np.arange(size) % 60 + 1

    def __len__(self) -> int:
        return len(self._lengths)

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._lengths[rows], self._lengths[rows]


def found_budget(
    monkeypatch: pytest.MonkeyPatch,
    seconds: Callable[[int], float],
    *,
    pairs: int = 20_000,
    fits: int = 10**9,
    **training: object,
) -> int:
    """The budget found on a machine with these seconds per batch of words, and this many words in memory."""
    seen = [0]
    corpus = ManyPairs(pairs)

    def accumulate(run: Run, rows: np.ndarray, micro: object) -> None:
        seen[0] = int(corpus.lengths(rows)[1].sum()) + len(rows)

    def read(sums: None, norm: float) -> Gradient:
        return Gradient(0.0, 0.0, seen[0], int(seen[0] > fits), norm)

    def timed(update: Callable[[], object], device: torch.device) -> float:
        update()
        return seconds(seen[0])

    monkeypatch.setattr(estimates, "accumulate", accumulate)
    monkeypatch.setattr(estimates, "micro_batches", lambda run, rows: [])
    monkeypatch.setattr(estimates, "clip", lambda model, limit: 1.0)
    monkeypatch.setattr(estimates, "read", read)
    monkeypatch.setattr(estimates, "_seconds", timed)
    return busy_budget(small_run(small_experiment(**AUTO, **training), corpus))  # type: ignore[arg-type]


def test_the_budget_found_is_the_smallest_whose_double_is_less_than_5_percent_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found_budget(monkeypatch, lambda words: 0.001 * words) == 256
    for fixed in (50, 100, 200):  # an update takes as long as so many words, and then a word its own time
        budget = found_budget(monkeypatch, lambda words, fixed=fixed: 0.001 * (fixed + words))  # type: ignore[misc]
        gains = {size: 2 * (fixed + size) / (fixed + 2 * size) for size in (budget // 2, budget)}
        assert gains[budget // 2] > 1.04  # batches are not quite full
        assert gains[budget] < 1.06


def test_a_budget_is_limited_by_pass_tokens_memory_and_the_corpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    always = lambda words: 1.0  # noqa: E731 - the more words the better
    assert found_budget(monkeypatch, always) == 8192
    assert found_budget(monkeypatch, always, pass_tokens=1500) == 1024
    assert found_budget(monkeypatch, always, fits=1100) == 1024
    assert found_budget(monkeypatch, always, pairs=60) == 2048  # the longer half of them, 1,400 words, is all there is
    monkeypatch.setattr(estimates, "_saved_bytes", lambda update, model: 600)
    monkeypatch.setattr(estimates, "free_memory", lambda device: 1100)
    assert found_budget(monkeypatch, always) == 256


def test_finding_a_budget_does_not_change_the_model(data: Path) -> None:
    planned = small_experiment(**AUTO, optimizer={"name": "adamw", "lr": 0.1, "decay": 0.1})
    model = planned.build(14, 14)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert busy_budget(small_run(planned, Corpus.open(data, "train"), model=model)) == 256  # all pairs
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_a_run_keeps_the_budget_it_began_with(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = [40, 80]
    monkeypatch.setattr(estimates, "busy_budget", lambda *_: budgets.pop(0))
    run, other = tmp_path / "auto", tmp_path / "given"
    for last in (3, 6):
        run_experiment(small_experiment(**AUTO, max_updates=last, valid_every=3), data, run, CPU)
        assert load_yaml(run / "config.yaml")["training"]["batch_tokens"] == 40
    given = small_experiment(batch_sentences=None, batch_tokens=40, max_updates=6, valid_every=3)
    run_experiment(given, data, other, CPU)
    ours, theirs = (checkpoint.load_weights(ModelFolder(f).weights(6)) for f in (run, other))
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


def test_a_run_with_batches_of_sentences_is_not_resumed_with_a_measured_budget(data: Path, tmp_path: Path) -> None:
    run_experiment(small_experiment(max_updates=1), data, tmp_path, CPU)
    with pytest.raises(UserError, match=r"differs, see above: training\.batch_sentences, training.batch_tokens"):
        run_experiment(small_experiment(**AUTO, max_updates=2), data, tmp_path, CPU)
