"""Whether the sides of a text correspond line by line: lengths of sentences and their translations correlate."""

from itertools import islice
from pathlib import Path

import numpy as np

from nmtkit.lines import raw_lines

FIRST_MISALIGNED = "find the first misaligned pair, where a line was lost or broken in two"

_WINDOW, _LEAST = 500, 140  # lines that are compared, and the fewest at the end of a text
_FAR = 20  # lines by which the sides may be shifted
# Correlations of lengths: above 0.5 where lines belong together, and higher by 0.3 than in place. In the 1,464 windows
# of 59 real texts, no other place fitted better than the right one. With a line deleted, 155 of 156 texts were found.
_SURE, _BETTER = 0.5, 0.3


def misaligned(src: Path, tgt: Path) -> str | None:
    """A description of the first lines that correspond to lines with other numbers, if there are any."""
    lengths = zip(*(map(len, raw_lines(path)) for path in (src, tgt)), strict=False)
    first = 1
    while len(window := list(islice(lengths, _WINDOW))) >= _LEAST:
        source, target = np.log(np.array(window, np.float64).T)
        inner = source[_FAR:-_FAR]
        inner -= inner.mean()
        shifted = np.lib.stride_tricks.sliding_window_view(target, len(inner))
        shifted = shifted - shifted.mean(1, keepdims=True)
        # Lines of one length correlate with none.
        fits = shifted @ inner / np.maximum(np.linalg.norm(shifted, axis=1) * np.linalg.norm(inner), 1e-9)
        best = int(fits.argmax())
        if fits[best] > max(_SURE, fits[_FAR] + _BETTER):
            last, shift = first + len(window) - 1, best - _FAR
            there = f"{first + _FAR + shift:,} to {last - _FAR + shift:,}"
            return f"by their lengths, lines {first + _FAR:,} to {last - _FAR:,} correspond to lines {there} of {tgt}"
        first += len(window)
    return None
