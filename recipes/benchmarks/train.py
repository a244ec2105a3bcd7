"""Training speed and memory of a preset on random sentences, beside what this processor can multiply.

    python recipes/benchmarks/train.py rnnsearch --vocab 10000 10000 --set model.embedding=256 --set model.hidden=512
    python recipes/benchmarks/train.py deep-att --length 30 --updates 1
    python recipes/benchmarks/train.py dtmt1 --config recipes/multi30k/dtmt1.yaml --vocab 8000 8000
    torchrun --nproc-per-node 2 recipes/benchmarks/train.py rnnsearch

Prints the median target words per second (end marks included) of whole updates: batch, forward, backward,
clipping, optimiser. The ceiling is the measured rate of float32 products of this size, and how many words a
second that rate would allow if an update were nothing but its products.
"""

import argparse
import resource
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from nmtkit import config as configs
from nmtkit import experiment
from nmtkit.models.base import count_parameters
from nmtkit.training import distributed, loop, optimizers, precision


class RandomCorpus:
    """Sentences of uniformly drawn words; lengths vary by a fifth around ``length``, like one length bucket."""

    def __init__(self, sentences: int, length: int, src_words: int, tgt_words: int):
        random = np.random.default_rng(1)
        spread = max(1, length // 5)
        self._lengths = random.integers(length - spread, length + spread + 1, (2, sentences))
        self._src = [random.integers(4, src_words, n) for n in self._lengths[0]]
        self._tgt = [random.integers(4, tgt_words, n) for n in self._lengths[1]]

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._lengths[0][rows], self._lengths[1][rows]

    def src(self, i: int) -> np.ndarray:
        return self._src[i]

    def tgt(self, i: int) -> np.ndarray:
        return self._tgt[i]


def seconds(function, times: int) -> list[float]:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--config", type=Path, help="YAML with values other than the preset's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--vocab", type=int, nargs=2, help="source and target words; default: the paper's")
    parser.add_argument("--length", type=int, default=14)
    parser.add_argument("--updates", type=int, default=10)
    args = parser.parse_args()

    values = experiment.load_preset(args.preset)
    for other in (configs.load_yaml(args.config) if args.config else {}, configs.parse_settings(args.set)):
        values = configs.merge(values, other)
    planned = experiment.build_experiment(values, args.preset)
    training = planned.training
    words = args.vocab or (planned.data.src_vocab, planned.data.tgt_vocab)
    size = training.batch_sentences or training.batch_tokens // args.length
    corpus = RandomCorpus(size, args.length, *words)
    model = planned.build(*words)
    optimizers.initialise(model, training.groups)
    optimizer = optimizers.build_optimizer(model, training.optimizer, training.groups)
    dtype = precision.resolve(training.precision, torch.device("cpu"))
    rows = np.lexsort(corpus.lengths(np.arange(size)))

    def update() -> None:
        loop.accumulate(model, training, corpus, rows, torch.device("cpu"), dtype)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    if args.updates > 1:
        seconds(update, 2)
    median = statistics.median(seconds(update, args.updates))
    tokens = int(corpus.lengths(rows)[1].sum()) + size
    tables = ("embedding.", "output.", "encoder.input.position", "decoder.input.position")
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and not name.startswith(tables)]
    per_word = 6 * sum(p.numel() for p in [*matrices, model.output.weight])  # the output layer's may be a table's
    a, b = torch.randn(tokens, 512), torch.randn(512, 1536)
    rate = 2 * a.numel() * b.shape[1] / statistics.median(seconds(lambda: a @ b, 20))
    if distributed.rank():
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{args.preset}: {count_parameters(model) / 1e6:.1f} M parameters, vocabulary {words[0]}/{words[1]}")
    workers = f"{distributed.size()} x {torch.get_num_threads()} threads"
    print(f"{size} sentences, {tokens} target words a batch, {workers}, {dtype}")
    print(f"{tokens / median:,.0f} target words/s ({median:.2f} s an update), peak memory {peak:.1f} GiB")
    print(f"float32 products: {rate / 1e9:,.0f} GFLOP/s; at that rate alone: {rate / per_word:,.0f} target words/s, "
          f"of which these are {tokens / median * per_word / rate:.0%}")  # fmt: skip


if __name__ == "__main__":
    with distributed.processes(torch.device("cpu")):
        main()
