"""Shared by the scripts in this folder: experiments from the command line, random sentences, clocks and memory."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nmtkit import config as configs
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.symbols import UNK

HERE = Path(__file__).parent

# The CPU time of a single thread is not affected by other processes. Several threads need wall time.
CLOCK = time.process_time if torch.get_num_threads() == 1 and "WORLD_SIZE" not in os.environ else time.perf_counter


class RandomCorpus:
    """Sentences of uniformly sampled words; lengths vary by a fifth around ``length``, like one length bucket."""

    def __init__(self, sentences: int, length: int, src_words: int, tgt_words: int):
        random = np.random.default_rng(1)
        spread = max(1, length // 5)
        self._lengths = random.integers(length - spread, length + spread + 1, (2, sentences))
        self._src = [random.integers(UNK + 1, src_words, n) for n in self._lengths[0]]
        self._tgt = [random.integers(UNK + 1, tgt_words, n) for n in self._lengths[1]]

    def __len__(self) -> int:
        return len(self._src)

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._lengths[0][rows], self._lengths[1][rows]

    def src(self, i: int) -> np.ndarray:
        return self._src[i]

    def tgt(self, i: int) -> np.ndarray:
        return self._tgt[i]


def options(description: str | None) -> argparse.ArgumentParser:
    """A parser for a preset, changes of its values, and the size of the random sentences."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?")
    parser.add_argument("--config", type=Path, help="YAML with changes of the preset's values")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--vocab", type=int, nargs=2, help="vocabulary sizes; default: the paper's")
    parser.add_argument("--length", type=int, default=14, help="of the random sentences [14]")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser


def plan(args: argparse.Namespace) -> tuple[Experiment, tuple[int, int]]:
    """The experiment given on the command line, and its vocabulary sizes."""
    values = load_preset(args.preset)
    for other in (configs.load_yaml(args.config) if args.config else {}, configs.parse_settings("set", args.set)):
        values = configs.merge(values, other)
    planned = build_experiment(values, args.preset)
    return planned, tuple(args.vocab or (planned.data.src_vocab, planned.data.tgt_vocab))


def figures(script: str, *arguments: str) -> dict[str, Any]:
    """The output of a script in this folder with --json, run in a new process, so that its peak memory is its own."""
    command = [sys.executable, str(HERE / script), *arguments, "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def seconds(function: Callable[[], object], times: int, clock: Callable[[], float] = CLOCK) -> list[float]:
    found = []
    for _ in range(times):
        start = clock()
        function()
        found.append(clock() - start)
    return found


def clock_of(device: torch.device) -> Callable[[], float]:
    """A clock for ``seconds``: on a GPU, wall time after synchronisation."""
    if device.type == "cpu":
        return CLOCK

    def clock() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return clock


def product_rate(rows: int, inner: int, columns: int, dtype: torch.dtype, device: torch.device) -> float:
    """The median floating point operations per second of a product (rows, inner) x (inner, columns)."""
    a, b = (torch.randn(shape, device=device).to(dtype) for shape in ((rows, inner), (inner, columns)))
    return 2 * rows * inner * columns / statistics.median(seconds(lambda: a @ b, 22, clock_of(device))[2:])


def peak_memory() -> float:
    """The peak memory of this process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table, ready for a README."""
    for row in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(row)} |", flush=True)
