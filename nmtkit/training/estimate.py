"""Measurements before training: memory and speed of a model, and the smallest batch size with full throughput."""

import logging
import time
import timeit
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtkit.data import batches
from nmtkit.machine.memory import free_memory
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.ops.cross_entropy import chunk_rows
from nmtkit.symbols import UNK
from nmtkit.training import distributed
from nmtkit.training.gradient import accumulate, clip, micro_batches, read
from nmtkit.training.graphs import graphs_for
from nmtkit.training.loss import summed_loss
from nmtkit.training.optimizers import build_optimizer, set_rates
from nmtkit.training.run import Run, sample_pairs
from nmtkit.training.settings import Training

log = logging.getLogger(__name__)

SENTENCES, LENGTH = 16, 25  # of the timed update
FLOAT = 4  # bytes

FIRST = 256  # tokens: the smallest budget
GAIN = 1.05  # speedup that justifies a budget twice as large
SAMPLE = 20_000  # pairs on which budgets are measured


class Estimate(NamedTuple):
    """Memory in bytes, and target words per second on this device in small batches; larger ones are faster."""

    weights: int
    optimizer: int  # gradients and the optimizer's state
    activations: int  # of a micro-batch of training.pass_tokens
    words_per_second: float


def estimate(small: Seq2Seq, training: Training, parameters: int, tgt_words: int, device: torch.device) -> Estimate:
    """The cost of training a model, measured on small updates of ``small``, the same model with a tiny vocabulary.

    parameters, tgt_words: the number of parameters and the size of the target vocabulary of the real model. The time of
    its output layer is computed from the measured speed of matrix products, and added.
    """
    small = small.to(device).train()
    optimizer = build_optimizer(small, training.optimizer, training.groups)
    words = len(small.output.weight)
    src, tgt = (torch.randint(UNK + 1, words, (SENTENCES, LENGTH), device=device) for _ in range(2))
    batch = batches.Batch.of(src, tgt)

    def update() -> None:
        loss, _ = summed_loss(small, batch, 0.0, torch.float32)
        loss.backward()
        optimizer.step()

    saved = _saved_bytes(update, small)
    seconds = _seconds(update, device)
    width = small.output.weight.shape[1]
    a, b = torch.ones(SENTENCES * LENGTH, width, device=device), torch.ones(width, 4096, device=device)
    rate = a.shape[0] * b.numel() / _seconds(lambda: a @ b, device)  # multiplications per second
    seconds += 3 * src.numel() * width * (tgt_words - words) / rate  # forward, and two products backward
    state = sum(t.numel() for s in optimizer.state.values() for t in s.values() if isinstance(t, Tensor) and t.dim())
    share = state / count_parameters(small)  # 2 for Adam
    return Estimate(
        FLOAT * parameters,
        int(FLOAT * parameters * (1 + share)),
        saved * training.pass_tokens // src.numel() + FLOAT * chunk_rows(tgt_words) * tgt_words,
        src.numel() / seconds,
    )


def busy_budget(run: Run) -> int:
    """The smallest ``training.batch_tokens`` with full throughput: twice as many give less than 5 % more words/s.

    Measured on updates with a learning rate of 0, which do not change the model, of pairs of at least median length.
    Budgets are limited by free memory and by one micro-batch of ``pass_tokens`` per process. If memory runs out, the
    result is the previous budget.
    """
    run = replace(run, graphs=graphs_for(run.device))  # of these batches, freed afterwards
    model, settings, corpus = run.model, run.settings, run.corpus
    optimizer = build_optimizer(model, settings.optimizer, settings.groups)
    set_rates(optimizer, 0.0)
    pairs = sample_pairs(corpus, settings.max_length, SAMPLE)
    pairs = pairs[np.argsort(np.maximum(*corpus.lengths(pairs)), kind="stable")][len(pairs) // 2 :]
    budget, best = FIRST, 0.0
    while True:
        rows = next(batches.parts(corpus, pairs, budget))
        words = halvings = 0

        def update(rows: np.ndarray = rows) -> None:
            nonlocal words, halvings
            sums = accumulate(run, rows, micro_batches(run, rows))
            gradient = read(sums, clip(model, settings.clip_norm))
            words, halvings = gradient.tokens, gradient.halvings
            optimizer.step()

        saved = _saved_bytes(update, model)
        microseconds = distributed.highest(int(1e6 * _seconds(update, run.device)) + 1)  # the slowest process counts
        speed = words / microseconds * 1e6
        log.info("batches of %s tokens: %s target words/s", f"{budget:,}", f"{speed:,.0f}")
        if halvings or speed < GAIN * best:
            return budget // 2
        full = distributed.highest(2 * saved > free_memory(run.device))
        if full or 2 * budget > settings.pass_tokens * distributed.size() or len(rows) == len(pairs):
            return budget
        budget, best = 2 * budget, speed


def _saved_bytes(update: Callable[[], object], model: Seq2Seq) -> int:
    """The bytes that an update saves for its backward pass, without parameters."""
    saved = {p.data_ptr(): 0 for p in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved.setdefault(storage.data_ptr(), storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        update()
    return sum(saved.values())


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    """The minimum of three measurements; with one thread, of its CPU time, which other processes do not affect."""
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter

    def finished() -> None:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return min(timeit.repeat(finished, timer=clock, number=1, repeat=3))
