"""The text of a data folder as memory-mapped arrays of word ids, so that no corpus is held in memory.

The files are written by encoding.py. SPLIT.SIDE.ids has all sentences one after the other, SPLIT.SIDE.offsets where
each of them begins, and the end of the last. Numbers are little-endian; ids.json has their size and hashes of the text.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nmtkit.config import build
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.folders import SIDES, SPLITS, SideName, TextFiles
from nmtkit.text.manifest import read_json, read_manifest

HEADER = "ids.json"
OFFSET = np.dtype("<u8")
FILES = (
    *(TextFiles(Path()).vocabulary(side).name for side in SIDES),
    *(f"{split}.{side}.{part}" for split in SPLITS for side in SIDES for part in ("ids", "offsets")),
    HEADER,
)  # all that encoding.py writes; the last one says that the others are there

Ids = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Encoded:
    """The entry of ids.json about a file: how it was encoded, and of what, so that a change since then is noticed."""

    dtype: Literal["<u2", "<u4"]  # of an id: little-endian, two or four bytes
    lines: int
    tokens: int
    text: str  # SHA-256 of the file of tokens, as in the manifest
    vocab: str  # fingerprint of the vocabulary
    alignment: str | None = None  # SHA-256 of the alignment by which unknown words were annotated

    def __post_init__(self) -> None:
        if min(self.lines, self.tokens) < 0:
            raise ValueError("lines, tokens: not below 0")


@dataclass(frozen=True)
class _Header:
    """The content of ids.json."""

    format_version: Literal["1"]
    files: dict[str, Encoded]


class Corpus:
    """Pairs of sentences as arrays of ids, numbered from 0. The ids do not include BOS and EOS."""

    def __init__(self, src: "_Sentences", tgt: "_Sentences") -> None:
        self._src, self._tgt = src, tgt

    @classmethod
    def open(cls, folder: Path, split: Literal["train", "dev", "test"]) -> "Corpus":
        """Map a corpus, which is quick whatever its size.

        Raises UserError if files are missing or cut short, or were made of another text or with another vocabulary than
        the folder has now.
        """
        # Hashes of the text are compared with the manifest's, not with the text, which would have to be read for that.
        header, manifest = read_header(folder), read_manifest(folder)
        if f"{split}.src" not in header or f"{split}.tgt" not in header:
            draw = " (`dev_size` draws it from the training text)" if split == "dev" else ""
            raise UserError(f"{folder}: has no {split} set; give nmtkit prep one{draw}, then run nmtkit vocab")
        for side in SIDES:
            if header[f"{split}.{side}"].text != manifest.get(f"{split}.{side}", {}).get("sha256"):
                raise UserError(f"{folder}/{split}.{side}: prepared anew since it was encoded; run nmtkit vocab again")
        src, tgt = (_Sentences.open(folder, split, side, header[f"{split}.{side}"]) for side in SIDES)
        if len(src) != len(tgt):
            raise UserError(f"{folder / HEADER}: {split} has sides of different lengths; run nmtkit vocab again")
        return cls(src, tgt)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self._src)

    def lengths(self, rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of words in the source (P,) and the target (P,) of the pairs ``rows`` (P,)."""
        return self._src.lengths(rows), self._tgt.lengths(rows)

    def src(self, number: int) -> Ids:
        """The ids (S,) of a source sentence. Raises UserError where a file was damaged."""
        return self._src[number]

    def tgt(self, number: int) -> Ids:
        """The ids (T,) of a target sentence. Raises UserError where a file was damaged."""
        return self._tgt[number]


class _Sentences:
    """One side of a corpus: the ids of all sentences (N,), and where each begins (sentences + 1,).

    ``words`` is the size of the vocabulary. Each sentence is checked as it is read, since to look at all ids would
    read the whole file into memory.
    """

    def __init__(self, path: Path, ids: Ids, offsets: Ids, words: int) -> None:
        self._path, self._ids, self._offsets, self._words = path, ids, offsets, words
        if offsets[0] != 0 or offsets[-1] != len(ids) or (offsets[1:] < offsets[:-1]).any():
            raise UserError(f"{path}.offsets: damaged; run nmtkit vocab again")

    @classmethod
    def open(cls, folder: Path, split: str, side: SideName, entry: Encoded) -> "_Sentences":
        """Map one side of a split. Raises UserError for another vocabulary than it was encoded with."""
        vocabulary_path = TextFiles(folder).vocabulary(side)
        vocabulary = Vocabulary.load(vocabulary_path)
        if entry.vocab != vocabulary.fingerprint:
            raise UserError(f"{vocabulary_path}: not the one that the text was encoded with; run nmtkit vocab")
        path = folder / f"{split}.{side}"
        ids = _map(Path(f"{path}.ids"), np.dtype(entry.dtype), entry.tokens)
        return cls(path, ids, _map(Path(f"{path}.offsets"), OFFSET, entry.lines + 1), len(vocabulary))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def lengths(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The numbers of words of the sentences ``rows`` (P,)."""
        lengths: NDArray[np.int64] = (self._offsets[1:][rows] - self._offsets[:-1][rows]).astype(np.int64)
        return lengths

    def __getitem__(self, number: int) -> Ids:
        ids = self._ids[self._offsets[number] : self._offsets[number + 1]]
        # An id beyond the table would end a training on a GPU with an error that names nothing.
        if len(ids) and ids.max() >= self._words:
            raise UserError(
                f"{self._path}.ids: sentence {number + 1}: no word has number {ids.max()}; run nmtkit vocab again"
            )
        return ids


def _map(path: Path, dtype: np.dtype[Any], size: int) -> Ids:
    """A file of ``size`` numbers as an array (size,); raises UserError for a file of any other length."""
    # A missing file has 0 bytes: one message for what is cut short and what is not there.
    there = path.stat().st_size if path.is_file() else 0
    if there != size * dtype.itemsize:
        raise UserError(f"{path}: has {there} bytes instead of {size * dtype.itemsize}; run nmtkit vocab again")
    # An empty file cannot be mapped. As a plain array, because slices of a memmap are slow to make.
    return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)


def read_header(folder: Path) -> dict[str, Encoded]:
    """The entries of all encoded files. Raises UserError for anything that ``write_header`` does not write."""
    values = read_json(folder / HEADER, "make it with nmtkit vocab")
    return build(_Header, values, f"{folder / HEADER} (which nmtkit vocab makes)").files


def write_header(folder: Path, texts: Mapping[str, Encoded]) -> None:
    """Write the entries that ``read_header`` reads."""
    # An entry that is None is left out, as it was before there were annotations.
    entries = {
        name: {key: value for key, value in asdict(text).items() if value is not None} for name, text in texts.items()
    }
    (folder / HEADER).write_text(json.dumps({"format_version": "1", "files": entries}, indent=1) + "\n", "utf-8")
