"""Batches: every pair once per epoch, in an order given by seed and epoch, within the budget, padded correctly."""

import tracemalloc

import numpy as np
import pytest
import torch

from nmtkit.data import batches
from nmtkit.data.batches import Batch, collate, cut, epoch_batches, parts, within
from nmtkit.symbols import EOS, PAD


class Pairs:
    """A corpus in memory whose sentence i repeats the id 4 + i."""

    def __init__(self, src_lengths: list[int], tgt_lengths: list[int]):
        self.src_lengths, self.tgt_lengths = np.array(src_lengths), np.array(tgt_lengths)

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.src_lengths[rows], self.tgt_lengths[rows]

    def src(self, i: int) -> np.ndarray:
        return np.full(self.src_lengths[i], 4 + i, dtype=np.uint16)

    def tgt(self, i: int) -> np.ndarray:
        return np.full(self.tgt_lengths[i], 4 + i, dtype=np.uint16)

    def __len__(self) -> int:
        return len(self.src_lengths)


def random_pairs(size: int = 500) -> Pairs:
    random = np.random.default_rng(0)
    src = random.integers(1, 40, size)
    return Pairs(src.tolist(), np.maximum(1, src + random.integers(-5, 6, size)).tolist())


def longest(corpus: Pairs, rows: np.ndarray) -> np.ndarray:
    """The longer side of each pair, EOS included."""
    return np.maximum(corpus.src_lengths, corpus.tgt_lengths)[rows] + 1


def batches_of(
    corpus: Pairs, sentences: int | None = None, tokens: int | None = None, seed: int = 1, epoch: int = 0
) -> list[np.ndarray]:
    rows = np.arange(len(corpus))
    return list(epoch_batches(corpus, rows, sentences=sentences, tokens=tokens, seed=seed, epoch=epoch))


SIZES = [(16, None), (None, 300), (1, None), (None, 1), (10**6, None), (None, 10**9)]
counted = pytest.mark.parametrize(("sentences", "tokens"), SIZES)


@counted
def test_an_epoch_has_every_pair_exactly_once(sentences: int | None, tokens: int | None) -> None:
    found = batches_of(random_pairs(), sentences, tokens)
    assert sorted(np.concatenate(found).tolist()) == list(range(500))
    assert all(len(rows) for rows in found)


@counted
def test_the_order_depends_on_seed_and_epoch_alone(sentences: int | None, tokens: int | None) -> None:
    def order(seed: int, number: int) -> list[list[int]]:
        return [rows.tolist() for rows in batches_of(random_pairs(), sentences, tokens, seed, number)]

    first = order(1, 0)
    np.random.default_rng().random(100)
    torch.rand(10)
    assert order(1, 0) == first
    if len(first) > 1:
        assert order(1, 1) != first
        assert order(2, 0) != first


@pytest.mark.parametrize("tokens", [1, 50, 300, 5000])
def test_a_batch_holds_its_tokens_or_a_single_pair(tokens: int) -> None:
    corpus = random_pairs()
    for rows in batches_of(corpus, tokens=tokens):
        assert len(rows) == 1 or longest(corpus, rows).max() * len(rows) <= tokens


def test_a_batch_has_the_number_of_sentences_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "WINDOW", 5)
    sizes = sorted(len(rows) for rows in batches_of(random_pairs(), sentences=16))
    assert sizes == [500 % 16] + [16] * (500 // 16)


def test_sentences_of_a_batch_are_of_similar_length() -> None:
    corpus = random_pairs(5000)
    padded = sum(longest(corpus, rows).max() * len(rows) for rows in batches_of(corpus, tokens=1000))
    assert padded < 1.1 * longest(corpus, np.arange(5000)).sum()


@pytest.mark.parametrize(("sentences", "tokens"), [(1, None), (16, None), (None, 200)])
def test_padding_is_the_share_of_padding_in_collated_batches(
    sentences: int | None, tokens: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "WINDOW", 5)  # more than one
    corpus = random_pairs()
    epoch = epoch_batches(corpus, np.arange(500), sentences=sentences, tokens=tokens, seed=1, epoch=0)
    sides = [ids for rows in epoch for ids in (collate(corpus, rows).src, collate(corpus, rows).tgt)]
    empty = sum(int((ids == PAD).sum()) for ids in sides)
    assert (epoch.padding == 0) == (sentences == 1)
    assert epoch.padding == pytest.approx(empty / sum(ids.numel() for ids in sides))


def test_batches_are_not_ordered_by_length() -> None:
    corpus = random_pairs(5000)
    means = [longest(corpus, rows).mean() for rows in batches_of(corpus, tokens=1000)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


def test_only_the_given_rows_are_used() -> None:
    found = epoch_batches(random_pairs(), np.array([7, 3, 400]), sentences=2, tokens=None, seed=1, epoch=0)
    assert len(found) == 2
    assert sorted(np.concatenate(list(found)).tolist()) == [3, 7, 400]


@pytest.mark.parametrize("tokens", [1, 60, 200, 10**6])
def test_the_parts_of_a_batch_are_the_batch(tokens: int) -> None:
    corpus = random_pairs()
    for rows in batches_of(corpus, sentences=32)[:5]:
        pieces = list(parts(corpus, rows, tokens))
        assert np.concatenate(pieces).tolist() == rows.tolist()
        assert all(len(piece) == 1 or longest(corpus, piece).max() * len(piece) <= tokens for piece in pieces)


@pytest.mark.parametrize("tokens", [60, 200, 1000])
def test_coarse_parts_of_a_batch_hold_their_tokens_padding_included(tokens: int) -> None:
    corpus = random_pairs(5000)
    for rows in batches_of(corpus, sentences=320)[:5]:
        pieces = list(parts(corpus, rows, tokens, coarse=True))
        assert np.concatenate(pieces).tolist() == rows.tolist()
        for piece in pieces:
            batch = collate(corpus, piece, coarse=True)
            assert len(piece) == 1 or max(batch.src.numel(), batch.tgt.numel()) <= tokens
            assert batch.src.shape[1] % 4 == batch.tgt.shape[1] % 4 == 0
            assert len(batch.words) == corpus.lengths(piece)[1].sum() + len(piece)


@pytest.mark.parametrize(
    ("lengths", "sentences", "tokens", "sizes"),
    [
        ([], None, 10, []),
        ([], 3, None, []),
        ([5, 5, 5], 2, None, [2, 1]),
        ([5, 5, 5], None, 10, [2, 1]),
        ([5, 5, 5], None, 9, [1, 1, 1]),
        ([2, 2, 7, 2, 2], None, 8, [2, 1, 2]),  # a pair that is longer than the budget goes alone
        ([20, 2, 2], None, 8, [1, 2]),
    ],
)
def test_slices_are_as_long_as_the_budget_allows(
    lengths: list[int], sentences: int | None, tokens: int | None, sizes: list[int]
) -> None:
    runs = cut(np.array(lengths, dtype=np.int64), sentences, tokens)
    assert [len(lengths[run]) for run in runs] == sizes


def test_a_batch_has_both_sides_a_source_mask_and_the_indices_of_target_words() -> None:
    batch = collate(Pairs([2, 1, 5], [1, 3, 5]), np.array([1, 0]))
    assert batch.src.tolist() == [[5, EOS, PAD], [4, 4, EOS]]
    assert batch.mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.tgt.tolist() == [[5, 5, 5, EOS], [4, EOS, PAD, PAD]]
    assert batch.words.tolist() == [0, 1, 2, 3, 4, 5]  # row by row, without the padding at the end


def test_a_batch_moves_with_all_its_tensors() -> None:
    moved = collate(Pairs([1], [1]), np.array([0])).to(torch.device("meta"))
    assert isinstance(moved, Batch)
    assert [tensor.device.type for tensor in moved] == ["meta"] * 4


def test_pairs_with_an_empty_or_an_overlong_side_are_not_trained_on() -> None:
    corpus = Pairs([0, 1, 5, 6, 5], [1, 0, 5, 1, 6])
    assert within(corpus, 5).tolist() == [2]
    assert within(corpus, None).tolist() == [2, 3, 4]


def test_pairs_and_lengths_are_processed_in_blocks_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = random_pairs()
    whole = within(corpus, 20).tolist(), [rows.tolist() for rows in batches_of(corpus, tokens=300)]
    monkeypatch.setattr(batches, "_BLOCK", 7)
    assert (within(corpus, 20).tolist(), [rows.tolist() for rows in batches_of(corpus, tokens=300)]) == whole


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("tokens", [1, 37, 300, 10**6])
def test_slices_are_those_of_adding_sentences_one_by_one(tokens: int, ordered: bool) -> None:
    lengths = np.random.default_rng(1).integers(1, 50, 1000)
    lengths = np.sort(lengths) if ordered else lengths
    expected, start = [], 0
    for i in range(1, len(lengths) + 1):
        if i == len(lengths) or lengths[start : i + 1].max() * (i + 1 - start) > tokens:
            expected.append(slice(start, i))
            start = i
    assert cut(lengths, None, tokens) == expected


def test_an_epoch_takes_a_few_bytes_per_pair() -> None:
    corpus = random_pairs(200_000)
    rows = within(corpus, None)
    tracemalloc.start()
    epoch = epoch_batches(corpus, rows, sentences=80, tokens=None, seed=1, epoch=0)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(epoch) == 2500
    assert kept < 6 * len(corpus)
    assert most < 20 * len(corpus)
