"""Training speed by number of threads, alone and beside a process that keeps one core busy.

    python recipes/benchmarks/neighbours.py rnnsearch --config recipes/quickstart/model.yaml --vocab 1000 1000

Target words per second of wall time, with one thread and with one per core. If the second column is far below the
first, threads wait for the one that shares its core; ``nmtkit train`` then begins with fewer.
"""

import os
import subprocess
import sys

from shared import figures, print_table

from nmtkit.machine.processes import available_cores


def main() -> None:
    if not {*sys.argv[1:]} - {"-h", "--help"}:
        print(__doc__)
        return
    rows = []
    for threads in sorted({1, available_cores()}):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        alone = figures("train.py", *sys.argv[1:], "--wall")
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            beside = figures("train.py", *sys.argv[1:], "--wall")
            busy.kill()
        rows.append([str(threads), *(f"{found['words_per_second']:,.0f}" for found in (alone, beside))])
    print_table(["threads", "alone", "beside a busy process"], rows)


if __name__ == "__main__":
    main()
