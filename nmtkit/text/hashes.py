"""Sentence pairs by a hash of their words, so that millions of them can be compared in bounded memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_HASH = np.dtype("<u8")
_AT_ONCE = 4_000_000  # hashes that are sorted together: 128 MB or so
_BLOCK = 1 << 20


def pair_hash(src: list[str], tgt: list[str]) -> bytes:
    """8 bytes: among 36 million pairs, two different ones have the same with a probability of 1 in 30,000."""
    return hashlib.blake2b(f"{' '.join(src)}\n{' '.join(tgt)}".encode(), digest_size=_HASH.itemsize).digest()


def load_hashes(path: Path) -> frozenset[bytes]:
    """The hashes in a file that has nothing else."""
    content = path.read_bytes()
    return frozenset(content[i : i + _HASH.itemsize] for i in range(0, len(content), _HASH.itemsize))


def repeated(hashes: Sequence[Path], marks: Path) -> list[NDArray[np.bool_]]:
    """Marks for every hash of every file, in this order: was it there before? They are mapped from the file ``marks``.

    Memory does not grow with the number of hashes: they are compared in groups that share their remainder. Raises
    OSError if the disk has no room for the marks.
    """
    sizes = [path.stat().st_size // _HASH.itemsize for path in hashes]
    if not sum(sizes):
        return [np.zeros(0, np.bool_) for _ in hashes]
    # Written and not only made so long: of a file with holes, a full disk would be noticed when a page of it is, and a
    # signal would end the process.
    with open(marks, "wb") as file:
        for start in range(0, sum(sizes), _BLOCK):
            file.write(bytes(min(_BLOCK, sum(sizes) - start)))
    result = np.memmap(marks, np.bool_, "r+", shape=sum(sizes))
    # As many as keep each group small enough to be sorted in memory.
    groups = -(-sum(sizes) // _AT_ONCE)
    starts = np.cumsum([0, *sizes])
    for group in range(groups):
        # Equal hashes have equal remainders, so that each group can be looked at by itself.
        values, places = [], []
        for path, start in zip(hashes, starts, strict=False):
            all_values = np.fromfile(path, _HASH)
            mine = np.flatnonzero(all_values % groups == group)
            values.append(all_values[mine])
            places.append(mine + start)
        value, place = np.concatenate(values), np.concatenate(places)
        order = np.argsort(value, kind="stable")  # so that of equal ones the first stays first
        same = np.flatnonzero(value[order[1:]] == value[order[:-1]])
        result[place[order[same + 1]]] = True
    return np.split(np.asarray(result), starts[1:-1])
