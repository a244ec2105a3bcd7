"""CUDA graphs give what computing without them gives. Here recording is replaced by computing again; see tests/gpu."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.data.batches import COARSE, collate
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.kernels import door
from nmtkit.training import graphs
from nmtkit.training.diagnosis import check_gradient
from nmtkit.training.gradient import accumulate, micro_batches, read
from nmtkit.training.graphs import Graphs, graphs_for
from nmtkit.training.loss import summed_loss
from nmtkit.training.optimizers import initialise
from nmtkit.training.run import Run
from tests.toys import one_of_each_architecture, preset_experiment, toy
from tests.training.conftest import small_experiment, small_run

BATCHES = [np.arange(20), np.arange(20), np.arange(20, 37), np.arange(20), np.arange(20, 37), np.arange(40, 60)]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Recording keeps the function, and replaying calls it; the list has an entry for each recording."""
    seen = []

    def record(function: Callable[[], None], place: Any) -> Callable[[], None]:
        seen.append(function.__name__)
        return function

    monkeypatch.setattr(graphs, "record", record)
    monkeypatch.setattr(graphs, "place_on", lambda device: graphs.Place("pool", "stream"))
    monkeypatch.setattr(graphs, "room", lambda device: 0.25)
    return seen


def run_of(preset: str, corpus: Corpus, dropout: float, found: Graphs | None) -> Run:
    experiment = toy(preset_experiment(preset))
    rates = {name: dropout for name in vars(experiment.model) if name.endswith("dropout")}
    torch.manual_seed(3)
    model = replace(experiment, model=replace(experiment.model, **rates)).build(14, 14)
    initialise(model, experiment.training.groups)
    settings = small_experiment(pass_tokens=90, label_smoothing=0.1, word_dropout=dropout)
    return replace(small_run(settings, corpus, model=model), graphs=found)


def updates(run: Run) -> list[tuple[float, float, list[Tensor]]]:
    """Loss, log-likelihood and gradients of each update, several of them in micro-batches."""
    found = []
    for number, rows in enumerate(BATCHES):
        torch.manual_seed(number)
        gradient = read(accumulate(run, rows, micro_batches(run, rows)), torch.zeros(()))
        parameters = run.model.parameters()
        found.append((gradient.loss, gradient.nll, [torch.zeros(1) if p.grad is None else p.grad.clone()
                                                    for p in parameters]))  # fmt: skip
        run.optimizer.step()
    return found


def assert_same(ours: list[Any], theirs: list[Any], **tolerance: float) -> None:
    for (loss, nll, gradients), (loss2, nll2, gradients2) in zip(ours, theirs, strict=True):
        assert (loss, nll) == pytest.approx((loss2, nll2))
        for one, other in zip(gradients, gradients2, strict=True):
            torch.testing.assert_close(one, other, **tolerance)


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_updates_with_graphs_are_those_without(preset: str, data: Path, recorded: list[str]) -> None:
    corpus = Corpus.open(data, "train")
    with_graphs, without = (updates(run_of(preset, corpus, 0.0, found)) for found in (Graphs(), None))
    assert_same(with_graphs, without, rtol=1e-4, atol=1e-5)
    assert recorded


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_a_graph_drops_the_units_that_are_dropped_without_it(preset: str, data: Path, recorded: list[str]) -> None:
    corpus = Corpus.open(data, "train")
    runs = (run_of(preset, corpus, 0.3, found) for found in (Graphs(), Graphs(most=0)))
    with_graphs, without = (updates(replace(run, dtype=torch.bfloat16)) for run in runs)
    assert_same(with_graphs, without, rtol=1e-4, atol=1e-5)
    assert recorded


@pytest.mark.parametrize("preset", one_of_each_architecture())
def test_a_coarse_batch_has_the_loss_and_the_gradient_of_the_batch(preset: str, data: Path) -> None:
    corpus, rows = Corpus.open(data, "train"), np.arange(37)
    model = run_of(preset, corpus, 0.0, None).model
    found = []
    for coarse in (False, True):
        batch = collate(corpus, rows, coarse)
        model.zero_grad()
        loss, nll = summed_loss(model, batch, 0.1, torch.float32)
        loss.backward()
        found.append((loss.item(), nll.item(), [p.grad for p in model.parameters() if p.grad is not None]))
        assert batch.src.shape == ((40, 8) if coarse else (37, 7))
    assert_same(found[1:], found[:1], rtol=1e-4, atol=1e-4)


def test_the_first_batch_of_a_shape_is_not_recorded_and_the_second_one_is(data: Path, recorded: list[str]) -> None:
    run = run_of("rnnsearch", Corpus.open(data, "train"), 0.0, Graphs())
    counts = []
    for rows in (np.arange(5), np.arange(5), np.arange(5), np.arange(5, 13), np.arange(5, 13)):
        [batch] = micro = micro_batches(run, rows)
        accumulate(run, rows, micro)
        assert batch.src.shape[1] % COARSE == batch.tgt.shape[1] % COARSE == 0
        counts.append((len(batch.src), len(recorded)))
    assert counts == [(5, 0), (5, 2), (5, 2), (8, 2), (8, 4)]


def test_micro_batches_hold_their_tokens_padding_included(data: Path) -> None:
    run = run_of("rnnsearch", Corpus.open(data, "train"), 0.0, Graphs())
    for batch in micro_batches(run, np.arange(60)):
        assert max(batch.src.numel(), batch.tgt.numel()) <= run.settings.pass_tokens


def test_gradients_stay_where_graphs_expect_them(data: Path, recorded: list[str]) -> None:
    run, rows = run_of("rnnsearch", Corpus.open(data, "train"), 0.0, Graphs()), np.arange(5)
    places = set()
    for _ in range(3):
        accumulate(run, rows, micro_batches(run, rows))
        places.add(tuple(p.grad.data_ptr() for p in run.model.parameters() if p.grad is not None))
    assert len(places) == 1


def test_the_batch_of_a_recording_is_not_overwritten_by_later_ones(data: Path, recorded: list[str]) -> None:
    corpus, found = Corpus.open(data, "train"), Graphs()
    model = run_of("rnnsearch", corpus, 0.0, None).model
    inputs = collate(corpus, np.arange(5), coarse=True)[:3]
    before = [x.clone() for x in inputs]
    for given in (inputs, inputs, [x.flip(0) for x in inputs]):
        found.hidden(model, *given)
    assert recorded
    assert all(map(torch.equal, inputs, before))


def test_batches_that_differ_only_in_the_length_of_the_target_have_different_graphs(
    data: Path, recorded: list[str]
) -> None:
    corpus, found = Corpus.open(data, "train"), Graphs()
    model = run_of("rnnsearch", corpus, 0.0, None).model
    src, mask, tgt, _ = collate(corpus, np.arange(5), coarse=True)
    lengths = [found.hidden(model, src, mask, part).shape[1] for part in (tgt, tgt, tgt[:, :-1])]
    assert lengths == [tgt.shape[1], tgt.shape[1], tgt.shape[1] - 1]


def test_the_origin_of_a_nan_is_sought_without_graphs_which_do_not_call_modules(
    data: Path, recorded: list[str]
) -> None:
    run, rows = run_of("rnnsearch", Corpus.open(data, "train"), 0.0, Graphs()), np.zeros(60, int)
    micro = micro_batches(run, rows)
    accumulate(run, rows, micro)
    assert recorded == ["forward", "backward"]  # all have one shape
    run.model.get_submodule("embedding.src").register_forward_hook(lambda module, given, output: output * float("nan"))
    broken = read(accumulate(run, rows, micro), torch.tensor(float("nan")))
    with pytest.raises(UserError, match=r"first in the output of embedding\.src; "):
        check_gradient(run, rows, broken)
    assert len(recorded) == 2


def test_no_more_graphs_are_recorded_than_allowed(data: Path, recorded: list[str]) -> None:
    run = run_of("rnnsearch", Corpus.open(data, "train"), 0.0, Graphs(most=1))
    updates(run)
    assert recorded == ["forward", "backward"]


def test_without_memory_for_more_graphs_updates_are_computed_without_them(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, recorded: list[str]
) -> None:
    record = graphs.record

    def fails(function: Callable[[], None], place: Any) -> Callable[[], None]:
        if len(recorded) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return record(function, place)

    monkeypatch.setattr(graphs, "record", fails)
    corpus = Corpus.open(data, "train")
    with_graphs, without = (updates(run_of("rnnsearch", corpus, 0.0, found)) for found in (Graphs(), None))
    assert_same(with_graphs, without, rtol=1e-4, atol=1e-5)
    said = "1 CUDA graphs; there is no memory for more, so updates with batches of other shapes are slower"
    assert caplog.messages == [said]


def test_no_graphs_are_recorded_when_less_than_a_quarter_of_the_memory_is_free(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, recorded: list[str]
) -> None:
    monkeypatch.setattr(graphs, "room", lambda device: 0.25 if len(recorded) < 2 else 0.24)
    corpus = Corpus.open(data, "train")
    with_graphs, without = (updates(run_of("rnnsearch", corpus, 0.0, found)) for found in (Graphs(), None))
    assert_same(with_graphs, without, rtol=1e-4, atol=1e-5)
    assert len(recorded) == 2
    said = "1 CUDA graphs; there is no memory for more, so updates with batches of other shapes are slower"
    assert caplog.messages == [said]


@pytest.mark.parametrize("times", [1, 2])
def test_a_batch_that_does_not_fit_beside_the_graphs_is_computed_without_them(
    times: int, data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, recorded: list[str]
) -> None:
    run, rows = run_of("rnnsearch", Corpus.open(data, "train"), 0.3, Graphs()), np.arange(5)
    for _ in range(3):
        run.seed_dropout()
        accumulate(run, rows, micro_batches(run, rows))
    right = [p.grad.clone() for p in run.model.parameters() if p.grad is not None]
    replayed, tried = graphs._Replay.apply, []

    def full(*given: Any) -> Any:
        tried.append(given)
        raise torch.OutOfMemoryError("CUDA out of memory")

    for _ in range(times):
        monkeypatch.setattr(graphs._Replay, "apply", full)
        run.seed_dropout()
        sums = accumulate(run, rows, micro_batches(run, rows))
        torch.testing.assert_close([p.grad for p in run.model.parameters() if p.grad is not None], right)
        monkeypatch.setattr(graphs._Replay, "apply", replayed)
        run.seed_dropout()
        accumulate(run, rows, micro_batches(run, rows))
        torch.testing.assert_close([p.grad for p in run.model.parameters() if p.grad is not None], right)
        assert sums.halvings == 0
    assert len(tried) == times
    assert len(recorded) == 4  # forward and backward, and again after the first time
    said = [f"out of memory with 1 CUDA graphs; {then}" for then in
            ("recording them again", "continuing without them, which is slower")]  # fmt: skip
    assert caplog.messages == said[:times]


def test_in_bfloat16_a_failed_recording_leaves_no_converted_weights(
    data: Path, monkeypatch: pytest.MonkeyPatch, recorded: list[str]
) -> None:
    """Autocast keeps them, and those of a recording have not been computed."""
    run = replace(run_of("rnnsearch", Corpus.open(data, "train"), 0.0, Graphs()), dtype=torch.bfloat16)
    rows = np.arange(5)

    def fails(function: Callable[[], None], place: Any) -> Callable[[], None]:
        weights = [parameter.data for parameter in run.model.parameters()]
        for parameter in run.model.parameters():
            parameter.data = torch.zeros_like(parameter)
        function()
        for parameter, weight in zip(run.model.parameters(), weights, strict=True):
            parameter.data = weight
        raise torch.OutOfMemoryError

    monkeypatch.setattr(graphs, "record", fails)
    found = [accumulate(run, rows, micro_batches(run, rows)).loss.item() for _ in range(2)]
    assert found[0] == found[1]


def test_if_recording_fails_the_remedy_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch, recorded: list[str]
) -> None:
    def fails(function: Callable[[], None], place: Any) -> Callable[[], None]:
        raise RuntimeError("operation not permitted\nmore")

    monkeypatch.setattr(graphs, "record", fails)
    with pytest.raises(UserError) as told:
        updates(run_of("rnnsearch", Corpus.open(data, "train"), 0.0, Graphs()))
    assert str(told.value) == (
        "recording a CUDA graph failed (operation not permitted); start again with NMTKIT_KERNELS=graphs in the "
        "environment, which is slower"
    )


def test_nothing_of_earlier_batches_is_alive_when_a_graph_is_recorded(
    data: Path, monkeypatch: pytest.MonkeyPatch, recorded: list[str]
) -> None:
    """Their autograd graphs belong to another stream of the GPU."""
    record, alive = graphs.record, []

    def watched(function: Callable[[], None], place: Any) -> Callable[[], None]:
        alive.append(differentiated())
        return record(function, place)

    def differentiated() -> int:
        gc.collect()
        return sum(issubclass(type(x), Tensor) and x.grad_fn is not None for x in gc.get_objects())

    monkeypatch.setattr(graphs, "record", watched)
    corpus, rows = Corpus.open(data, "train"), np.arange(10)
    run, before = run_of("rnnsearch", corpus, 0.0, Graphs()), differentiated()
    accumulate(run, rows, [collate(corpus, rows, coarse=True)] * 2)
    assert alive[0] == before


@pytest.mark.usefixtures("untried")
def test_graphs_are_for_gpus_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert graphs_for(torch.device("cpu")) is None
    assert graphs_for(torch.device("cuda")) is not None
    monkeypatch.setenv("NMTKIT_KERNELS", "graphs")
    door.switched_off.cache_clear()
    assert graphs_for(torch.device("cuda")) is None
