"""From memory-mapped ids to padded batches, in an order that depends on seed and epoch alone."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtkit.data.corpus import Corpus
from nmtkit.ops.padding import pad
from nmtkit.symbols import PAD

WINDOW = 100  # batches: sentences are shuffled over the corpus, then sorted by length inside windows of this many


class Batch(NamedTuple):
    """Padded ids with end marks: src (B, S) and tgt (B, T)."""

    src: Tensor
    mask: Tensor  # (B, S) True at real source words
    tgt: Tensor

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.src.to(device), self.mask.to(device), self.tgt.to(device))


def collate(corpus: Corpus, rows: np.ndarray) -> Batch:
    src = pad([corpus.src(int(row)) for row in rows])
    return Batch(src, src != PAD, pad([corpus.tgt(int(row)) for row in rows]))


def within(corpus: Corpus, max_length: int | None) -> np.ndarray:
    """Numbers of the pairs that can be trained on: neither side empty, neither longer than ``max_length``."""
    src, tgt = np.asarray(corpus.src_lengths), np.asarray(corpus.tgt_lengths)
    keep = (src > 0) & (tgt > 0)
    if max_length is not None:
        keep &= (src <= max_length) & (tgt <= max_length)
    return np.flatnonzero(keep)


def cut(lengths: np.ndarray, sentences: int | None, tokens: int | None) -> list[slice]:
    """Consecutive runs of at most ``sentences``, or at most ``tokens`` padded words, and never empty."""
    if sentences is not None:
        return [slice(i, i + sentences) for i in range(0, len(lengths), sentences)]
    assert tokens is not None
    runs, start, longest = [], 0, 0
    for i, length in enumerate(lengths):
        longest = max(longest, int(length))
        if i > start and longest * (i + 1 - start) > tokens:
            runs.append(slice(start, i))
            start, longest = i, int(length)
    return [*runs, slice(start, len(lengths))] if len(lengths) else []


def epoch_batches(
    corpus: Corpus, rows: np.ndarray, *, sentences: int | None, tokens: int | None, seed: int, epoch: int
) -> list[np.ndarray]:
    """One epoch over ``rows``: arrays of sentence numbers, a global batch each, similar lengths together.

    The batch is counted in ``sentences`` or in ``tokens`` (sentences times the longest side, end mark included).
    """
    random = np.random.default_rng((seed, epoch))
    rows = random.permutation(rows)
    src, tgt = np.asarray(corpus.src_lengths)[rows] + 1, np.asarray(corpus.tgt_lengths)[rows] + 1
    longest = np.maximum(src, tgt)
    size = sentences if sentences is not None else max(1, int((tokens or 1) // max(1.0, float(longest.mean()))))
    batches: list[np.ndarray] = []
    for start in range(0, len(rows), WINDOW * size):
        window = slice(start, start + WINDOW * size)
        order = np.lexsort((src[window], tgt[window], longest[window])) + start
        batches += [rows[order[run]] for run in cut(longest[order], sentences, tokens)]
    return [batches[i] for i in random.permutation(len(batches))]


def parts(corpus: Corpus, rows: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """A global batch in pieces of at most ``tokens`` padded words, for gradient accumulation."""
    longest = np.maximum(np.asarray(corpus.src_lengths)[rows], np.asarray(corpus.tgt_lengths)[rows]) + 1
    for run in cut(longest, None, tokens):
        yield rows[run]
