"""Hashes of sentence pairs, to compare millions of them in bounded memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_HASH = np.dtype("<u8")
_AT_ONCE = 4_000_000  # hashes sorted together: about 128 MB


def pair_hash(src: list[str], tgt: list[str]) -> bytes:
    """An 8-byte hash; among 36 million pairs the probability of a collision is 1 in 30,000."""
    return hashlib.blake2b(f"{' '.join(src)}\n{' '.join(tgt)}".encode(), digest_size=_HASH.itemsize).digest()


def load_hashes(path: Path) -> frozenset[bytes]:
    """The hashes in a file."""
    content = path.read_bytes()
    return frozenset(content[i : i + _HASH.itemsize] for i in range(0, len(content), _HASH.itemsize))


def repeated(hashes: Sequence[Path]) -> list[NDArray[np.bool_]]:
    """For each file, a mask of the hashes that occurred before, in it or in an earlier file.

    Hashes are compared in groups of equal remainder, to limit memory.
    """
    starts = np.cumsum([0, *(path.stat().st_size // _HASH.itemsize for path in hashes)])
    result = np.ones(starts[-1], np.bool_)
    groups = -(-len(result) // _AT_ONCE)
    for group in range(groups):
        values, places = [], []
        for path, start in zip(hashes, starts, strict=False):
            all_values = np.fromfile(path, _HASH)
            mine = np.flatnonzero(all_values % groups == group)
            values.append(all_values[mine])
            places.append(mine + start)
        _, first = np.unique(np.concatenate(values), return_index=True)
        result[np.concatenate(places)[first]] = False
    return np.split(result, starts[1:-1])
