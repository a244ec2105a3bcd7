"""A GPU gives the same as the CPU: models, losses, search, training, files.

    make gpu                                            # on a machine with an NVIDIA GPU
    DEVICE=cuda:1 make gpu                              # on the second of several
    DEVICE=simulated .venv/bin/pytest -m gpu tests/gpu  # without one, see simulated.py; a part of `make test`

All in float32 without TF32, unless a test says otherwise, so that what differs is the order of sums alone.
"""

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import nmtkit
from nmtkit.config import dump_yaml, to_dict
from nmtkit.data.batches import Batch
from nmtkit.evaluation.forced import score_candidates
from nmtkit.evaluation.gradients import gradient_flow
from nmtkit.experiment.run import run_experiment
from nmtkit.experiment.schema import Experiment
from nmtkit.kernels.door import FUSED, kernel
from nmtkit.machine.memory import is_full
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.attention import quick_additive
from nmtkit.ops.best import whole
from nmtkit.ops.cross_entropy import linear_cross_entropy
from nmtkit.ops.precision import dtype_of
from nmtkit.search.batching import translate_each
from nmtkit.search.beam import Hypothesis, Search, beam_search
from nmtkit.search.ensemble import Ensemble
from nmtkit.search.sampling import sample
from nmtkit.search.shortlist import Shortlists
from nmtkit.symbols import BOS
from nmtkit.training.graphs import Graphs
from nmtkit.training.loss import summed_loss
from nmtkit.training.validation import Validation
from nmtkit.translation.request import Request
from tests.gpu import simulated
from tests.kernels.compiled import COMPILED, arguments
from tests.laws import assert_same, gradients, tensors_of
from tests.toys import (
    SRC_WORDS,
    TGT_WORDS,
    one_of_each,
    one_of_each_architecture,
    preset_experiment,
    simplest,
    sources,
    targets,
    toy,
    toy_model,
)
from tests.training.conftest import everything, make_data, metrics, small_experiment

GPU = torch.device(os.environ.get("DEVICE", "cuda"))
REAL = GPU.type == "cuda"
CPU = torch.device("cpu")
no_such_device = pytest.mark.skipif(
    GPU.type == simulated.NAME and not simulated.POSSIBLE, reason="this PyTorch has no devices written in Python"
)
# PyTorch's own use of it, when it imports its compiler.
scripted = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
pytestmark = [pytest.mark.gpu, no_such_device, scripted]
FORM = toy if REAL else simplest  # each operation of a simulated GPU is one of Python's
ARCHITECTURES = one_of_each_architecture()
# On a simulated GPU, other kinds of an architecture, and runs in float32, are for ``make slow``.
rarely = () if REAL else pytest.mark.slow
KINDS = {*one_of_each(FORM, switches=REAL), *ARCHITECTURES}
every_kind = pytest.mark.parametrize(
    "preset", [pytest.param(kind, marks=() if kind in ARCHITECTURES else rarely) for kind in sorted(KINDS)]
)
MANY = one_of_each() if REAL else ARCHITECTURES
every_architecture = pytest.mark.parametrize("preset", MANY)
both_precisions = pytest.mark.parametrize("precision", [pytest.param("float32", marks=rarely), "bfloat16"])
only_simulated = pytest.mark.skipif(GPU.type != simulated.NAME, reason="only the simulated GPU counts waits")
SEARCH = Search(beam_size=3, length_penalty="avg", max_len_a=1, max_len_b=4)


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Full float32 in convolutions (in products it is the default), and the same algorithms every time."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("small"))


def moved(*tensors: Tensor) -> list[Tensor]:
    return [tensor.to(GPU) for tensor in tensors]


def on_cpu(tree: object) -> list[Tensor]:
    return [leaf.cpu() for leaf in tensors_of(tree)]


def telling_model(preset: str) -> Seq2Seq:
    """``toy_model`` with the gains and biases that training starts from, which leave no hypotheses equal to rounding.

    Random ones dominate the memory of a state, and then word order hardly changes the score of a hypothesis.
    """
    model = toy_model(preset, FORM)
    started = FORM(preset_experiment(preset)).build(SRC_WORDS, TGT_WORDS)
    for parameter, start in zip(model.parameters(), started.parameters(), strict=True):
        if parameter.dim() == 1:
            parameter.data.copy_(start)
    return model


def searched(model: Seq2Seq | Ensemble, device: torch.device) -> list[list[Hypothesis]]:
    src, mask = sources()
    return beam_search(model, src.to(device), mask.to(device), SEARCH, n_best=3, attention=True)


def assert_same_hypotheses(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert [h.ids for h in mine] == [h.ids for h in other]
        scores = [[h.score for h in hypotheses] for hypotheses in (mine, other)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-4, abs=1e-4)


@every_kind
def test_hidden_states_and_gradients_are_those_of_the_cpu(preset: str) -> None:
    model, tgt = toy_model(preset, FORM), targets(3)
    hidden = model(*sources(), tgt)
    expected = hidden, gradients(hidden, [*model.parameters()])
    model.to(GPU)
    hidden = model(*moved(*sources(), tgt))
    assert_same(on_cpu((hidden, gradients(hidden, [*model.parameters()]))), on_cpu(expected))


@pytest.mark.parametrize("name", FUSED)
def test_cells_are_compiled_in_training_and_give_what_they_give_on_the_cpu(name: str) -> None:
    given, plain = arguments(name, torch.float32), COMPILED[name]
    there = [x.detach().to(GPU).requires_grad_(x.requires_grad) for x in given]
    step = kernel(name, plain, *there[:2])
    assert step is not plain
    found = [(f(*x), [y for y in x if y.requires_grad]) for f, x in ((step, there), (plain, given))]
    ours, theirs = ((y, gradients(y, leaves)) for y, leaves in found)
    assert_same(on_cpu(ours), on_cpu(theirs))
    with torch.no_grad():
        assert kernel(name, plain, *there[:2]) is plain


@pytest.mark.skipif(not REAL, reason="CUDA graphs are for GPUs")
@pytest.mark.parametrize(
    ("preset", "dtype"),
    [(preset, torch.float32) for preset in MANY] + [(preset, torch.bfloat16) for preset in ARCHITECTURES],
    ids=str,
)
def test_a_graph_computes_what_is_computed_without_it(preset: str, dtype: torch.dtype) -> None:
    """With the dropout of the preset, and batches of two shapes."""
    experiment = toy(preset_experiment(preset))
    settings = preset_experiment(preset).model
    rates = {name: getattr(settings, name) for name in vars(settings) if name.endswith("dropout")}
    experiment = replace(experiment, model=replace(experiment.model, **rates))
    src, _ = sources()
    batches = [Batch.of(src, targets()), Batch.of(src[:2], targets()[:2])]
    found, recorded = [], Graphs()
    for graphs in (recorded, Graphs(most=0)):
        torch.manual_seed(1)
        model = experiment.build(SRC_WORDS, TGT_WORDS).to(GPU)
        gradients_of = []
        for number in range(6):
            torch.manual_seed(number)
            model.zero_grad(set_to_none=False)
            summed_loss(model, batches[number % 2].to(GPU), 0.1, dtype, 0.1, graphs)[0].backward()
            gradients_of += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        found.append(gradients_of)
    assert len(recorded._recorded) == 2
    near = 1e-4 if dtype == torch.float32 else 1e-2  # sums of atomic additions vary
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=near, atol=near * other.abs().max().item())


@every_architecture
def test_bfloat16_points_the_gradient_the_same_way(preset: str) -> None:
    model = toy_model(preset, FORM).to(GPU)
    batch, found = Batch.of(sources()[0], targets()), []
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad()
        summed_loss(model, batch, 0.1, dtype)[0].backward()
        found.append(torch.cat([p.grad.flatten().float() for p in model.parameters() if p.grad is not None]))
    assert torch.nn.functional.cosine_similarity(*found, dim=0) > 0.99


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_over_a_vocabulary_is_that_of_the_cpu(smoothing: float) -> None:
    random = torch.Generator().manual_seed(0)
    shapes = [(300, 32), (5000, 32), (5000,)]
    inputs = [torch.randn(shape, generator=random) for shape in shapes]
    target = torch.randint(5000, (300,), generator=random)
    results = []
    for device in (CPU, GPU):
        given = [x.to(device).requires_grad_() for x in inputs]
        loss, nll = linear_cross_entropy(*given, target.to(device), smoothing)
        results.append(on_cpu((loss.detach(), nll, torch.autograd.grad(loss, given))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * theirs.abs().max().item())


@every_architecture
def test_beam_search_finds_what_it_finds_on_the_cpu(preset: str) -> None:
    model = telling_model(preset)
    expected = searched(model, CPU)
    assert_same_hypotheses(searched(model.to(GPU), GPU), expected)


def test_an_ensemble_of_all_architectures_finds_what_it_finds_on_the_cpu() -> None:
    def ensemble(device: torch.device) -> Ensemble:
        members = [telling_model(name).to(device) for name in ARCHITECTURES]
        return Ensemble(members, [0] * len(members), [1.0] * len(members), "prob")

    assert_same_hypotheses(searched(ensemble(GPU), GPU), searched(ensemble(CPU), CPU))


@pytest.mark.parametrize("preset", ARCHITECTURES)
def test_every_way_of_searching_finds_what_it_finds_on_the_cpu(preset: str) -> None:
    """Prefixes, shortlists, the coverage penalty, n-best lists, attention and sentences of many lengths at once."""
    random = np.random.default_rng(4)
    given = [random.integers(4, SRC_WORDS, size=n).tolist() for n in (1, 7, 3, 0, 5)]
    forced = [[5], [], [], [6, 4], [7]]
    looks = any("attention" in name for name, _ in toy_model(preset).named_modules())
    config = replace(SEARCH, coverage_penalty=0.2 * looks, max_tokens=64)
    found = [
        dict(
            translate_each(
                telling_model(preset).to(device).for_search("float32"), [given], config, device=device, n_best=3,
                attention=True, forced=forced, seed=None,
                shortlists=Shortlists(6, [[8], [9], [10], [], [11]]),
            )
        )
        for device in (GPU, CPU)
    ]  # fmt: skip
    assert found[0].keys() == found[1].keys() == set(range(5))
    assert_same_hypotheses(*([each[i] for i in range(5)] for each in found))


@every_architecture
def test_a_step_of_search_in_bfloat16_is_that_of_the_cpu(preset: str) -> None:
    found = []
    for device in (GPU, CPU):
        scorer = toy_model(preset).to(device).for_search("bfloat16")
        src, mask = (x.to(device) for x in sources())
        memory, state = scorer.begin(src, mask)
        log_probs, _, _ = scorer.step(memory, state, torch.full((len(src),), BOS, device=device))
        found.append(whole(log_probs).float().cpu())
    torch.testing.assert_close(*found, rtol=0, atol=0.1)


@pytest.mark.parametrize("preset", ARCHITECTURES)
def test_candidates_are_scored_as_on_the_cpu(preset: str) -> None:
    given, candidates = [[[5, 6, 7], [8]]], [[[4, 5], [6], [4, 5]], [[7, 7, 7]]]
    found = []
    for device in (GPU, CPU):
        model = toy_model(preset, FORM).to(device)
        both = [Ensemble([model, model], [0, 0], [1.0, 2.0], "logprob"), model]
        found.append([score_candidates(x, given, candidates, device=device, max_tokens=50) for x in both])
    for ours, theirs in zip(itertools.chain(*found[0]), itertools.chain(*found[1]), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("preset", ARCHITECTURES)
def test_gradients_flow_through_the_layers_as_on_the_cpu(preset: str) -> None:
    batch = Batch.of(sources()[0], targets())
    ours, theirs = (gradient_flow(toy_model(preset).to(device), batch.to(device)) for device in (GPU, CPU))
    assert [layer.name for layer in ours] == [layer.name for layer in theirs]
    for one, other in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
        assert one == (pytest.approx(other, rel=1e-3) if isinstance(other, float) else other)


def test_a_new_run_begins_with_the_weights_of_another(data: Path, tmp_path: Path) -> None:
    run_experiment(planned(max_updates=2), data, tmp_path / "first", GPU)
    for device in (GPU, CPU):
        run_experiment(planned(max_updates=3), data, tmp_path / device.type, device, tmp_path / "first")
    assert losses(tmp_path / GPU.type) == pytest.approx(losses(tmp_path / CPU.type), rel=1e-3)


def test_what_is_sampled_depends_on_the_seed_alone() -> None:
    model = toy_model("rnnsearch").to(GPU)
    src, mask = moved(*sources())

    def drawn(seed: int) -> list[list[int]]:
        generators = [np.random.default_rng([seed, i]) for i in range(len(src))]
        return [hypothesis.ids for [hypothesis] in sample(model, src, mask, SEARCH, generators, 1)]

    assert drawn(1) == drawn(1) != drawn(2)


def planned(**training: object) -> Experiment:
    """A small experiment in float32 without dropout, whose random numbers differ between devices."""
    experiment = small_experiment(**{"precision": "float32", "valid_every": 4, **training})
    return replace(experiment, model=replace(experiment.model, dropout=0.0))


def losses(folder: Path) -> list[float]:
    return [record["cross_entropy"] for record in metrics(folder) if record["kind"] == "valid"]


@pytest.mark.parametrize(("first", "then"), [(GPU, GPU), (GPU, CPU), (CPU, GPU)], ids=["gpu", "from gpu", "to gpu"])
def test_a_run_follows_that_of_the_cpu_also_when_it_changes_devices(
    first: torch.device, then: torch.device, data: Path, tmp_path: Path
) -> None:
    whole = planned(max_updates=6, valid_every=3)
    run_experiment(whole, data, tmp_path / "cpu", CPU)
    run_experiment(planned(max_updates=3, valid_every=3), data, tmp_path / "moved", first)
    run_experiment(whole, data, tmp_path / "moved", then)
    assert len(losses(tmp_path / "cpu")) == 2
    assert losses(tmp_path / "moved") == pytest.approx(losses(tmp_path / "cpu"), rel=1e-3)


def most_often(waits: list[str]) -> list[str]:
    """The lines at which the host waited as often as at any other: those of every step."""
    counts = Counter(waits)
    return [line for line, count in counts.items() if count == max(counts.values())]


@only_simulated
@pytest.mark.parametrize("preset", ARCHITECTURES)
def test_the_host_waits_once_in_a_step_of_search(preset: str) -> None:
    model, (src, mask) = toy_model(preset).to(GPU), moved(*sources())
    with simulated.counted_waits() as waits:
        found = beam_search(model, src, mask, SEARCH)
    [line] = most_often(waits)
    assert waits.count(line) >= max(len(hypothesis.ids) for [hypothesis] in found)


@only_simulated
def test_the_launches_of_attention_in_search_do_not_depend_on_the_number_of_sentences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nmtkit.ops.attention.PART", 1)
    launched, compute = Counter[int](), simulated.compute
    for sentences in (1, 9):
        given = moved(torch.rand(sentences * 2, 4), torch.rand(sentences, 3, 4), torch.rand(sentences, 3, 5))
        v, mask = moved(torch.rand(4), torch.ones(sentences, 3, dtype=torch.bool))

        def counted(*of_it: Any, sentences: int = sentences) -> Any:
            launched[sentences] += 1
            return compute(*of_it)

        with monkeypatch.context() as patch, torch.inference_mode():
            patch.setattr(simulated, "compute", counted)
            quick_additive(*given, v, mask)
    assert launched[1] == launched[9] > 0


@only_simulated
def test_an_ensemble_waits_once_in_a_step_of_search() -> None:
    members, given = [toy_model(name).to(GPU) for name in ARCHITECTURES], moved(*sources())
    with simulated.counted_waits() as waits:
        beam_search(Ensemble(members, [0] * len(members), [1.0] * len(members), "prob"), *given, SEARCH)
    assert len(most_often(waits)) == 1


@only_simulated
def test_the_host_waits_once_in_a_step_of_sampling() -> None:
    model, (src, mask) = toy_model("rnnsearch").to(GPU), moved(*sources())
    with simulated.counted_waits() as waits:
        sample(model, src, mask, SEARCH, [np.random.default_rng(i) for i in range(len(src))], 1)
    assert len(most_often(waits)) == 1


@only_simulated
@both_precisions
@pytest.mark.parametrize("preset", ARCHITECTURES)
def test_the_host_waits_once_in_an_update(
    preset: str, precision: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except for its batch, which a real GPU gets from pinned memory."""
    monkeypatch.setattr("nmtkit.experiment.run.validate", lambda *_: Validation(3.0, 0.5, 10.0, 30.0, 0.5))
    experiment, counts = simplest(preset_experiment(preset)), []
    for last in (1, 3):
        training = planned(max_updates=last, valid_every=last, precision=precision).training
        training = replace(training, groups=experiment.training.groups)
        with simulated.counted_waits() as waits:
            run_experiment(replace(experiment, training=training), data, tmp_path / str(last), GPU)
        counts.append(Counter(line for line in waits if not line.startswith("data/batches.py")))
    assert list((counts[1] - counts[0]).values()) == [2]


@both_precisions
def test_a_run_in_pieces_equals_a_run_in_one_go(precision: str, data: Path, tmp_path: Path) -> None:
    """With dropout, and with deterministic algorithms, which a GPU does not use by default."""
    torch.use_deterministic_algorithms(True)
    try:
        for name, last in (("pieces", 2), ("pieces", 5), ("whole", 5)):
            run_experiment(small_experiment(max_updates=last, precision=precision), data, tmp_path / name, GPU)
    finally:
        torch.use_deterministic_algorithms(False)
    pieces, whole = everything(tmp_path / "pieces", 5), everything(tmp_path / "whole", 5)
    assert [name for name, tensor in whole.items() if not torch.equal(pieces[name], tensor)] == []


@pytest.mark.skipif(not REAL, reason="it is a GPU's memory that this test makes small")
def test_a_batch_that_the_memory_does_not_hold_is_done_in_parts(data: Path, tmp_path: Path) -> None:
    total = torch.cuda.get_device_properties(GPU).total_memory
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved(GPU)  # by earlier tests: cuBLAS has workspaces for every stream
    # What is left suffices for the model and a few sentences.
    torch.cuda.set_per_process_memory_fraction((kept + 64 * 2**20) / total)
    try:
        run_experiment(planned(max_updates=1, batch_sentences=60), data, tmp_path / "small", GPU)
        model = planned().build(14, 5000).to(GPU)
        wide = torch.randn(100_000, 64, device=GPU)
        assert model.output.weight.is_cuda
        with pytest.raises(RuntimeError) as told:
            wide @ wide.t()
        assert is_full(told.value)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


@pytest.mark.skipif(not REAL, reason="NCCL is for GPUs")
@pytest.mark.parametrize("processes", [1, 2])
def test_torchrun_starts_a_process_for_each_gpu(processes: int, data: Path, tmp_path: Path) -> None:
    if torch.cuda.device_count() < processes:
        pytest.skip(f"this machine has {torch.cuda.device_count()} GPUs")
    config = tmp_path / "small.yaml"
    config.write_text(dump_yaml(to_dict(planned(max_updates=4))))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [*torchrun, "-m", "nmtkit", "train", "-c", config, "-d", data, "-o", tmp_path / "run"]
    path = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    assert f"float32 on cuda ({torch.cuda.get_device_name()}), {processes} x " in done.stderr


def test_the_command_trains_and_translates_as_on_the_cpu(data: Path, tmp_path: Path) -> None:
    run_experiment(planned(max_updates=4), data, tmp_path / "run", GPU)
    lines = [line.strip() for line in (data.parent / "test.xx").read_text().splitlines()]
    ours, theirs = (
        list(nmtkit.load(tmp_path / "run", str(device), precision="float32").answer(lines, Request()))
        for device in (GPU, CPU)
    )
    assert len(ours) == len(theirs) == len(lines)
    for (mine,), (other,) in zip(ours, theirs, strict=True):
        # Of two hypotheses that are as good but for rounding, a device may choose either.
        assert mine.text == other.text or mine.score == pytest.approx(other.score, abs=1e-4)


def test_the_best_number_format_is_chosen() -> None:
    if REAL:
        assert dtype_of("auto", GPU) == (torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32)
    assert dtype_of("float32", GPU) == torch.float32
