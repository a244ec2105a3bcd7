"""``nmtkit vocab``: vocabularies from the training text of a data folder, and its text as ids that corpus.py maps."""

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
from nmtkit.lines import move_into_place, parse_line, staging_folder
from nmtkit.machine.processes import Chunk, Workers, chunks
from nmtkit.machine.progress import progress
from nmtkit.symbols import UNK
from nmtkit.text.counts import merged, write_run
from nmtkit.text.manifest import read_manifest
from nmtkit.text.raw import NO_WORDS

_LINES = 5000  # of a chunk: looking words up is quick work
_MOST_COUNTED = 500_000  # different words in memory: a hundred megabytes


class Coverage(NamedTuple):
    """The number of tokens in a file, and of those that are not in the vocabulary."""

    tokens: int
    unknown: int

    @property
    def rate(self) -> float:
        """The share of the tokens that are unknown."""
        return self.unknown / self.tokens if self.tokens else 0.0


@dataclass(frozen=True)
class VocabReport:
    """The result of ``encode``; ``str`` of it is for people."""

    folder: Path
    vocabularies: dict[SideName, Vocabulary]
    types: dict[SideName, int]  # different words in the training text
    coverage: dict[str, Coverage]  # by file

    def __str__(self) -> str:
        lines = []
        for side, vocabulary in self.vocabularies.items():
            rows, symbols = len(vocabulary), vocabulary.symbols
            lines.append(
                f"{TextFiles(self.folder).vocabulary(side)}: {rows:,} rows, which are {symbols} symbols and "
                f"{rows - symbols:,} of {self.types[side]:,} different words"
            )
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
    src_from: Path | None = None,
    tgt_from: Path | None = None,
) -> VocabReport:
    """Make the vocabularies of a data folder from its training text, and the files of ids that training maps.

    ``src_from`` and ``tgt_from`` are vocabularies of other toolkits (see foreign.py), whose words are taken instead.
    Sizes count every row, symbols included; None is everything. ``joint``: both sides have one list. ``unkpos``:
    unknown target words say where in the source they come from, by the folder's alignment. Raises UserError for a
    folder that prep did not make, or whose text was changed since, and for one that cannot be annotated.
    """
    manifest = read_manifest(folder)
    splits = [split for split in SPLITS if all(f"{split}.{side}" in manifest for side in SIDES)]
    if "train" not in splits:
        raise UserError(f"{folder / 'manifest.json'}: has no train.src and train.tgt; make the folder with nmtkit prep")
    if (src_from or tgt_from) and (joint or min_count > 1):
        what = "`joint`" if joint else f"`min_count` {min_count}"
        raise UserError(f"{what}: the words are those of {src_from or tgt_from}; leave one of the two out")
    lists = {
        side: None if path is None else read_words(path) for side, path in zip(SIDES, (src_from, tgt_from), strict=True)
    }
    if unkpos:
        check_annotation(folder, tgt_size)
    vocabularies: dict[SideName, Vocabulary] = {}
    types: dict[SideName, int] = {}
    texts: dict[str, Encoded] = {}
    coverage: dict[str, Coverage] = {}
    # Everything is made beside what is there and moved in at the end: training may be reading the old files.
    with Workers(workers) as pool, staging_folder(folder) as staging:
        runs = {side: _count_words(folder / f"train.{side}", manifest, staging, pool) for side in SIDES}
        if joint:  # one list for both sides: the counts of a word are added up when the runs are merged
            runs = dict.fromkeys(SIDES, runs["src"] + runs["tgt"])
        for side, size in zip(SIDES, (src_size, tgt_size), strict=True):
            # Only target words are annotated, but the one list of a joint vocabulary has the symbols on both sides.
            annotated = unkpos and (joint or side == "tgt")
            vocabulary = _make_vocabulary(folder / f"train.{side}", runs[side], lists[side], size, min_count, annotated)
            vocabulary.save(TextFiles(staging).vocabulary(side))
            vocabularies[side] = vocabulary
            # Read again instead of held: there may be more different words than memory.
            types[side] = sum(word not in ALL_SYMBOLS for word, _ in merged(runs[side]))
            for split in splits:
                name = f"{split}.{side}"
                texts[name], coverage[name] = _encode_file(folder / name, manifest, vocabulary, staging, pool)
                if unkpos and side == "tgt":
                    digest = annotate_file(staging / name, texts[name], folder / f"{split}.align")
                    texts[name] = replace(texts[name], alignment=digest)
        if "dev" in splits and not _has_words(staging / "dev.src", staging / "dev.tgt"):
            raise UserError(f"{folder}/dev.src, dev.tgt: {NO_WORDS}; prepare the folder again with another one")
        # Last, because a folder with a header is one with everything else.
        write_header(staging, texts)
        move_into_place(staging, folder, FILES)
    return VocabReport(folder, vocabularies, types, coverage)


def _make_vocabulary(
    text: Path, runs: Sequence[Path], words: Sequence[str] | None, size: int | None, min_count: int, annotated: bool
) -> Vocabulary:
    """The vocabulary of a side: of the given ``words``, or else of the most frequent ones by the counts in ``runs``.

    Raises UserError where there is none, naming the ``text`` that was counted.
    """
    # Words of another toolkit keep its order, so that its numbers stay what they are.
    if words is not None:
        return Vocabulary.take(words, merged(runs), size, annotated)
    vocabulary = Vocabulary.choose(merged(runs), size, min_count, annotated)
    if len(vocabulary) == vocabulary.symbols:
        raise UserError(f"{text}: no word is there {min_count} times or more; lower `min_count`")
    return vocabulary


def _count_words(path: Path, manifest: Mapping[str, Any], staging: Path, pool: Workers) -> list[Path]:
    """Runs (see counts.py) of how often each word of a file occurs, each of a bounded number of different words."""
    runs: list[Path] = []
    counts: Counter[str] = Counter()

    def write() -> None:
        """Put what was counted so far on disk."""
        runs.append(staging / f"{path.name}.{len(runs)}.words")
        write_run(runs[-1], counts)
        counts.clear()

    with progress(f"counting words of {path.name}", manifest[path.name]["lines"]) as advance:
        # A run is written whenever there are too many different words to hold, and all runs are merged later.
        for lines, chunk_counts in pool.map(partial(_count_chunk, path), chunks(path, _LINES)):
            counts.update(chunk_counts)
            advance(lines)
            if len(counts) > _MOST_COUNTED:
                write()
        write()
    return runs


def _count_chunk(path: Path, chunk: Chunk) -> tuple[int, Counter[str]]:
    """The number of lines in a chunk of ``path``, and the count of each word in it."""
    return len(chunk.lines), Counter(chain.from_iterable(_sentences(path, chunk)))


def _sentences(path: Path, chunk: Chunk) -> list[list[str]]:
    """The tokens of each line of a chunk; raises UserError for a line that is not UTF-8, as an edited file may have."""
    return [parse_line(line, path, number).split() for number, line in enumerate(chunk.lines, chunk.first)]


def _encode_file(
    path: Path, manifest: Mapping[str, Any], vocabulary: Vocabulary, staging: Path, pool: Workers
) -> tuple[Encoded, Coverage]:
    """Write the ids and offsets of a file of tokens by a vocabulary that is in ``staging`` already."""
    # Two bytes an id wherever they do: half the disk, and half of what has to be read in an epoch.
    dtype: Literal["<u2", "<u4"] = "<u2" if len(vocabulary) <= 1 << 16 else "<u4"
    lines = tokens = unknown = 0
    digest = hashlib.sha256()
    encode_chunk = partial(_encode_chunk, path, staging / f"vocab{path.suffix}", dtype)
    with (
        progress(f"encoding {path.name}", manifest[path.name]["lines"]) as advance,
        open(staging / f"{path.name}.ids", "wb") as ids_file,
        open(staging / f"{path.name}.offsets", "wb") as offsets_file,
    ):
        offsets_file.write(np.zeros(1, OFFSET).tobytes())  # where the first sentence begins
        for ids, lengths in pool.map(encode_chunk, _hashed(chunks(path, _LINES), digest)):
            ids_file.write(ids.tobytes())
            # Offsets count tokens over the whole file; a chunk knows its own lengths only.
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
    """The same chunks, whose lines go into ``digest`` on the way."""
    for chunk in parts:
        for line in chunk.lines:
            digest.update(line)
        yield chunk


def _encode_chunk(path: Path, vocabulary: Path, dtype: str, chunk: Chunk) -> tuple[Ids, NDArray[np.int64]]:
    """The ids of all tokens of a chunk of ``path``, one sentence after the other, and the sentences' lengths."""
    sentences = _sentences(path, chunk)
    ids = _vocabulary(vocabulary).ids(chain.from_iterable(sentences))
    return np.array(ids, np.dtype(dtype)), np.array([len(sentence) for sentence in sentences])


def _has_words(src: Path, tgt: Path) -> bool:
    """True if any pair of two encoded texts, given without suffix, has words on both sides."""
    # A blank line has length 0 on its side, and the minimum of both sides is 0 then.
    lengths = [np.diff(np.fromfile(f"{path}.offsets", OFFSET)) for path in (src, tgt)]
    return bool(np.minimum(*lengths).any())


# One for each side per process; the path is in a staging folder, whose name never comes again.
_vocabulary = lru_cache(maxsize=2)(Vocabulary.load)
