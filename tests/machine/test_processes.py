import errno
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from nmtkit.errors import UserError
from nmtkit.machine import cgroup, processes
from nmtkit.machine.processes import CAN_FORK, Chunk, Workers, chunks


def slow_square(number: int) -> int:
    time.sleep(0.01 * (number % 3))
    return number * number


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def square_and_process(number: int) -> tuple[int, int]:
    time.sleep(0.02)
    return number * number, os.getpid()


def refuse(number: int) -> int:
    raise UserError(f"file:{number}: wrong")


@pytest.fixture(params=[False, CAN_FORK], ids=["spawned", "forked"])
def fork(request: pytest.FixtureRequest) -> bool:
    """Whether workers are spawned or forked."""
    return bool(request.param)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", None), ("150000 100000", 2), ("50000 100000", 1)])
def test_a_quota_of_processor_time_limits_the_cores(
    quota: str, cores: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(cgroup, "_ROOT", tmp_path)
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert processes.available_cores() == (cores or 64)


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_results_come_in_the_order_of_the_items(count: int, fork: bool) -> None:
    with Workers(count, fork=fork) as workers:
        assert list(workers.map(slow_square, range(20))) == [n * n for n in range(20)]
        assert list(workers.map(slow_square, [])) == []


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_helping_process_is_one_of_the_workers(count: int) -> None:
    with Workers(count, helping=True) as workers:
        done = list(workers.map(square_and_process, range(40)))
    assert [square for square, _ in done] == [n * n for n in range(40)]
    processes = {process for _, process in done}
    assert os.getpid() in processes
    assert len(processes) <= count


def test_a_helping_process_answers_before_more_input_is_read() -> None:
    arrived = 0

    def items() -> Iterator[int]:
        nonlocal arrived
        while arrived < 3:
            arrived += 1
            yield arrived

    with Workers(2, helping=True) as workers:
        for number, square in enumerate(workers.map(slow_square, items(), lambda: False), 1):
            assert (arrived, square) == (number, number * number)


@pytest.mark.parametrize("count", [1, 2])
def test_only_a_few_items_are_read_ahead(count: int) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    with Workers(count) as workers:
        next(iter(workers.map(slow_square, items())))
        assert taken <= 4 * count + 1


@pytest.mark.parametrize("count", [1, 2])
def test_a_user_error_is_raised_unchanged(count: int) -> None:
    with pytest.raises(UserError, match=r"^file:3: wrong$"), Workers(count) as workers:
        list(workers.map(refuse, [3, 4]))


def test_a_killed_worker_is_an_error_not_a_hang(fork: bool) -> None:
    message = "a worker process was killed, perhaps because memory ran out; use fewer processes"
    with pytest.raises(UserError, match=message), Workers(2, fork=fork) as workers:
        list(workers.map(die, range(3)))


LOADED = [0]  # its value in a spawned process


def loaded(number: int) -> int:
    return LOADED[0] + number


@pytest.mark.skipif(not CAN_FORK, reason="fork is not safe here")
def test_a_forked_worker_has_what_was_loaded_and_a_spawned_one_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LOADED", [100])
    for forked, expected in ((True, 100), (False, 0)):
        with Workers(2, fork=forked) as workers:
            assert workers.call(loaded, 3) == expected + 3


def check_interrupted(workers: Workers) -> None:
    """An interrupt does not wait for slow items."""
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), workers:  # noqa: PT012
        results = workers.map(time.sleep, [0.0, 60.0, 60.0])
        next(results)
        raise KeyboardInterrupt
    assert time.monotonic() - start < 30


@pytest.fixture
def not_terminated() -> Iterator[None]:
    """This process handles the signal that ends others."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(not CAN_FORK, reason="fork is not safe here")
@pytest.mark.usefixtures("not_terminated")
@pytest.mark.parametrize("late", [0.0, 0.5])
def test_forked_workers_end_by_a_signal_that_this_process_handles(late: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by one that is sent before they begin to work."""
    work = processes._work

    def start_late(connection: Connection, others: list[Connection]) -> None:
        time.sleep(late * (len(others) - 1))  # the first copy begins immediately
        work(connection, others)

    monkeypatch.setattr(processes, "_work", start_late)
    check_interrupted(Workers(3, fork=True))


def test_an_interrupt_kills_the_workers_immediately() -> None:
    check_interrupted(Workers(2))


class Late(Workers):
    """Sends an item to a process after a second."""

    def call(self, function: Callable[[Any], Any], item: Any) -> Any:
        time.sleep(1 if item else 0)
        return super().call(function, item)


def test_an_item_sent_to_a_killed_worker_is_not_retried_during_shutdown() -> None:
    check_interrupted(Late(2))


def test_there_is_at_least_one_process() -> None:
    with pytest.raises(UserError, match="`jobs` 0: at least one"):
        Workers(0)


def test_if_a_worker_cannot_be_started_the_others_are_killed(fork: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_until_limit(workers: Workers, process: BaseProcess) -> None:
        if len(workers._processes) == 2:
            raise OSError(errno.EMFILE, "Too many open files")
        start(workers, process)

    start = Workers._start
    monkeypatch.setattr(Workers, "_start", start_until_limit)
    workers, message = Workers(9, fork=fork), r"`jobs`: only 2 of 9 processes .* \(Too many open files\); use fewer"
    with pytest.raises(UserError, match=message), workers:
        pass
    assert [process.is_alive() for process in workers._processes] == [False, False]


def test_by_default_there_is_a_process_per_core() -> None:
    assert Workers(None).count >= 1


def test_chunks_have_every_line_and_know_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"1\n2\r\n3")
    assert list(chunks(tmp_path / "text", 2)) == [Chunk(1, [b"1\n", b"2\r\n"]), Chunk(3, [b"3"])]


def test_a_script_may_start_workers_anywhere_and_runs_once(tmp_path: Path, fork: bool) -> None:
    (tmp_path / "script.py").write_text(f"""
from nmtkit.machine.processes import Workers
print("begins")
with Workers(2, fork={fork}) as workers:
    print(*workers.map(len, ["a", "bc"]))
print(__file__)
""")
    command = [sys.executable, tmp_path / "script.py"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (result.stdout, result.stderr) == (f"begins\n1 2\n{tmp_path / 'script.py'}\n", "")


INTERRUPTED = """
import sys
from nmtkit.machine.processes import Workers
from weighing import weigh

with Workers(2, fork=sys.argv[1] == "True") as workers:
    for _ in workers.map(weigh, (bytes(100_000) for _ in range(100_000))):
        print(flush=True)
"""
WEIGHING = """
import time

def weigh(item):
    time.sleep(0.001)
    return len(item)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_leaves_nothing_to_clean_up_however_it_ends(
    tmp_path: Path, number: signal.Signals, fork: bool
) -> None:
    (tmp_path / "busy.py").write_text(INTERRUPTED)
    (tmp_path / "weighing.py").write_text(WEIGHING)
    command = [sys.executable, tmp_path / "busy.py", str(fork)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as program:
        assert program.stdout is not None
        for _ in range(40):
            program.stdout.readline()
        if number == signal.SIGINT:
            os.killpg(program.pid, number)  # as a terminal does
        else:
            program.send_signal(number)
        _, printed = program.communicate()  # until the last process has ended
        assert program.returncode == -number
    assert b"leaked" not in printed


def fail(number: int) -> int:
    return 1 // number


def test_a_bug_in_a_worker_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Workers(2) as workers:
        list(workers.map(fail, [1, 0]))
    assert "return 1 // number" in str(raised.value.__cause__)


def test_a_program_killed_while_workers_start_prints_no_traceback_of_theirs() -> None:
    code = """
import multiprocessing.util, os, signal, sys
from nmtkit.machine.processes import Workers

spawn = multiprocessing.util.spawnv_passfds
def spawned(*arguments):
    process = spawn(*arguments)
    if b"resource_tracker" not in b"".join(map(os.fsencode, arguments[1])):
        os.kill(os.getpid(), signal.SIGTERM)  # before the new process has been told what it is
    return process
multiprocessing.util.spawnv_passfds = spawned
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with Workers(2):
    print("started")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (143, "", "")


@pytest.mark.parametrize("enabled", [True, False])
def test_loading_leaves_the_garbage_collector_as_the_caller_had_it(enabled: bool) -> None:
    try:
        (gc.enable if enabled else gc.disable)()
        with processes.loading():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
