"""Training speed and memory of a preset on random sentences, compared with the speed of matrix products.

    python recipes/benchmarks/train.py rnnsearch --vocab 10000 10000 --set model.embedding=256 --set model.hidden=512
    python recipes/benchmarks/train.py deep-att --length 30 --updates 1
    python recipes/benchmarks/train.py dtmt1-small --vocab 8000 8000
    python recipes/benchmarks/train.py rnnsearch --device cuda
    torchrun --nproc-per-node 2 recipes/benchmarks/train.py rnnsearch

Prints the median target words per second (EOS included) of whole updates: batch, forward, backward, clipping,
optimizer. On a GPU, the peak is that of its memory. The ceiling is the measured rate of products of this size in the
run's precision, and the words per second if an update consisted only of its products.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from shared import RandomCorpus, clock_of, options, peak_memory, plan, product_rate, seconds

from nmtkit.folders import ModelFolder
from nmtkit.machine import memory
from nmtkit.models.base import count_parameters
from nmtkit.ops.precision import dtype_of
from nmtkit.training import distributed, optimizers
from nmtkit.training.gradient import accumulate, clip, micro_batches, read
from nmtkit.training.progress import Progress
from nmtkit.training.run import Run


def main(args: argparse.Namespace, device: torch.device) -> None:
    memory.bound_caches()  # as in nmtkit train
    planned, words = plan(args)
    training = planned.training
    size = training.batch_sentences or training.batch_tokens // args.length
    corpus = RandomCorpus(size, args.length, *words)
    model = planned.build(*words)
    optimizers.initialise(model, training.groups)
    model.to(device)
    optimizer = optimizers.build_optimizer(model, training.optimizer, training.groups)
    dtype = dtype_of(training.precision, device)
    run = Run(model, optimizer, training, corpus, ModelFolder(Path()), Progress(), dtype)
    rows = np.lexsort(corpus.lengths(np.arange(size)))

    def update() -> None:
        sums = accumulate(run, rows, micro_batches(run, rows))
        read(sums, clip(model, 1.0))
        optimizer.step()

    if args.updates > 1:
        seconds(update, 2)
    clock = time.perf_counter if args.wall else clock_of(device)
    median = statistics.median(seconds(update, args.updates, clock))
    peak = peak_memory() if device.type == "cpu" else torch.cuda.max_memory_allocated(device) / 2**30
    tokens = int(corpus.lengths(rows)[1].sum()) + size
    tables = ("embedding.", "output.", "encoder.input.position", "decoder.input.position")
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and not name.startswith(tables)]
    per_word = 6 * sum(p.numel() for p in [*matrices, model.output.weight])  # the output layer's may be a table's
    rate = product_rate(tokens, 512, 1536, dtype, device)
    if distributed.rank():
        return
    found = {
        "parameters": count_parameters(model),
        "words_per_second": tokens / median,
        "share": tokens / median * per_word / rate,
        "peak_memory": peak,
    }
    if args.json:
        print(json.dumps(found))
        return
    print(f"{args.preset}: {found['parameters'] / 1e6:.1f} M parameters, vocabulary {words[0]}/{words[1]}")
    workers = f"{distributed.size()} x {torch.get_num_threads()} threads"
    print(f"{size} sentences, {tokens} target words a batch, {workers}, {dtype}")
    print(f"{tokens / median:,.0f} target words/s ({median:.2f} s an update), peak memory {peak:.2f} GiB")
    print(f"products: {rate / 1e9:,.0f} GFLOP/s; at that rate alone: {rate / per_word:,.0f} target words/s, "
          f"of which these are {found['share']:.0%}")  # fmt: skip


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--updates", type=int, default=10, help="timed updates, after 2 to warm up; 1: no warm-up")
    parser.add_argument("--wall", action="store_true", help="use wall time also for a single thread")
    parser.add_argument("--device", type=torch.device, default="cpu", help="cpu or cuda [cpu]")
    args = parser.parse_args()
    with distributed.processes(args.device) as device:
        main(args, device)
