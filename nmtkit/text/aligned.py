"""Whether the sides of a text correspond line by line: lengths of sentences and their translations correlate."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from nmtkit.lines import raw_lines

FIRST_MISALIGNED = "find the first misaligned pair, where a line was lost or broken in two"
MISALIGNED_REMEDY = f"{FIRST_MISALIGNED}, or leave these lines out"

_LINES, _FAR = 100, 20  # lines of a block, and by how many the sides may be shifted
_LEAST = 50  # pairs of a block with text on both sides, or it is not judged
# Correlations of lengths. In 92 real texts, the median of a text's blocks was 0.71 to 0.98. A block below the first had
# other sentences on its two sides; one below the second had the same, shifted, if they fitted so well elsewhere.
_UNRELATED, _DOUBTFUL, _SURE = 0.15, 0.4, 0.7
_USUAL, _NONE = 0.5, 0.1  # the best tenth of blocks of a text that can be judged by it; the mean of an unrelated text
_ENOUGH = 3  # blocks for such a mean
_SHOWN = 3  # ranges of lines


def misaligned(src: Path, tgt: Path) -> str | None:
    """A description of the lines that do not correspond, or that correspond to lines with other numbers, if any."""
    fits, doubtful = list[float](), dict[int, tuple[float, int | None]]()
    for first, lengths in _blocks(src, tgt):
        if (fit := _fit(lengths[_FAR:-_FAR])) is not None:
            fits.append(fit)
            if fit < _DOUBTFUL:
                doubtful[first] = fit, _shift(lengths)
    unrelated = len(fits) >= _ENOUGH and np.mean(fits) < _NONE
    limit = _UNRELATED if fits and np.quantile(fits, 0.9) > _USUAL else -1
    sure = {first: shift is not None or fit < limit for first, (fit, shift) in doubtful.items()}
    ranges = [(min(doubtful), max(doubtful))] if unrelated else _ranges(sure)
    if not ranges:
        return None
    shown = [f"{first:,} to {last + _LINES - 1:,}" for first, last in ranges[:_SHOWN]]
    shown += ["..."] * (len(ranges) > _SHOWN)
    what = f"by their lengths, lines {', '.join(shown)} do not correspond to those of {tgt}"
    for first, (_, shift) in doubtful.items():
        if shift is not None:
            here, there = (f"lines {line:,} to {line + _LINES - 1:,}" for line in (first, first + shift))
            return f"{what} ({here} correspond to {there})"
    return what


def _blocks(src: Path, tgt: Path) -> Iterator[tuple[int, np.ndarray]]:
    """The first line of each block, and the lengths (lines, 2) in bytes of its lines and of those around them."""
    lengths = zip(*((len(line.strip()) for line in raw_lines(path)) for path in (src, tgt)), strict=False)
    first, block = 1 + _FAR, list(islice(lengths, _LINES + 2 * _FAR))
    while len(block) == _LINES + 2 * _FAR:
        yield first, np.array(block)
        first, block = first + _LINES, block[_LINES:] + list(islice(lengths, _LINES))


def _fit(lengths: np.ndarray) -> float | None:
    """The correlation of the lengths (lines, 2) of pairs with text on both sides; None if it says nothing."""
    source, target = np.log(lengths[lengths.all(1)].T)
    if len(source) < _LEAST or min(source.std(), target.std()) < 0.1:
        return None
    return float(np.corrcoef(source, target)[0, 1])


def _shift(lengths: np.ndarray) -> int | None:
    """By how many lines the target of a block of lengths (lines, 2) is shifted, if that is certain."""
    logs = np.log(lengths, where=lengths > 0, out=np.full(lengths.shape, np.nan))
    # A blank line says nothing: both sides may have one after each document.
    source, target = np.nan_to_num(logs - np.nanmean(logs, axis=0)).T
    inner = source[_FAR:-_FAR] - source[_FAR:-_FAR].mean()
    shifted = np.lib.stride_tricks.sliding_window_view(target, len(inner))
    shifted = shifted - shifted.mean(1, keepdims=True)
    fits = shifted @ inner / np.maximum(np.linalg.norm(shifted, axis=1) * np.linalg.norm(inner), 1e-9)
    best = int(fits.argmax())
    return best - _FAR if fits[best] > _SURE and best != _FAR else None


def _ranges(sure: Mapping[int, bool]) -> list[tuple[int, int]]:
    """The ranges of neighbouring blocks, at least one of which is sure, each as its first and its last block.

    A block is given by its first line. sure: for each block in order, whether it is sure.
    """
    ranges = list[tuple[int, int, bool]]()
    for first, certain in sure.items():
        start = first
        if ranges and ranges[-1][1] + _LINES == first:
            start, _, before = ranges.pop()
            certain |= before
        ranges.append((start, first, certain))
    return [(start, last) for start, last, certain in ranges if certain]
