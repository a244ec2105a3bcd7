"""What training a model will cost, before it is trained: measured on one small update without its vocabulary."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.ops.cross_entropy import chunk_rows, linear_cross_entropy
from nmtkit.symbols import UNK
from nmtkit.training.loop import Training
from nmtkit.training.optimizers import build_optimizer

SENTENCES, LENGTH = 16, 25  # of the update that is timed
FLOAT = 4  # bytes


class Estimate(NamedTuple):
    """Bytes, and target words per second on this device in small batches; larger ones are faster."""

    weights: int
    optimizer: int  # gradients and the optimiser's state
    activations: int  # of one pass of training.pass_tokens
    words_per_second: float


def estimate(small: Seq2Seq, training: Training, parameters: int, tgt_words: int, device: torch.device) -> Estimate:
    """small: the model with a vocabulary of a few words; the real one has so many ``parameters`` and target words.

    The output layer's products, which a small vocabulary leaves out, are added at the measured speed of products.
    """
    small = small.to(device).train()
    optimizer = build_optimizer(small, training.optimizer, training.groups)
    words = len(small.output.weight)
    src, tgt = (torch.randint(UNK + 1, words, (SENTENCES, LENGTH), device=device) for _ in range(2))
    saved: dict[int, int] = {p.data_ptr(): 0 for p in small.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved.setdefault(storage.data_ptr(), storage.nbytes())
        return tensor

    def update() -> None:
        hidden = small(src, src != 0, tgt).flatten(0, 1)
        loss, _ = linear_cross_entropy(hidden, small.output.weight, small.output.bias, tgt.flatten())
        loss.backward()
        optimizer.step()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        update()
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
        sum(saved.values()) * training.pass_tokens // src.numel() + 3 * FLOAT * chunk_rows(tgt_words) * tgt_words,
        src.numel() / seconds,
    )


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    """The least of a few times: what it can do."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times)
