"""Kill a training at random moments, start it again with the same command, and compare it with one left in peace.

    TMPDIR=/dev/shm python -m tests.torture           # 50 kill -9; where fsync costs nothing, it is quicker
    python -m tests.torture --kills 1000 --processes 2  # of torchrun

Checkpoints are written at nearly every update, so that many kills meet one that is being written. Runs are repeated
until there were enough kills; every one has to end with the weights, the optimiser's state, the metrics (but for
speed) and the checkpoints of the undisturbed run.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from nmtkit.config import dump_yaml, to_dict
from nmtkit.training import checkpoint
from tests.training.conftest import make_data, small_experiment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--updates", type=int, default=600, help="of one run")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        print(torture(Path(folder), args.kills, args.updates, args.processes, random.Random(args.seed)))


def torture(folder: Path, kills: int, updates: int, processes: int, choose: random.Random) -> str:
    """What happened; AssertionError if a run did not end as the undisturbed one."""
    data = make_data(folder)
    planned = small_experiment(max_updates=updates, valid_every=25, save_every=0.001, keep_last=2)
    (folder / "small.yaml").write_text(dump_yaml(to_dict(planned)))
    launch = [sys.executable, "-m"]
    if processes > 1:
        launch += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    command = [*launch, "nmtkit", "train", "-c", str(folder / "small.yaml"), "-d", str(data), "-o"]

    began = time.monotonic()
    subprocess.run([*command, str(folder / "peace")], check=True, capture_output=True)
    longest = time.monotonic() - began
    done = runs = lost = resumed = 0
    while done < kills:
        runs += 1
        war = folder / f"war-{runs}"
        while True:
            before = newest(war)
            # In sessions of their own, so that all processes of one can be killed together.
            with subprocess.Popen([*command, str(war)], stderr=subprocess.PIPE, start_new_session=True) as process:
                try:
                    process.wait(choose.uniform(0, longest))
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    done += 1
                assert process.stderr is not None
                shown = process.stderr.read().decode()
            assert process.returncode in (0, -signal.SIGKILL), shown
            assert "Traceback" not in shown, shown
            resumed += "going on from update" in shown
            lost += newest(war) == before
            if process.returncode == 0:
                break
        assert summary(war) == summary(folder / "peace"), f"run {runs} ended otherwise"
    return (
        f"{done} kills in {runs} runs of {updates} updates by {processes} process(es); {resumed} starts went on from a "
        f"checkpoint, {lost} came no further; every run ended as the undisturbed one"
    )


def newest(folder: Path) -> int:
    return max(checkpoint.steps(folder), default=0)


def summary(folder: Path) -> dict[str, Any]:
    """Everything that a run leaves, but for times."""
    found: dict[str, Any] = {"best": (folder / "best").read_text()}
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = [
        {key: value for key, value in record.items() if key not in ("seconds", "tokens_per_second")}
        for record in records
    ]
    for update in checkpoint.steps(folder):
        path = checkpoint.step_folder(folder, update)
        found[path.name] = (path / "model.safetensors").read_bytes()
        saved = torch.load(path / "trainer.pt", weights_only=True)
        saved["progress"]["window"].pop("seconds")
        found[f"{path.name}/progress"] = saved["progress"]
        found[f"{path.name}/optimizer"] = {
            f"{number}.{name}": torch.as_tensor(value).tolist()
            for number, state in saved["optimizer"]["state"].items()
            for name, value in state.items()
        }
    return found


if __name__ == "__main__":
    main()
