"""Encoded text of a data folder as memory-mapped arrays of ids.

encoding.py writes SPLIT.SIDE.ids (the concatenated sentences) and SPLIT.SIDE.offsets (the start of each, and the end of
the last), both little-endian, and ids.json with sizes and hashes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nmtkit.config import build, require_counts
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.folders import SIDES, SPLITS, SideName, TextFiles
from nmtkit.symbols import UNK
from nmtkit.text.manifest import read_json, read_manifest

HEADER = "ids.json"
OFFSET = np.dtype("<u8")
FILES = (
    *(TextFiles(Path()).vocabulary(side).name for side in SIDES),
    *(f"{split}.{side}.{part}" for split in SPLITS for side in SIDES for part in ("ids", "offsets")),
    HEADER,
)  # written by encoding.py, the last one last

Ids = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Encoded:
    """The entry of a file in ids.json: its format, and hashes of the text and vocabulary it was made from."""

    dtype: Literal["<u2", "<u4"]  # of ids
    lines: int
    tokens: int
    text: str  # SHA-256 of the tokenised text, as in the manifest
    vocab: str  # fingerprint of the vocabulary
    alignment: str | None = None  # SHA-256 of the alignment used to annotate unknown words

    def __post_init__(self) -> None:
        require_counts(0, self, "lines", "tokens")


@dataclass(frozen=True)
class _Header:
    """The content of ids.json."""

    format_version: Literal["1"]
    files: dict[str, Encoded]


class Corpus:
    """Sentence pairs as arrays of ids without BOS and EOS, numbered from 0."""

    def __init__(self, src: "_Sentences", tgt: "_Sentences", couples: NDArray[np.integer[Any]] | None = None) -> None:
        self._src, self._tgt = src, tgt
        self._couples = np.empty((0, 2), np.int64) if couples is None else couples

    @classmethod
    def open(cls, folder: Path, split: Literal["train", "dev", "test"]) -> "Corpus":
        """Memory-map a corpus.

        Raises UserError if files are missing, truncated or not made from the folder's text and vocabulary, according to
        the hashes in the manifest.
        """
        header, manifest = read_header(folder), read_manifest(folder)
        if f"{split}.src" not in header or f"{split}.tgt" not in header:
            hint = " (`dev_size` samples it from the training text)" if split == "dev" else ""
            raise UserError(f"{folder}: has no {split} set; give nmtkit prep one{hint}, then run nmtkit vocab")
        for side in SIDES:
            if header[f"{split}.{side}"].text != manifest.get(f"{split}.{side}", {}).get("sha256"):
                raise UserError(f"{folder}/{split}.{side}: changed since it was encoded; run nmtkit vocab again")
        src, tgt = (_Sentences(folder, split, side, header[f"{split}.{side}"]) for side in SIDES)
        if len(src) != len(tgt):
            raise UserError(f"{folder / HEADER}: {split} has sides of different lengths; run nmtkit vocab again")
        return cls(src, tgt)

    def concatenated(self, couples: NDArray[np.integer[Any]]) -> "Corpus":
        """The encoded pairs, and after them one for each row of ``couples`` (C, 2): both pairs concatenated."""
        return Corpus(self._src, self._tgt, couples)

    @property
    def pairs(self) -> int:
        """The number of pairs without concatenations."""
        return len(self._src)

    def __len__(self) -> int:
        """The number of pairs, with concatenations."""
        return self.pairs + len(self._couples)

    def lines(self, number: int) -> str:
        """The lines of a pair in the text, from 1, for messages: 17, or 17+4 for a concatenation."""
        rows = [number] if number < self.pairs else self._couples[number - self.pairs].tolist()
        return "+".join(str(row + 1) for row in rows)

    def lengths(self, rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The source and target lengths, (P,) each, of the pairs ``rows`` (P,)."""
        return self._lengths(self._src, rows), self._lengths(self._tgt, rows)

    def src(self, number: int) -> Ids:
        """The ids (S,) of a source sentence. Raises UserError if the file is damaged."""
        return self._ids(self._src, number)

    def tgt(self, number: int) -> Ids:
        """The ids (T,) of a target sentence. Raises UserError if the file is damaged."""
        return self._ids(self._tgt, number)

    def _lengths(self, side: "_Sentences", rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        if not len(self._couples):
            return side.lengths(rows)
        lengths, whole = np.empty(len(rows), np.int64), rows < self.pairs
        lengths[whole] = side.lengths(rows[whole])
        lengths[~whole] = side.lengths(self._couples[rows[~whole] - self.pairs]).sum(1)
        return lengths

    def _ids(self, side: "_Sentences", number: int) -> Ids:
        if number < self.pairs:
            return side[number]
        first, second = self._couples[number - self.pairs]
        return np.concatenate([side[first], side[second]])


class _Sentences:
    """One side of a split: concatenated ids (N,) and the offsets of sentences (sentences + 1,).

    Ids are checked against the vocabulary when a sentence is read, to avoid reading the whole file.
    """

    def __init__(self, folder: Path, split: str, side: SideName, entry: Encoded) -> None:
        """Map the files. Raises UserError if they are damaged or the vocabulary has changed."""
        vocabulary_path = TextFiles(folder).vocabulary(side)
        vocabulary = Vocabulary.load(vocabulary_path)
        if entry.vocab != vocabulary.fingerprint:
            raise UserError(f"{vocabulary_path}: the text was encoded with another vocabulary; run nmtkit vocab")
        self._path, self._words = folder / f"{split}.{side}", len(vocabulary)
        self._ids = _map(Path(f"{self._path}.ids"), np.dtype(entry.dtype), entry.tokens)
        self._offsets = offsets = _map(Path(f"{self._path}.offsets"), OFFSET, entry.lines + 1)
        if offsets[0] != 0 or offsets[-1] != len(self._ids) or (offsets[1:] < offsets[:-1]).any():
            raise UserError(f"{self._path}.offsets: damaged; run nmtkit vocab again")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def lengths(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The lengths of the sentences ``rows``, in their shape."""
        lengths: NDArray[np.int64] = (self._offsets[1:][rows] - self._offsets[:-1][rows]).astype(np.int64)
        return lengths

    def __getitem__(self, number: int) -> Ids:
        ids = self._ids[self._offsets[number] : self._offsets[number + 1]]
        # On a GPU, an id that is too large would crash without a useful message; padding, BOS and EOS are not stored.
        if len(ids) and ((least := ids.min()) < UNK or ids.max() >= self._words):
            place = f"{self._path}.ids: sentence {number + 1}"
            raise UserError(f"{place}: id {least if least < UNK else ids.max()} is not a word; run nmtkit vocab again")
        return ids


def _map(path: Path, dtype: np.dtype[Any], size: int) -> Ids:
    """Memory-map a file of ``size`` numbers. Raises UserError if it has another length."""
    found = path.stat().st_size if path.is_file() else 0
    if found != size * dtype.itemsize:
        raise UserError(f"{path}: has {found} bytes instead of {size * dtype.itemsize}; run nmtkit vocab again")
    # Empty files cannot be mapped. asarray, because slicing an np.memmap is slow.
    return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)


def training_tokens(folder: Path) -> int:
    """The number of target tokens in the training text, without EOS; 0 if it is not encoded yet."""
    return read_header(folder)["train.tgt"].tokens if (folder / HEADER).exists() else 0


def read_header(folder: Path) -> dict[str, Encoded]:
    """The entries of all encoded files. Raises UserError if ids.json is missing or invalid."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; make it with nmtkit prep")
    values = read_json(folder / HEADER, "make it with nmtkit vocab")
    return build(_Header, values, f"{folder / HEADER} (which nmtkit vocab makes)").files


def write_header(folder: Path, texts: Mapping[str, Encoded]) -> None:
    """Write ids.json."""
    header = _Header("1", dict(texts))
    (folder / HEADER).write_text(json.dumps(asdict(header), indent=1) + "\n", "utf-8")
