"""The time to load a corpus and the memory that a process needs for it, by number of pairs.

    python recipes/benchmarks/loading.py                           # 1, 2 and 4 million pairs
    python recipes/benchmarks/loading.py 36000000 --length 30      # WMT'14 English-French; 5 GB of disk

Makes a data folder of random sentences for each; then a new process does the same as nmtkit train before and during its
first updates: opens the corpus, finds the pairs that are short enough, orders the first epoch, and makes 200 batches.
Memory is the peak above that of a process that has only imported nmtkit, without pages of memory-mapped files, which
the system reclaims when needed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from shared import print_table

from nmtkit.data import batches
from nmtkit.data.corpus import Corpus
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.symbols import UNK
from nmtkit.training.run import usable_pairs

WORDS, BATCHES, BLOCK = 30_000, 200, 1_000_000
SIDES = "src", "tgt"


def nmtkit(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "nmtkit", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)  # fmt: skip


def make(folder: Path, pairs: int, length: int) -> None:
    """A data folder with ``pairs`` random training sentences of about ``length`` words, like one of nmtkit vocab except
    for the text, of which one line suffices."""
    data, texts = folder / "data", [folder / f"text.{side}" for side in SIDES]
    for text in texts:
        text.write_text(" ".join(f"w{i}" for i in range(WORDS)) + "\n")
    files = "--train", *texts, "--dev", *texts
    nmtkit("prep", "-s", "en", "-t", "de", "--words", "--max-length", WORDS, "-j", 1, *files, "-o", data)
    nmtkit("vocab", "-d", data, "-j", 1)
    header = json.loads((data / "ids.json").read_text())
    random = np.random.default_rng(1)
    for side in SIDES:
        entry, tokens = header["files"][f"train.{side}"], 0
        with open(data / f"train.{side}.ids", "wb") as ids, open(data / f"train.{side}.offsets", "wb") as offsets:
            np.zeros(1, "<u8").tofile(offsets)
            for start in range(0, pairs, BLOCK):
                ends = tokens + np.cumsum(random.integers(1, 2 * length, min(BLOCK, pairs - start)))
                ends.astype("<u8").tofile(offsets)
                random.integers(UNK + 1, WORDS, int(ends[-1]) - tokens).astype(entry["dtype"]).tofile(ids)
                tokens = int(ends[-1])
        entry.update(lines=pairs, tokens=tokens)
    (data / "ids.json").write_text(json.dumps(header))


def private_memory() -> float:
    """The memory of this process in MiB, without pages of files."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024


def load(data: Path) -> dict[str, float]:
    """Seconds until the first batch, milliseconds per batch after it, and peak MiB, measured in this process."""
    training = build_experiment(load_preset("rnnsearch"), "rnnsearch").training
    seen, done = [private_memory()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            seen.append(private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    corpus = Corpus.open(data, "train")
    rows = usable_pairs(corpus, training.max_length)
    order = batches.epoch_batches(corpus, rows, sentences=80, tokens=None, seed=1, epoch=1)
    batches.collate(corpus, order[0])
    first = time.perf_counter()
    for number in range(1, BATCHES):
        batches.collate(corpus, order[number])
    last = time.perf_counter()
    done.set()
    watcher.join()
    return {"first": first - start, "batch": (last - first) / (BATCHES - 1) * 1000, "peak": max(seen) - seen[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", type=int, default=[1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--length", type=int, default=17, help="mean sentence length [17]")
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)  # for the new process
    args = parser.parse_args()
    if args.data:
        print(json.dumps(load(args.data)))
        return
    rows = []
    for pairs in args.pairs:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), pairs, args.length)
            command = [sys.executable, __file__, "--data", str(Path(folder, "data"))]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        rows.append([f"{pairs:,}", f"{found['first']:.2f}", f"{found['batch']:.2f}", f"{found['peak']:.0f}"])
    print_table(["pairs", "seconds to the first batch", "ms for each batch of 80 after it", "private MiB"], rows)


if __name__ == "__main__":
    main()
