"""The sentences of a data folder as ids in memory-mapped files: nothing is read before it is asked for."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmtkit.align.pharaoh import parse_links
from nmtkit.align.posunk import annotate
from nmtkit.config import build
from nmtkit.data.counts import merged, write_run
from nmtkit.data.manifest import read_json, read_manifest
from nmtkit.data.parallel import Chunk, Workers, chunks, progress
from nmtkit.data.settings import SIDES, SPLITS, load_prep
from nmtkit.data.vocab import ALL_SYMBOLS, Vocabulary
from nmtkit.errors import UserError
from nmtkit.lines import count_lines, move_into_place, parse_line, read_lines, staging_folder
from nmtkit.symbols import UNK

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


@dataclass(frozen=True)
class Encoded:
    """What ids.json says of a file: how it was encoded, and the hashes of its text, vocabulary and alignment if any."""

    dtype: Literal["<u2", "<u4"]
    lines: int
    tokens: int
    text: str
    vocab: str
    alignment: str | None = None

    def __post_init__(self) -> None:
        if min(self.lines, self.tokens) < 0:
            raise ValueError("lines, tokens: not below 0")


@dataclass(frozen=True)
class _Header:
    """The content of ids.json."""

    format_version: Literal["1"]
    files: dict[str, Encoded]


class Corpus:
    """Pairs of sentences as arrays of ids, numbered from 0. Sentence marks are not among the ids."""

    def __init__(self, src: "_Sentences", tgt: "_Sentences") -> None:
        self._src, self._tgt = src, tgt

    @classmethod
    def open(cls, folder: Path, split: Literal["train", "dev", "test"]) -> "Corpus":
        """Quick whatever the size. Raises UserError if files are missing or cut short, or were made of another text
        or with another vocabulary than the folder has now."""
        header, manifest = read_header(folder), read_manifest(folder)
        if f"{split}.src" not in header or f"{split}.tgt" not in header:
            raise UserError(f"{folder}: has no {split} set; give nmtkit prep one, then run nmtkit vocab")
        for side in SIDES:
            if header[f"{split}.{side}"].text != manifest.get(f"{split}.{side}", {}).get("sha256"):
                raise UserError(f"{folder}/{split}.{side}: prepared anew since it was encoded; run nmtkit vocab again")
        src, tgt = (_Sentences.open(folder, split, side, header[f"{split}.{side}"]) for side in SIDES)
        if len(src) != len(tgt):
            raise UserError(f"{folder / _HEADER}: {split} has sides of different lengths; run nmtkit vocab again")
        return cls(src, tgt)

    def __len__(self) -> int:
        return len(self._src)

    def lengths(self, rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many words both sides of some pairs have."""
        return self._src.lengths(rows), self._tgt.lengths(rows)

    def src(self, number: int) -> Ids:
        return self._src[number]

    def tgt(self, number: int) -> Ids:
        return self._tgt[number]


class _Sentences:
    """One side of a corpus. ``words`` is the size of its vocabulary."""

    def __init__(self, path: Path, ids: Ids, offsets: Ids, words: int) -> None:
        self._path, self._ids, self._offsets, self._words = path, ids, offsets, words
        if offsets[0] != 0 or offsets[-1] != len(ids) or (offsets[1:] < offsets[:-1]).any():
            raise UserError(f"{path}.offsets: damaged; run nmtkit vocab again")

    @classmethod
    def open(cls, folder: Path, split: str, side: str, entry: Encoded) -> "_Sentences":
        vocabulary = Vocabulary.load(folder / f"vocab.{side}")
        if entry.vocab != vocabulary.fingerprint:
            raise UserError(f"{folder}/vocab.{side}: not the one that the text was encoded with; run nmtkit vocab")
        path = folder / f"{split}.{side}"
        ids = _map(Path(f"{path}.ids"), np.dtype(entry.dtype), entry.tokens)
        return cls(path, ids, _map(Path(f"{path}.offsets"), _OFFSET, entry.lines + 1), len(vocabulary))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def lengths(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = (self._offsets[1:][rows] - self._offsets[:-1][rows]).astype(np.int64)
        return lengths

    def __getitem__(self, number: int) -> Ids:
        ids = self._ids[self._offsets[number] : self._offsets[number + 1]]
        if len(ids) and ids.max() >= self._words:
            raise UserError(
                f"{self._path}.ids: sentence {number + 1}: no word has number {ids.max()}; run nmtkit vocab again"
            )
        return ids


def _map(path: Path, dtype: np.dtype[Any], size: int) -> Ids:
    found = path.stat().st_size if path.is_file() else 0
    if found != size * dtype.itemsize:
        raise UserError(f"{path}: has {found} bytes instead of {size * dtype.itemsize}; run nmtkit vocab again")
    # An empty file cannot be mapped. As a plain array, because slices of a memmap are slow to make.
    return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)


def read_header(folder: Path) -> dict[str, Encoded]:
    """What was encoded, by file. Raises UserError for anything that ``encode`` does not write."""
    values = read_json(folder / _HEADER, "make it with nmtkit vocab")
    return build(_Header, values, f"{folder / _HEADER} (which nmtkit vocab makes)").files


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
    symbols: dict[str, int]  # of these, by side
    types: dict[str, int]  # different words in the training text, by side
    coverage: dict[str, Coverage]  # by file

    def __str__(self) -> str:
        lines = [
            f"{self.folder / f'vocab.{side}'}: {self.rows[side]:,} rows, which are {self.symbols[side]} symbols and "
            f"{self.rows[side] - self.symbols[side]:,} of {self.types[side]:,} different words"
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
    folder: Path,
    src_size: int | None,
    tgt_size: int | None,
    min_count: int,
    joint: bool,
    workers: int | None,
    unkpos: bool = False,
) -> Report:
    """Make the vocabularies of a data folder from its training text, and the files of ids that training maps.

    Sizes count every row, symbols included; None is everything. ``joint``: both sides have one list. ``unkpos``:
    unknown target words say where in the source they come from, by the folder's alignment. Raises UserError for a
    folder that prep did not make, and for one that cannot be annotated.
    """
    manifest = read_manifest(folder)
    splits = [split for split in SPLITS if all(f"{split}.{side}" in manifest for side in SIDES)]
    if "train" not in splits:
        raise UserError(f"{folder / 'manifest.json'}: has no train.src and train.tgt; make the folder with nmtkit prep")
    names = [f"{split}.{side}" for split in splits for side in SIDES]
    sizes = {"src": src_size, "tgt": tgt_size}
    if unkpos:
        _check_annotation(folder, tgt_size)
    with Workers(workers) as pool, staging_folder(folder) as staging:
        runs = {side: _count_words(folder / f"train.{side}", staging, manifest, pool) for side in SIDES}
        if joint:
            runs = dict.fromkeys(SIDES, runs["src"] + runs["tgt"])
        rows: dict[str, int] = {}
        symbols: dict[str, int] = {}
        types: dict[str, int] = {}
        coverage: dict[str, Coverage] = {}
        header: dict[str, dict[str, Any]] = {}
        for side in SIDES:
            annotated = unkpos and (joint or side == "tgt")
            vocabulary = Vocabulary.choose(merged(runs[side]), sizes[side], min_count, annotated)
            vocabulary.save(staging / f"vocab.{side}")
            rows[side], symbols[side] = len(vocabulary), vocabulary.symbols
            types[side] = sum(word not in ALL_SYMBOLS for word, _ in merged(runs[side]))
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
                if unkpos and side == "tgt":
                    alignment = folder / f"{name.removesuffix('.tgt')}.align"
                    header[name]["alignment"] = _annotate_file(staging / name, dtype, lines, alignment)
        for src, tgt in zip(names[::2], names[1::2], strict=True):
            if header[src]["lines"] != header[tgt]["lines"]:
                raise UserError(
                    f"{folder / src} has {header[src]['lines']} lines but {folder / tgt} has {header[tgt]['lines']}; "
                    "run nmtkit prep again"
                )
        (staging / _HEADER).write_text(json.dumps({"format_version": "1", "files": header}, indent=1) + "\n", "utf-8")
        move_into_place(staging, folder, _FILES)
    return Report(folder, rows, symbols, types, coverage)


def _count_words(path: Path, staging: Path, manifest: Mapping[str, Any], pool: Workers) -> list[Path]:
    """Runs of how often each word occurs; a new one is begun where a Counter would grow too large."""
    runs: list[Path] = []
    counts: Counter[str] = Counter()

    def write() -> None:
        runs.append(staging / f"{path.name}.{len(runs)}.words")
        write_run(runs[-1], counts)
        counts.clear()

    with progress(f"counting words of {path.name}", manifest[path.name]["lines"]) as advance:
        for lines, found in pool.map(partial(_count_chunk, path), chunks(path, _LINES)):
            counts.update(found)
            advance(lines)
            if len(counts) > _MOST_COUNTED:
                write()
        write()
    return runs


def _count_chunk(path: Path, chunk: Chunk) -> tuple[int, Counter[str]]:
    return len(chunk.lines), Counter(chain.from_iterable(_sentences(path, chunk)))


def _sentences(path: Path, chunk: Chunk) -> list[list[str]]:
    return [parse_line(line, path, number).split() for number, line in enumerate(chunk.lines, chunk.first)]


def _encode_file(text: Path, staging: Path, side: str, dtype: str, lines: int, pool: Workers) -> tuple[int, Coverage]:
    """Writes the ids and offsets of a file of tokens; how many lines it has, and what the vocabulary covers."""
    tokens = unknown = done = 0
    encode_chunk = partial(_encode_chunk, text, staging / f"vocab.{side}", dtype)
    with (
        progress(f"encoding {text.name}", lines) as advance,
        open(staging / f"{text.name}.ids", "wb") as ids_file,
        open(staging / f"{text.name}.offsets", "wb") as offsets_file,
    ):
        offsets_file.write(np.zeros(1, _OFFSET).tobytes())
        for ids, lengths in pool.map(encode_chunk, chunks(text, _LINES)):
            ids_file.write(ids.tobytes())
            offsets_file.write((tokens + np.cumsum(lengths, dtype=_OFFSET)).astype(_OFFSET).tobytes())
            tokens += len(ids)
            unknown += int((ids == UNK).sum())
            done += len(lengths)
            advance(len(lengths))
    return done, Coverage(tokens, unknown)


def _encode_chunk(text: Path, vocabulary: Path, dtype: str, chunk: Chunk) -> tuple[Ids, NDArray[np.int64]]:
    sentences = _sentences(text, chunk)
    ids = _vocabulary(vocabulary).ids(chain.from_iterable(sentences))
    return np.array(ids, np.dtype(dtype)), np.array([len(sentence) for sentence in sentences])


def _check_annotation(folder: Path, tgt_size: int | None) -> None:
    prep = load_prep(folder)
    if "bpe" in (prep.src.segmentation, prep.tgt.segmentation):
        raise UserError(f"--unkpos: {folder} has BPE, so no words are unknown; prepare it with nmtkit prep --words")
    if not (folder / "train.align").is_file():
        raise UserError(f"{folder / 'train.align'}: not there, and --unkpos needs it; make it with nmtkit align")
    if tgt_size is not None and tgt_size <= len(ALL_SYMBOLS):
        raise UserError(f"--tgt-size {tgt_size}: with --unkpos, {len(ALL_SYMBOLS)} rows are symbols; give it more")


def _annotate_file(name: Path, dtype: str, lines: int, alignment: Path) -> str:
    """Rewrites every UNK among the ids as a symbol of UNKPOS; the hash of the alignment. Without one, all are null."""
    if alignment.is_file() and count_lines(alignment) != lines:
        raise UserError(f"{alignment} has {count_lines(alignment)} lines but the text {lines}; run nmtkit align again")
    links = read_lines(alignment) if alignment.is_file() else repeat("", lines)
    offsets = np.memmap(f"{name}.offsets", _OFFSET, "r")
    ids = np.memmap(f"{name}.ids", dtype, "r+") if offsets[-1] else np.empty(0, dtype)
    digest = hashlib.sha256()
    with progress(f"annotating {name.name}", lines) as advance:
        for number, line in enumerate(links):
            digest.update(f"{line}\n".encode())
            sentence = ids[offsets[number] : offsets[number + 1]]
            if (sentence == UNK).any():
                sentence[:] = annotate(sentence.tolist(), parse_links(line, alignment, number + 1))
            advance(1)
    return digest.hexdigest()


# One for each side per process; the path is in a staging folder, whose name never comes again.
_vocabulary = lru_cache(maxsize=2)(Vocabulary.load)
