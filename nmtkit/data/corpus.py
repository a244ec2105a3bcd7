"""The sentences of a data folder as ids in memory-mapped files: nothing is read before it is asked for."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmtkit.data.counts import merged, write_run
from nmtkit.data.parallel import Chunk, Workers, chunks, progress
from nmtkit.data.settings import SIDES, SPLITS
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.lines import move_into_place, staging_folder
from nmtkit.symbols import SPELLINGS, UNK

# SPLIT.SIDE.ids has all sentences one after the other, SPLIT.SIDE.offsets where each of them begins, and the end.
# Numbers are little-endian; ids.json says of which size the ids are, and of what they are the ids.
_HEADER = "ids.json"
_OFFSET = np.dtype("<u8")
_FILES = (
    *(f"vocab.{side}" for side in SIDES),
    *(f"{split}.{side}.{part}" for split in SPLITS for side in SIDES for part in ("ids", "offsets")),
    _HEADER,
)
_LINES = 5000  # of a chunk: looking words up is quick work
_MOST_COUNTED = 500_000  # different words in memory: a hundred megabytes

Ids = NDArray[np.unsignedinteger[Any]]


class Corpus:
    """Pairs of sentences as arrays of ids, numbered from 0. Sentence marks are not among the ids."""

    def __init__(self, src: "_Sentences", tgt: "_Sentences") -> None:
        self._src, self._tgt = src, tgt

    @classmethod
    def open(cls, folder: Path, split: Literal["train", "dev", "test"]) -> "Corpus":
        """Quick whatever the size. Raises UserError if files are missing or cut short, or were made of another text
        or with another vocabulary than the folder has now."""
        header = _read_json(folder / _HEADER, "make it with nmtkit vocab")["files"]
        manifest = _read_json(folder / "manifest.json", "make the folder with nmtkit prep")["files"]
        if f"{split}.src" not in header:
            raise UserError(f"{folder}: has no {split} set; give nmtkit prep one, then run nmtkit vocab")
        for side in SIDES:
            entry = header[f"{split}.{side}"]
            if entry["text"] != manifest[f"{split}.{side}"]["sha256"]:
                raise UserError(f"{folder}/{split}.{side}: prepared anew since it was encoded; run nmtkit vocab again")
            if entry["vocab"] != Vocabulary.load(folder / f"vocab.{side}").fingerprint:
                raise UserError(f"{folder}/vocab.{side}: not the one that the text was encoded with; run nmtkit vocab")
        src, tgt = (_Sentences.open(folder, f"{split}.{side}", header[f"{split}.{side}"]) for side in SIDES)
        return cls(src, tgt)

    def __len__(self) -> int:
        return len(self._src.offsets) - 1

    def lengths(self, rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many words both sides of some pairs have."""
        return self._src.lengths(rows), self._tgt.lengths(rows)

    def src(self, number: int) -> Ids:
        return self._src[number]

    def tgt(self, number: int) -> Ids:
        return self._tgt[number]


class _Sentences:
    """One side of a corpus."""

    def __init__(self, ids: Ids, offsets: Ids) -> None:
        self.ids, self.offsets = ids, offsets

    @classmethod
    def open(cls, folder: Path, name: str, entry: Mapping[str, Any]) -> "_Sentences":
        ids = _map(folder / f"{name}.ids", np.dtype(entry["dtype"]), entry["tokens"])
        return cls(ids, _map(folder / f"{name}.offsets", _OFFSET, entry["lines"] + 1))

    def lengths(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = (self.offsets[1:][rows] - self.offsets[:-1][rows]).astype(np.int64)
        return lengths

    def __getitem__(self, number: int) -> Ids:
        return self.ids[self.offsets[number] : self.offsets[number + 1]]


def _map(path: Path, dtype: np.dtype[Any], size: int) -> Ids:
    found = path.stat().st_size if path.is_file() else 0
    if found != size * dtype.itemsize:
        raise UserError(f"{path}: has {found} bytes instead of {size * dtype.itemsize}; run nmtkit vocab again")
    # An empty file cannot be mapped. As a plain array, because slices of a memmap are slow to make.
    return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: not there; {remedy}")
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError:
        raise UserError(f"{path}: damaged; {remedy}") from None


class Coverage(NamedTuple):
    """Of one file of tokens, how many there are and how many are not in the vocabulary."""

    tokens: int
    unknown: int

    @property
    def rate(self) -> float:
        return self.unknown / self.tokens if self.tokens else 0.0


@dataclass(frozen=True)
class Report:
    """What was made; ``str`` of it is for people."""

    folder: Path
    rows: dict[str, int]  # by side
    types: dict[str, int]  # different words in the training text, by side
    coverage: dict[str, Coverage]  # by file

    def __str__(self) -> str:
        lines = [
            f"{self.folder / f'vocab.{side}'}: {self.rows[side]:,} rows, which are {len(SPELLINGS)} symbols and "
            f"{self.rows[side] - len(SPELLINGS):,} of {self.types[side]:,} different words"
            for side in SIDES
        ]
        for split in SPLITS:
            if f"{split}.src" in self.coverage:
                src, tgt = (self.coverage[f"{split}.{side}"] for side in SIDES)
                lines.append(
                    f"  {split:<5} {src.tokens:,} + {tgt.tokens:,} tokens, of which {1 - src.rate:.2%} + "
                    f"{1 - tgt.rate:.2%} covered, {src.unknown:,} + {tgt.unknown:,} unknown"
                )
        return "\n".join(lines)


def encode(
    folder: Path, src_size: int | None, tgt_size: int | None, min_count: int, joint: bool, workers: int | None
) -> Report:
    """Make the vocabularies of a data folder from its training text, and the files of ids that training maps.

    Sizes count every row, symbols included; None is everything. ``joint``: both sides have one list. Raises UserError
    for a folder that prep did not make.
    """
    manifest = _read_json(folder / "manifest.json", "make the folder with nmtkit prep")["files"]
    names = [f"{split}.{side}" for split in SPLITS for side in SIDES if f"{split}.{side}" in manifest]
    sizes = {"src": src_size, "tgt": tgt_size}
    with Workers(workers) as pool, staging_folder(folder) as staging:
        runs = {side: _count_words(folder / f"train.{side}", staging, manifest, pool) for side in SIDES}
        if joint:
            runs = dict.fromkeys(SIDES, runs["src"] + runs["tgt"])
        rows: dict[str, int] = {}
        types: dict[str, int] = {}
        coverage: dict[str, Coverage] = {}
        header: dict[str, dict[str, Any]] = {}
        for side in SIDES:
            vocabulary = Vocabulary.choose(merged(runs[side]), sizes[side], min_count)
            vocabulary.save(staging / f"vocab.{side}")
            rows[side] = len(vocabulary)
            types[side] = sum(word not in SPELLINGS for word, _ in merged(runs[side]))
            fingerprint = vocabulary.fingerprint
            dtype = "<u2" if len(vocabulary) <= 1 << 16 else "<u4"
            for name in (name for name in names if name.endswith(side)):
                lines, coverage[name] = _encode_file(folder / name, staging, side, dtype, manifest[name]["lines"], pool)
                header[name] = {
                    "dtype": dtype,
                    "lines": lines,
                    "tokens": coverage[name].tokens,
                    "text": manifest[name]["sha256"],
                    "vocab": fingerprint,
                }
        for src, tgt in zip(names[::2], names[1::2], strict=True):
            if header[src]["lines"] != header[tgt]["lines"]:
                raise UserError(
                    f"{folder / src} has {header[src]['lines']} lines but {folder / tgt} has {header[tgt]['lines']}; "
                    "run nmtkit prep again"
                )
        (staging / _HEADER).write_text(json.dumps({"format_version": "1", "files": header}, indent=1) + "\n", "utf-8")
        move_into_place(staging, folder, _FILES)
    return Report(folder, rows, types, coverage)


def _count_words(path: Path, staging: Path, manifest: Mapping[str, Any], pool: Workers) -> list[Path]:
    """Runs of how often each word occurs; a new one is begun where a Counter would grow too large."""
    runs: list[Path] = []
    counts: Counter[str] = Counter()

    def write() -> None:
        runs.append(staging / f"{path.name}.{len(runs)}.words")
        write_run(runs[-1], counts)
        counts.clear()

    with progress(f"counting words of {path.name}", manifest[path.name]["lines"]) as advance:
        for lines, found in pool.map(_count_chunk, chunks(path, _LINES)):
            counts.update(found)
            advance(lines)
            if len(counts) > _MOST_COUNTED:
                write()
        write()
    return runs


def _count_chunk(chunk: Chunk) -> tuple[int, Counter[str]]:
    return len(chunk.lines), Counter(b"".join(chunk.lines).decode().split())


def _encode_file(text: Path, staging: Path, side: str, dtype: str, lines: int, pool: Workers) -> tuple[int, Coverage]:
    """Writes the ids and offsets of a file of tokens; how many lines it has, and what the vocabulary covers."""
    tokens = unknown = done = 0
    with (
        progress(f"encoding {text.name}", lines) as advance,
        open(staging / f"{text.name}.ids", "wb") as ids_file,
        open(staging / f"{text.name}.offsets", "wb") as offsets_file,
    ):
        offsets_file.write(np.zeros(1, _OFFSET).tobytes())
        for ids, lengths in pool.map(partial(_encode_chunk, staging / f"vocab.{side}", dtype), chunks(text, _LINES)):
            ids_file.write(ids.tobytes())
            offsets_file.write((tokens + np.cumsum(lengths, dtype=_OFFSET)).astype(_OFFSET).tobytes())
            tokens += len(ids)
            unknown += int((ids == UNK).sum())
            done += len(lengths)
            advance(len(lengths))
    return done, Coverage(tokens, unknown)


def _encode_chunk(vocabulary: Path, dtype: str, chunk: Chunk) -> tuple[Ids, NDArray[np.int64]]:
    sentences = [line.decode().split() for line in chunk.lines]
    ids = _vocabulary(vocabulary).ids(chain.from_iterable(sentences))
    return np.array(ids, np.dtype(dtype)), np.array([len(sentence) for sentence in sentences])


# One for each side per process; the path is in a staging folder, whose name never comes again.
_vocabulary = lru_cache(maxsize=2)(Vocabulary.load)
