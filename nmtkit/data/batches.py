"""Padded batches from memory-mapped ids, in an order that depends only on the seed and the epoch."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtkit.data.corpus import Corpus
from nmtkit.ops.padding import pad
from nmtkit.symbols import PAD

ROW = np.uint32  # the number of a sentence: 4 bytes, because an order holds one for each
Rows = np.ndarray  # of such numbers

WINDOW = 100  # batches: sentences are shuffled over the corpus, then sorted by length inside windows of this many
_BLOCK = 1_000_000  # sentences that are looked at together


class Batch(NamedTuple):
    """Padded ids that end with EOS, src (B, S) and tgt (B, T), and what the host computes from them.

    A GPU could compute it later, but the host would have to wait until the GPU has done all its work.
    """

    src: Tensor
    mask: Tensor  # (B, S) True at real source words
    tgt: Tensor
    words: Tensor  # (R,) the places of the R real words among the B * T of tgt

    @classmethod
    def of(cls, src: Tensor, tgt: Tensor) -> "Batch":
        """The batch of padded ids src (B, S) and tgt (B, T)."""
        return cls(src, src != PAD, tgt, (tgt != PAD).flatten().nonzero().squeeze(1))

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device; on a GPU it arrives while the host goes on."""
        beside = device.type == "cuda" and self.src.device.type == "cpu"
        # Only from pinned memory is a copy made beside the host's work.
        return Batch(*(x.pin_memory().to(device, non_blocking=True) if beside else x.to(device) for x in self))


def collate(corpus: Corpus, rows: np.ndarray) -> Batch:
    """The pairs with the numbers ``rows`` (B,), padded: src (B, S) and tgt (B, T), both with end marks."""
    # ``pad`` adds the end marks, which the corpus does not hold.
    return Batch.of(*(pad([side(int(row)) for row in rows]) for side in (corpus.src, corpus.tgt)))


def within(corpus: Corpus, max_length: int | None) -> Rows:
    """Numbers of the pairs that can be trained on: neither side empty, neither longer than ``max_length``."""
    # In blocks: the lengths of 36 million pairs at once would take far more memory than their numbers.
    kept = [np.empty(0, ROW)]
    for start in range(0, len(corpus), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(corpus)), dtype=ROW)
        src, tgt = corpus.lengths(rows)
        keep = (src > 0) & (tgt > 0)
        if max_length is not None:
            keep &= (src <= max_length) & (tgt <= max_length)
        kept.append(rows[keep])
    return np.concatenate(kept)


def cut(lengths: np.ndarray, sentences: int | None, tokens: int | None) -> list[slice]:
    """Consecutive runs of at most ``sentences``, or at most ``tokens`` padded words, and never empty."""
    if sentences is not None:
        return [slice(i, min(i + sentences, len(lengths))) for i in range(0, len(lengths), sentences)]
    assert tokens is not None
    runs, start = [], 0
    while start < len(lengths):
        # No run has more sentences than would fit if none were longer than its first one.
        most = max(1, tokens // int(lengths[start]))
        longest = np.maximum.accumulate(lengths[start : start + most])
        # The padded size of a run grows with each sentence, so that the longest run that fits can be searched for.
        padded = longest * np.arange(1, len(longest) + 1)
        # A sentence that is longer than the budget by itself is a run of one.
        end = start + max(1, int(np.searchsorted(padded, tokens, side="right")))
        runs.append(slice(start, end))
        start = end
    return runs


class Epoch:
    """The batches of one epoch in their order; each is an array of sentence numbers.

    ``padding``: the share of padding in the batches, over both sides and before they are split.
    """

    def __init__(self, rows: Rows, starts: np.ndarray, order: np.ndarray, padding: float) -> None:
        self._rows, self._starts, self._order = rows, starts, order
        self.padding = padding

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, number: int) -> Rows:
        batch = self._order[number]
        return self._rows[self._starts[batch] : self._starts[batch + 1]]

    def __iter__(self) -> Iterator[Rows]:
        return map(self.__getitem__, range(len(self)))


def epoch_batches(
    corpus: Corpus, rows: Rows, *, sentences: int | None, tokens: int | None, seed: int, epoch: int
) -> Epoch:
    """One epoch over ``rows`` in global batches of similar lengths; memory holds one number for each pair.

    The batch size is counted in ``sentences`` or in ``tokens`` (sentences times the longest side, EOS included).
    """
    random = np.random.default_rng((seed, epoch))  # so that a run resumed within an epoch draws the same order
    rows = random.permutation(rows)
    # Windows of about as many batches, whichever way batches are counted.
    size = sentences if sentences is not None else max(1, int((tokens or 1) // max(1.0, _mean_length(corpus, rows))))
    starts, words, places = [0], 0, 0
    for start in range(0, len(rows), WINDOW * size):
        window = rows[start : start + WINDOW * size]
        src, tgt = corpus.lengths(window)
        longest = np.maximum(src, tgt) + 1
        order = np.lexsort((src, tgt, longest))  # by the longest side, then target, then source: least padding
        # In place, because a window is a view of ``rows``: no second order of the whole corpus is held.
        window[:] = window[order]
        runs = cut(longest[order], sentences, tokens)
        starts += [start + run.stop for run in runs]
        for lengths in (src[order] + 1, tgt[order] + 1):
            words += int(lengths.sum())
            places += sum(int(lengths[run].max()) * (run.stop - run.start) for run in runs)
    # Batches of similar length stand together in a window; in this order they would not come at random.
    return Epoch(rows, np.array(starts), random.permutation(len(starts) - 1), 1 - words / max(1, places))


def _mean_length(corpus: Corpus, rows: Rows) -> float:
    """The mean length of the longer sides, EOS included."""
    total = 0
    for start in range(0, len(rows), _BLOCK):
        src, tgt = corpus.lengths(rows[start : start + _BLOCK])
        total += int(np.maximum(src, tgt).sum(dtype=np.int64)) + len(src)
    return total / max(1, len(rows))


def parts(corpus: Corpus, rows: Rows, tokens: int) -> Iterator[Rows]:
    """A global batch in pieces of at most ``tokens`` padded words, for gradient accumulation."""
    src, tgt = corpus.lengths(rows)
    for run in cut(np.maximum(src, tgt) + 1, None, tokens):
        yield rows[run]
