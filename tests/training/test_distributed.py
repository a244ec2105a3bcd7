"""Many processes: the same run as one process to rounding, and the end of one is the end of all."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

from nmtkit.config import dump_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.experiment.run import run_experiment
from nmtkit.experiment.schema import Experiment
from nmtkit.folders import ModelFolder
from nmtkit.training import checkpoint, distributed, optimizers
from nmtkit.training.run import dropout_seed
from tests.training.conftest import small_experiment

CPU = torch.device("cpu")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["nmtkit.experiment.run", "sacrebleu"])  # all that they import later


def planned(**training: object) -> Experiment:
    """Without dropout, which differs between processes, and with SGD, which does not amplify rounding errors.

    In float32 unless ``training`` says otherwise, on every processor: most laws here hold to float32 rounding.
    """
    plain = {"valid_every": 4, "optimizer": {"name": "sgd", "lr": 0.5}, "precision": "float32"}
    made = small_experiment(**{**plain, **training})
    return replace(made, model=replace(made.model, dropout=0.0))


def one_of(rank: int, count: int, port: int, folder: Path, data: Path, plan: Experiment) -> None:
    """A process as started by torchrun. A UserError gives exit status 7."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": "2",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
    try:
        with distributed.processes(CPU) as device:
            run_experiment(plan, data, folder, device)
    except UserError as error:
        (folder / f"error.{rank}").write_text(str(error))
        sys.exit(7)


def train(processes: int, folder: Path, data: Path, **training: object) -> list[int | None]:
    """Train with this many processes; returns their exit statuses."""
    return ended(start(processes, folder, data, **training))


def ended(processes: list[BaseProcess]) -> list[int | None]:
    for process in processes:
        process.join(timeout=300)
    return [process.exitcode for process in processes]


def start(processes: int, folder: Path, data: Path, **training: object) -> list[BaseProcess]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    started: list[BaseProcess] = [
        FORKS.Process(target=one_of, args=(rank, processes, port, folder, data, planned(**training)))
        for rank in range(processes)
    ]
    for process in started:
        process.start()
    return started


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The result of the twelve updates."""
    return checkpoint.load_weights(ModelFolder(folder).weights(12))


def assert_same_metrics(folder: Path, expected: Path, rel: float) -> None:
    runs = [[json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
            for path in (folder, expected)]  # fmt: skip
    for record, other in zip(*runs, strict=True):
        assert record.keys() == other.keys()
        for key in record.keys() - {"kind", "seconds", "tokens_per_second"}:
            assert record[key] == pytest.approx(other[key], rel=rel), key


def assert_same_run(folder: Path, expected: Path) -> None:
    assert_same_metrics(folder, expected, rel=1e-4)
    found = weights(folder)
    for name, tensor in weights(expected).items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process."""
    folder = tmp_path_factory.mktemp("alone")
    run_experiment(planned(), data, folder, CPU)
    return folder


def test_several_processes_make_the_same_run_as_one(alone: Path, data: Path, tmp_path: Path) -> None:
    assert train(3, tmp_path, data) == [0, 0, 0]
    assert_same_run(tmp_path, alone)


@pytest.mark.slow
def test_in_bfloat16_several_processes_make_the_same_run_as_one_to_rounding(data: Path, tmp_path: Path) -> None:
    """Each share of a gradient is rounded separately, by at most 2^-8 of its size, before the shares are summed.

    So the way that the weights go turns away by less than 2^-8 of its length. One sentence that is lost in one of
    the twelve updates turns it by more.
    """
    run_experiment(planned(precision="bfloat16"), data, tmp_path / "alone", CPU)
    (tmp_path / "three").mkdir()
    assert train(3, tmp_path / "three", data, precision="bfloat16") == [0, 0, 0]
    assert_same_metrics(tmp_path / "three", tmp_path / "alone", rel=2**-8)
    plan = planned()
    torch.manual_seed(plan.training.seed)
    model = plan.build(14, 14)
    optimizers.initialise(model, plan.training.groups)
    start, alone, three = (
        torch.cat([values[name].flatten() for name in sorted(values)])
        for values in (model.state_dict(), weights(tmp_path / "alone"), weights(tmp_path / "three"))
    )
    assert 0 < (three - alone).norm() < 2**-8 * (alone - start).norm()


@pytest.mark.parametrize(("first", "then"), [(1, 2), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_a_run_is_resumed_with_another_number_of_processes(
    first: int, then: int, alone: Path, data: Path, tmp_path: Path
) -> None:
    train(first, tmp_path, data, max_updates=8)
    assert ModelFolder(tmp_path).updates()[-1] == 8
    train(then, tmp_path, data)
    assert_same_run(tmp_path, alone)


@pytest.mark.slow
def test_more_processes_than_sentences_in_a_batch_make_the_same_run_as_one(data: Path, tmp_path: Path) -> None:
    run_experiment(planned(batch_sentences=1), data, tmp_path / "alone", CPU)
    (tmp_path / "two").mkdir()
    train(2, tmp_path / "two", data, batch_sentences=1)
    assert_same_run(tmp_path / "two", tmp_path / "alone")


def test_gradients_are_summed_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph writes to their addresses."""
    monkeypatch.setattr(distributed, "size", lambda: 2)
    monkeypatch.setattr(distributed, "_combine", lambda tensor, _: tensor.mul_(2))
    model = small_experiment().build(14, 14)
    first, *others = model.parameters()
    for number, parameter in enumerate(others):
        parameter.grad = torch.full_like(parameter, number)
    places = [parameter.grad.data_ptr() for parameter in others if parameter.grad is not None]
    distributed.sum_gradients(model)
    assert first.grad is not None
    assert not first.grad.any()
    found = [parameter.grad for parameter in others if parameter.grad is not None]
    assert [gradient.data_ptr() for gradient in found] == places
    assert all(gradient.eq(2 * number).all() for number, gradient in enumerate(found))


def test_dropout_differs_between_processes_and_between_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    training = small_experiment().training
    drawn = set()
    for rank in range(3):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        for update in range(100):
            # By the random numbers: a CPU's generator may use the same bits of two seeds.
            generator = torch.Generator().manual_seed(dropout_seed(training, update))
            drawn.add(tuple(torch.rand(8, generator=generator).tolist()))
    assert len(drawn) == 300


def test_a_failing_process_ends_all_and_reports_why(data: Path, tmp_path: Path) -> None:
    ModelFolder(tmp_path).write_config(to_dict(planned()))  # of a later version
    (tmp_path / "format_version").write_text("99\n")
    (tmp_path / "checkpoints" / "step-3").mkdir(parents=True)
    assert train(2, tmp_path, data) == [7, 7]
    assert "process 0 of 2: " in (tmp_path / "error.0").read_text()
    assert "format_version is 99" in (tmp_path / "error.0").read_text()
    assert "process 1 of 2: another process has failed" in (tmp_path / "error.1").read_text()


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"WORLD_SIZE": "two", "RANK": "0"}, "WORLD_SIZE is 'two', not a number; start processes with torchrun"),
        ({"WORLD_SIZE": "2"}, "RANK is '', not a number; start processes with torchrun, or unset WORLD_SIZE"),
        ({"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
         "process 1 of 2 cannot reach the others: .*MASTER_ADDR expected"),
    ],
)  # fmt: skip
def test_processes_not_started_by_torchrun_are_an_error(
    environment: dict[str, str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(UserError, match=complaint), distributed.processes(CPU):
        pass


def test_more_processes_than_gpus_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with (
        pytest.raises(UserError, match="2 processes on a machine with 1 GPUs; start one for each"),
        distributed.processes(torch.device("cuda")),
    ):
        pass


def test_processes_with_different_folders_are_an_error(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "highest", lambda number: number + 3)  # another found a later checkpoint
    with pytest.raises(UserError, match="differs between processes; it must be on a disk that all machines"):
        run_experiment(planned(), data, tmp_path, CPU)


@pytest.fixture
def endless(data: Path, tmp_path: Path) -> Iterator[list[BaseProcess]]:
    """Two processes that train endlessly, after they have begun."""
    processes = start(2, tmp_path, data, max_updates=10**9, save_every=1e-9)
    while not ModelFolder(tmp_path).updates():
        assert all(process.is_alive() for process in processes)
        time.sleep(0.05)
    yield processes
    for process in processes:
        process.kill()
        process.join()


def test_a_killed_process_ends_all(endless: list[BaseProcess], tmp_path: Path) -> None:
    endless[1].kill()
    assert ended(endless) == [7, -signal.SIGKILL]
    assert "process 0 of 2: another process has failed or hangs" in (tmp_path / "error.0").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_one_process_stops_all_after_the_same_update(
    number: int, endless: list[BaseProcess], tmp_path: Path
) -> None:
    assert endless[1].pid is not None
    os.kill(endless[1].pid, number)
    assert ended(endless) == [0, 0]
    assert len(ModelFolder(tmp_path).updates()) >= 1


# The command line, and then the names of the threads that are left of it.
COMMAND = """
import os
from pathlib import Path
from nmtkit.cli.main import main

try:
    main()
finally:
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    Path(f"{__file__}.{os.environ['RANK']}").write_text("".join(names))
"""


@pytest.mark.slow
def test_with_torchrun_only_the_first_process_logs_and_no_thread_of_the_group_is_left(
    data: Path, tmp_path: Path
) -> None:
    """Such a thread could abort a process as it ends."""
    config, folder, script = tmp_path / "small.yaml", tmp_path / "run", tmp_path / "script.py"
    config.write_text(dump_yaml(to_dict(planned(max_updates=4))))
    script.write_text(COMMAND)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    command = [*torchrun, "train", "-c", config, "-d", data, "-o", folder]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("update 4  epoch 1  dev cross-entropy") == 1
    assert "float32 on cpu, 2 x " in done.stderr
    assert ModelFolder(folder).updates() == [4]
    for rank in range(2):  # each in a separate file, because two processes would mix their lines
        left = Path(f"{script}.{rank}").read_text()
        assert left or sys.platform != "linux"  # which has the names of threads in /proc
        assert "gloo" not in left
