"""Training speed and memory of a preset on random sentences, beside what this processor can multiply.

    python recipes/benchmark/train.py rnnsearch --vocab 10000 10000 --set model.embedding=256 --set model.hidden=512
    python recipes/benchmark/train.py deep-att --length 30 --updates 1

Prints the median target words per second (end marks included) of whole updates: batch, forward, backward,
clipping, optimiser. The ceiling is the measured rate of float32 products of this size, and how many words a
second that rate would allow if an update were nothing but its products.
"""

import argparse
import resource
import statistics
import time

import numpy as np
import torch

from nmtkit import config as configs
from nmtkit import experiment
from nmtkit.models.base import count_parameters
from nmtkit.training import loop, optimizers, precision


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
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--vocab", type=int, nargs=2, help="source and target words; default: the paper's")
    parser.add_argument("--length", type=int, default=14)
    parser.add_argument("--updates", type=int, default=10)
    args = parser.parse_args()

    values = configs.merge(experiment.load_preset(args.preset), configs.parse_settings(args.set))
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
    per_word = 6 * sum(p.numel() for n, p in model.named_parameters() if "embedding" not in n and p.ndim == 2)
    a, b = torch.randn(tokens, 512), torch.randn(512, 1536)
    rate = 2 * a.numel() * b.shape[1] / statistics.median(seconds(lambda: a @ b, 20))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{args.preset}: {count_parameters(model) / 1e6:.1f} M parameters, vocabulary {words[0]}/{words[1]}")
    print(f"{size} sentences, {tokens} target words a batch, {torch.get_num_threads()} threads, {dtype}")
    print(f"{tokens / median:,.0f} target words/s ({median:.2f} s an update), peak memory {peak:.1f} GiB")
    print(f"float32 products: {rate / 1e9:,.0f} GFLOP/s; at that rate alone: {rate / per_word:,.0f} target words/s")


if __name__ == "__main__":
    main()
