"""``nmtkit vocab``: build the vocabularies of a data folder, and encode its text as ids for corpus.py."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmtkit.data.annotation import annotate_file, check_annotation
from nmtkit.data.corpus import FILES, OFFSET, Encoded, Ids, write_header
from nmtkit.data.foreign import read_words
from nmtkit.data.vocab import ALL_SYMBOLS, Vocabulary
from nmtkit.errors import UserError
from nmtkit.folders import SIDES, SPLITS, SideName, TextFiles
from nmtkit.machine.processes import Chunk, Workers, chunks
from nmtkit.machine.progress import progress
from nmtkit.symbols import UNK
from nmtkit.text.counts import merged, write_run
from nmtkit.text.manifest import check_there, read_manifest
from nmtkit.text.raw import NO_WORDS, Files, has_words
from nmtkit.writing import locked, move_into_place, staging_folder

_LINES = 5000  # of a chunk
_MOST_COUNTED = 500_000  # word types in memory, about 100 MB


class Coverage(NamedTuple):
    """The number of tokens in a file, and of those out of vocabulary."""

    tokens: int
    unknown: int

    @property
    def rate(self) -> float:
        """The share of out-of-vocabulary tokens."""
        return self.unknown / self.tokens if self.tokens else 0.0


@dataclass(frozen=True)
class VocabReport:
    """The result of ``encode``; ``str`` gives the printed report."""

    folder: Path
    vocabularies: dict[SideName, Vocabulary]
    types: dict[SideName, int]  # word types in the training text
    coverage: dict[str, Coverage]  # by file

    def __str__(self) -> str:
        lines = []
        for side, vocabulary in self.vocabularies.items():
            rows, symbols = len(vocabulary), vocabulary.symbols
            words = sum(count > 0 for count in vocabulary.counts)
            more = f", {rows - symbols - words:,} not in the training text" if words < rows - symbols else ""
            lines.append(
                f"{TextFiles(self.folder).vocabulary(side)}: {rows:,} rows, {symbols} symbols and "
                f"{words:,} of {self.types[side]:,} word types{more}"
            )
        for split in SPLITS:
            if f"{split}.src" in self.coverage:
                src, tgt = (self.coverage[f"{split}.{side}"] for side in SIDES)
                lines.append(
                    f"  {split:<5} {src.tokens:,} + {tgt.tokens:,} tokens, of which {1 - src.rate:.2%} + "
                    f"{1 - tgt.rate:.2%} covered, {src.unknown:,} + {tgt.unknown:,} unknown"
                )
        return "\n".join(lines)

    __repr__ = __str__


def encode(
    folder: Path,
    src_size: int | None,
    tgt_size: int | None,
    min_count: int,
    joint: bool,
    workers: int | None,
    unkpos: bool = False,
    src_from: Path | None = None,
    tgt_from: Path | None = None,
) -> VocabReport:
    """Build the vocabularies of a data folder from its training text, and encode its text.

    src_size, tgt_size: maximum number of words, symbols included; None: no limit. joint: one vocabulary for both sides.
    unkpos: annotate unknown target words with their source positions, from the folder's alignment. src_from, tgt_from:
    vocabulary files of other toolkits (foreign.py) to use instead. Raises UserError if the folder was not made by prep,
    its text has changed, or it cannot be annotated.
    """
    manifest = read_manifest(folder)
    splits = [split for split in SPLITS if all(f"{split}.{side}" in manifest for side in SIDES)]
    if "train" not in splits:
        raise UserError(f"{folder / 'manifest.json'}: has no train.src and train.tgt; make the folder with nmtkit prep")
    for name in (f"{split}.{side}" for split in splits for side in SIDES):
        check_there(folder / name)
    if "dev" in splits and not has_words(Files(folder / "dev.src", folder / "dev.tgt")):
        raise UserError(f"{folder}/dev.src, dev.tgt: {NO_WORDS}; prepare the folder again with another one")
    if (src_from or tgt_from) and (joint or min_count > 1):
        what = "`joint`" if joint else f"`min_count` {min_count}"
        raise UserError(f"{what}: the words come from {src_from or tgt_from}; use only one of the two")
    lists = [None if path is None else read_words(path) for path in (src_from, tgt_from)]
    if unkpos:
        check_annotation(folder, tgt_size)
    vocabularies: dict[SideName, Vocabulary] = {}
    types: dict[SideName, int] = {}
    texts: dict[str, Encoded] = {}
    coverage: dict[str, Coverage] = {}
    # Renamed at the end, because training may be reading the old files.
    with Workers(workers) as pool, locked(folder, "vocab"), staging_folder(folder) as staging:
        runs = {side: _count_words(folder / f"train.{side}", manifest, staging, pool) for side in SIDES}
        if joint:  # merging adds the counts of both sides
            runs = dict.fromkeys(SIDES, runs["src"] + runs["tgt"])
        for side, size, words in zip(SIDES, (src_size, tgt_size), lists, strict=True):
            # Only the target side is annotated, but a joint vocabulary has the symbols on both sides.
            annotated = unkpos and (joint or side == "tgt")
            vocabulary = _make_vocabulary(folder / f"train.{side}", runs[side], words, size, min_count, annotated)
            vocabulary.save(TextFiles(staging).vocabulary(side))
            vocabularies[side] = vocabulary
            types[side] = sum(word not in ALL_SYMBOLS for word, _ in merged(runs[side]))
            for split in splits:
                name = f"{split}.{side}"
                texts[name], coverage[name] = _encode_file(folder / name, manifest, vocabulary, staging, pool)
                if unkpos and side == "tgt":
                    digest = annotate_file(staging / name, texts[name], folder / f"{split}.align")
                    texts[name] = replace(texts[name], alignment=digest)
        write_header(staging, texts)
        move_into_place(staging, folder, FILES)
    return VocabReport(folder, vocabularies, types, coverage)


def _make_vocabulary(
    text: Path, runs: Sequence[Path], words: Sequence[str] | None, size: int | None, min_count: int, annotated: bool
) -> Vocabulary:
    """The vocabulary of a side: the given ``words``, or else the most frequent words of ``runs``.

    Raises UserError that names ``text`` if there are none.
    """
    if words is not None:
        return Vocabulary.take(words, merged(runs), size, annotated)
    vocabulary = Vocabulary.choose(merged(runs), size, min_count, annotated)
    if len(vocabulary) == vocabulary.symbols:
        raise UserError(f"{text}: no word occurs {min_count} times or more; lower `min_count`")
    return vocabulary


def _count_words(path: Path, manifest: Mapping[str, Any], staging: Path, pool: Workers) -> list[Path]:
    """The word counts of a file as runs (counts.py), each with a limited number of word types."""
    runs: list[Path] = []
    counts: Counter[str] = Counter()

    def write() -> None:
        runs.append(staging / f"{path.name}.{len(runs)}.words")
        write_run(runs[-1], sorted(counts.items()))
        counts.clear()

    with progress(f"counting words of {path.name}", manifest[path.name]["lines"]) as advance:
        for lines, chunk_counts in pool.map(partial(_count_chunk, path), chunks(path, _LINES)):
            counts.update(chunk_counts)
            advance(lines)
            if len(counts) > _MOST_COUNTED:
                write()
        write()
    return runs


def _count_chunk(path: Path, chunk: Chunk) -> tuple[int, Counter[str]]:
    """The number of lines of a chunk, and its word counts."""
    return len(chunk.lines), Counter(chain.from_iterable(map(str.split, chunk.text(path))))


def _encode_file(
    path: Path, manifest: Mapping[str, Any], vocabulary: Vocabulary, staging: Path, pool: Workers
) -> tuple[Encoded, Coverage]:
    """Write the ids and offsets of a tokenised file; the vocabulary is in ``staging``."""
    dtype: Literal["<u2", "<u4"] = "<u2" if len(vocabulary) <= 1 << 16 else "<u4"
    lines = tokens = unknown = 0
    digest = hashlib.sha256()
    encode_chunk = partial(_encode_chunk, path, staging / f"vocab{path.suffix}", dtype)
    with (
        progress(f"encoding {path.name}", manifest[path.name]["lines"]) as advance,
        open(staging / f"{path.name}.ids", "wb") as ids_file,
        open(staging / f"{path.name}.offsets", "wb") as offsets_file,
    ):
        offsets_file.write(np.zeros(1, OFFSET).tobytes())
        for ids, lengths in pool.map(encode_chunk, _hashed(chunks(path, _LINES), digest)):
            ids_file.write(ids.tobytes())
            offsets_file.write((tokens + np.cumsum(lengths, dtype=OFFSET)).astype(OFFSET).tobytes())
            tokens += len(ids)
            unknown += int((ids == UNK).sum())
            lines += len(lengths)
            advance(len(lengths))
    if digest.hexdigest() != manifest[path.name]["sha256"]:
        raise UserError(f"{path}: changed since prep wrote it; make the folder again with nmtkit prep")
    encoded = Encoded(dtype, lines, tokens, digest.hexdigest(), vocabulary.fingerprint)
    return encoded, Coverage(tokens, unknown)


def _hashed(parts: Iterable[Chunk], digest: "hashlib._Hash") -> Iterator[Chunk]:
    """The same chunks, with ``digest`` updated as they pass."""
    for chunk in parts:
        for line in chunk.lines:
            digest.update(line)
        yield chunk


def _encode_chunk(path: Path, vocabulary: Path, dtype: str, chunk: Chunk) -> tuple[Ids, NDArray[np.int64]]:
    """The concatenated ids of a chunk, and its sentence lengths."""
    sentences = list(map(str.split, chunk.text(path)))
    ids = _vocabulary(vocabulary).ids(chain.from_iterable(sentences))
    return np.array(ids, np.dtype(dtype)), np.array(list(map(len, sentences)))


# Cached per process and side; staging folders have unique names.
_vocabulary = lru_cache(maxsize=2)(Vocabulary.load)
