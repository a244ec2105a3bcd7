"""Resident memory of a command and all its child processes while it runs, to see whether it stays constant.

    python recipes/benchmarks/resident.py nmtkit train --model rnnsearch --precision bfloat16
    python recipes/benchmarks/resident.py --every 60 nmtkit translate -i many-lines.txt -o translated.txt

Lines are printed on stderr, among those of the command; shared memory is counted once. Linux only: it reads /proc.
"""

import argparse
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


def parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return found


def resident(process: int, started_by: dict[int, int]) -> float:
    """The memory in MB of a process and its descendants; a page shared by several processes counts once."""
    total = sum(resident(child, started_by) for child, parent in started_by.items() if parent == process)
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total += sum(float(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=10, metavar="SECONDS", help="between lines [10]")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    started = time.monotonic()
    with subprocess.Popen(args.command) as process:
        while True:
            try:
                return process.wait(args.every)
            except subprocess.TimeoutExpired:
                now = time.monotonic() - started
                print(f"{now:7.0f} s {resident(process.pid, parents()):7,.0f} MB", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
