"""Padded batches from memory-mapped ids, in an order that depends only on the seed and the epoch."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmtkit.data.corpus import Corpus
from nmtkit.ops.padding import pad
from nmtkit.symbols import PAD

ROW = np.uint32  # a sentence index, 4 bytes; an epoch has one per sentence
Rows = np.ndarray  # of sentence indices

WINDOW = 100  # batches; sentences are shuffled over the corpus, then sorted by length within windows
COARSE = 4  # words: the lengths of coarse batches are multiples of it
_BLOCK = 1_000_000  # sentences per NumPy operation


class Batch(NamedTuple):
    """Padded ids that end with EOS, src (B, S) and tgt (B, T), with a mask and indices computed on the host.

    Computing the indices on the GPU would make the host wait.
    """

    src: Tensor
    mask: Tensor  # (B, S) False at padding
    tgt: Tensor
    words: Tensor  # (R,) indices of the R non-padding words in the flattened tgt (B * T,)

    @classmethod
    def of(cls, src: Tensor, tgt: Tensor, sentences: int | None = None) -> "Batch":
        """The batch of padded ids src (B, S) and tgt (B, T); only words of the first ``sentences`` count."""
        return cls(src, src != PAD, tgt, (tgt[:sentences] != PAD).flatten().nonzero().squeeze(1))

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device; the copy to a GPU is asynchronous."""
        to_gpu = device.type == "cuda" and self.src.device.type == "cpu"
        # Only copies from pinned memory are asynchronous.
        return Batch(*(x.pin_memory().to(device, non_blocking=True) if to_gpu else x.to(device) for x in self))


def collate(corpus: Corpus, rows: np.ndarray, coarse: bool = False) -> Batch:
    """The batch of the pairs ``rows`` (B,): padded src (B, S) and tgt (B, T), both ending with EOS.

    ``coarse``: with more padding and some empty pairs, so that batches of similar lengths have the same shape.
    """
    step = 1 << max(0, len(rows).bit_length() - 4)  # more than a sixteenth and at most an eighth of the pairs
    empty = [np.empty(0, np.int64)] * (-len(rows) % step) if coarse else []
    src, tgt = ([*(side(int(row)) for row in rows), *empty] for side in (corpus.src, corpus.tgt))
    multiple = COARSE if coarse else 1
    return Batch.of(pad(src, multiple), pad(tgt, multiple), len(rows))


def within(corpus: Corpus, max_length: int | None) -> Rows:
    """Indices of the pairs to train on: those without a side that is empty or longer than ``max_length``."""
    # In blocks, because the lengths of a large corpus take more memory than its indices.
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
    """Consecutive non-empty slices of at most ``sentences``, or at most ``tokens`` words padding included.

    A sentence longer than ``tokens`` is alone in its slice.
    """
    if sentences is not None:
        return [slice(i, min(i + sentences, len(lengths))) for i in range(0, len(lengths), sentences)]
    assert tokens is not None
    runs, start = [], 0
    while start < len(lengths):
        # An upper bound: no sentence longer than the first.
        most = max(1, tokens // int(lengths[start]))
        longest = np.maximum.accumulate(lengths[start : start + most])
        padded = longest * np.arange(1, len(longest) + 1)  # monotonic, so binary search works
        end = start + max(1, int(np.searchsorted(padded, tokens, side="right")))
        runs.append(slice(start, end))
        start = end
    return runs


class Epoch:
    """The batches of one epoch in order, each an array of sentence indices.

    padding: the fraction of padding in the global batches, over both sides.
    """

    def __init__(self, rows: Rows, starts: np.ndarray, order: np.ndarray, padding: float) -> None:
        self._rows, self._starts, self._order = rows, starts, order
        self.padding = padding

    @property
    def pairs(self) -> int:
        """The number of sentence pairs."""
        return len(self._rows)

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
    """The global batches of one epoch over ``rows``, each of similar lengths; one index per pair is kept in memory.

    The batch size is in ``sentences``, or in ``tokens`` (sentences times the longest side, EOS included).
    """
    random = np.random.default_rng((seed, epoch))  # the same order if a run is resumed within an epoch
    rows = random.permutation(rows)
    # Sentences per batch, on average.
    size = sentences if sentences is not None else max(1, int((tokens or 1) // max(1.0, _mean_length(corpus, rows))))
    starts, words, places = [0], 0, 0
    for start in range(0, len(rows), WINDOW * size):
        window = rows[start : start + WINDOW * size]
        src, tgt = corpus.lengths(window)
        longest = np.maximum(src, tgt) + 1
        order = np.lexsort((src, tgt, longest))  # by longest side, then target, then source: least padding
        window[:] = window[order]  # in place: window is a view of ``rows``
        runs = cut(longest[order], sentences, tokens)
        starts += [start + run.stop for run in runs]
        for lengths in (src[order] + 1, tgt[order] + 1):
            words += int(lengths.sum())
            places += sum(int(lengths[run].max()) * (run.stop - run.start) for run in runs)
    # Shuffled again, because batches of similar length are adjacent.
    return Epoch(rows, np.array(starts), random.permutation(len(starts) - 1), 1 - words / max(1, places))


def _mean_length(corpus: Corpus, rows: Rows) -> float:
    """The mean length of the longer side, EOS included."""
    total = 0
    for start in range(0, len(rows), _BLOCK):
        src, tgt = corpus.lengths(rows[start : start + _BLOCK])
        total += int(np.maximum(src, tgt).sum(dtype=np.int64)) + len(src)
    return total / max(1, len(rows))


def parts(corpus: Corpus, rows: Rows, tokens: int, coarse: bool = False) -> Iterator[Rows]:
    """A global batch in micro-batches of at most ``tokens`` padded words, for gradient accumulation.

    ``coarse``: of words padded as by ``collate``.
    """
    src, tgt = corpus.lengths(rows)
    lengths = np.maximum(src, tgt) + 1
    if coarse:
        lengths, tokens = lengths + -lengths % COARSE, tokens * 8 // 9
    for run in cut(lengths, None, tokens):
        yield rows[run]
