"""Kill a training at random moments, start it again with the same command, and compare it with an undisturbed one.

    python -m tests.torture                             # 50 kill -9
    python -m tests.torture --kills 1000 --processes 2  # as torchrun starts them, all killed at once

Checkpoints are written several times a second, so that kills meet one that is being written. A quarter of the kills
come at any moment, the others after some updates. Only a kill after a new checkpoint counts, and runs are repeated
until there were enough of them; every run has to end with the weights, the optimizer's state, the metrics (but for
speed) and the checkpoints of the undisturbed run. TMPDIR=/dev/shm makes it quicker: there fsync costs nothing.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import socket
import sys
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from nmtkit.config import dump_yaml, to_dict
from nmtkit.folders import ModelFolder
from tests.training.conftest import make_data, small_experiment

FORKS = multiprocessing.get_context("forkserver")  # which imports torch once
FORKS.set_forkserver_preload(["nmtkit.cli.main", "nmtkit.experiment", "nmtkit.translation.loading"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--updates", type=int, default=200, help="of one run")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        print(torture(Path(folder), args.kills, args.updates, args.processes, random.Random(args.seed)))


def torture(folder: Path, kills: int, updates: int, processes: int, choose: random.Random) -> str:
    """A description of the runs; AssertionError if one did not end like the undisturbed one."""
    data = make_data(folder)
    planned = small_experiment(max_updates=updates, valid_every=20, save_every=0.003, keep_last=2)
    (folder / "small.yaml").write_text(dump_yaml(to_dict(planned)))
    arguments = ["train", "-c", str(folder / "small.yaml"), "-d", str(data), "-o"]

    began = time.monotonic()
    assert ended(started([*arguments, str(folder / "peace")], folder / "shown", processes), None) == [0] * processes
    longest = time.monotonic() - began
    counted = others = runs = resumed = 0
    while counted < kills:
        runs += 1
        war, codes = folder / f"war-{runs}", [-1]
        while codes != [0] * processes:
            before = newest(war)
            running, seconds = started([*arguments, str(war)], folder / "shown", processes), choose.uniform(0, longest)
            if choose.random() < 0.75:
                wanted, seconds = before + choose.randint(1, updates // 5), choose.uniform(0, 0.2)
                while newest(war) < wanted and running[0].is_alive():
                    time.sleep(0.001)
            codes = ended(running, seconds)
            shown = (folder / "shown").read_text()
            assert set(codes) <= {0, -signal.SIGKILL}, shown
            assert "Traceback" not in shown, shown
            if -signal.SIGKILL in codes:
                counted, others = (counted + 1, others) if newest(war) > before else (counted, others + 1)
            resumed += "resuming from update" in shown
        assert summary(war) == summary(folder / "peace"), f"run {runs} ended otherwise"
    return (
        f"{counted} kills after a new checkpoint and {others} others in {runs} runs of {updates} updates with "
        f"{processes} process(es); {resumed} starts went on from a checkpoint; every run ended as the undisturbed one"
    )


def started(arguments: list[str], shown: Path, count: int) -> list[BaseProcess]:
    """The command line in ``count`` new processes, whose output goes to a file."""
    shown.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    common = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(port)}  # fmt: skip
    made = [
        FORKS.Process(target=command_line, args=(arguments, shown, {**common, "RANK": str(i), "LOCAL_RANK": str(i)}))
        for i in range(count)
    ]
    for process in made:
        process.start()
    return made


def ended(processes: list[BaseProcess], seconds: float | None) -> list[int | None]:
    """Exit statuses, after a kill -9 of all if they take longer."""
    processes[0].join(seconds)
    if seconds is not None and processes[0].is_alive():
        for process in processes:
            process.kill()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def command_line(arguments: list[str], shown: Path, environment: dict[str, str]) -> None:
    """What ``python -m nmtkit`` does, without the time it takes to import torch."""
    from nmtkit.cli.main import main

    with shown.open("a") as file:
        os.dup2(file.fileno(), 2)
    os.environ |= environment
    torch.set_num_threads(1)
    sys.argv = ["nmtkit", *arguments]
    main()


def newest(folder: Path) -> int:
    return max(ModelFolder(folder).updates(), default=0)


def summary(folder: Path) -> dict[str, Any]:
    """All files of a run, without times."""
    found: dict[str, Any] = {"best": (folder / "best").read_text()}
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = [
        {key: value for key, value in record.items() if key not in ("seconds", "tokens_per_second")}
        for record in records
    ]
    for update in ModelFolder(folder).updates():
        path = ModelFolder(folder).checkpoint(update)
        found[path.name] = (path / "model.safetensors").read_bytes()
        saved = torch.load(path / "trainer.pt", weights_only=True)
        saved["progress"]["window"].pop("seconds")
        found[f"{path.name}/progress"] = saved["progress"]
        if (path / "validated.pt").exists():
            found[f"{path.name}/validated"] = torch.load(path / "validated.pt", weights_only=True)
        found[f"{path.name}/optimizer"] = {
            f"{number}.{name}": torch.as_tensor(value).tolist()
            for number, state in saved["optimizer"]["state"].items()
            for name, value in state.items()
        }
    return found


if __name__ == "__main__":
    main()
