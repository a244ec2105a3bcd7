"""An unfinished run of ``nmtkit prep`` and its folder, where a later run finds what is done.

Training text is worked on in shards of consecutive lines. The folder lies inside the data folder and is named after
the text and the settings, so that the same command finds it again, here or on another machine.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from nmtkit.config import flatten, to_dict
from nmtkit.errors import UserError
from nmtkit.folders import SIDES, SPLITS, SideName, TextFiles
from nmtkit.lines import atomic_write, file_of, locked, raw_lines, real_path, report_write_errors
from nmtkit.machine.processes import Chunk, Workers, chunks
from nmtkit.machine.progress import progress
from nmtkit.text.development import draw
from nmtkit.text.hashes import repeated
from nmtkit.text.manifest import is_data_file, read_json, versions
from nmtkit.text.raw import Content, Files, read, read_all
from nmtkit.text.settings import Development, Prep
from nmtkit.version import __version__

SHARD_LINES = 100_000  # half a minute's work for one process
_SHARDS = 500  # at most, by making them larger: so many files are read together
CHUNK_LINES = 500  # that a process works on: a tenth of a second or more, and little memory
_PARTS = "parts.json"  # in a folder that parts of a run share: what they were made of
_GONE = ".prep-gone-"  # begins the name of a folder that is being deleted

log = logging.getLogger(__name__)


class Shard(NamedTuple):
    """Consecutive lines of the training text, which one process after the other works on and leaves as files."""

    number: int  # from 0
    first: int  # line of the raw text, from 1
    lines: int


@dataclass(frozen=True)
class Work:
    """An unfinished run and its folder.

    A file that is in the folder is complete, but for train.src and train.tgt, beside which a note says how far they
    are. So a run that was ended, at whatever moment, goes on by making what is not there.
    """

    raw: Mapping[str, Files]
    development: Development
    contents: Mapping[str, Sequence[Content]]  # of both sides of each split, then of dev's other references
    output: Path
    prep: Prep
    folder: Path  # inside the output, named after everything that decides what is made
    like: Path | None  # a folder whose models of case and subwords are taken
    made_from: Mapping[str, str]  # everything that decides what is made, as users are told of it

    @classmethod
    @contextmanager
    def open(
        cls,
        raw: Mapping[str, Files],
        output: Path,
        prep: Prep,
        pool: Workers,
        development: Development,
        like: Path | None,
        shared: bool = False,
    ) -> "Iterator[Work]":
        """The run that makes ``output`` of ``raw``, with the lock of its folder; ``shared`` by the parts of one run.

        Raises UserError for text that cannot be used, or that would be overwritten, and where another run is at work.
        """
        _check_overwritten([*chain(development.references, *raw.values())], output)
        # Two development sets would be one too many, and nobody could say which was meant.
        if development.size and "dev" in raw:
            raise UserError(f"`dev_size` {development.size}: {raw['dev'].src} is there; leave one of the two out")
        contents = read_all(raw, development.references, pool)
        # Everything that decides what is made, versions included: another version may tokenise differently.
        key: dict[str, Any] = {
            "settings": to_dict(prep), "text": contents, "dev_size": development.size, "seed": development.seed,
            "nmtkit": __version__, "versions": versions(prep), "lines of a shard": SHARD_LINES,
        }  # fmt: skip
        if like is not None:
            learnt = [path for side in SIDES for path in TextFiles(like).learnt(side) if path.is_file()]
            key |= {f"like, {path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in learnt}
        folder = output / f".prep-{hashlib.sha256(json.dumps([*key.values()]).encode()).hexdigest()[:12]}"
        with locked(folder, "prep", shared):
            with report_write_errors(output):
                (folder / "shards").mkdir(exist_ok=True)
            if shared and not (folder / _PARTS).exists():
                with atomic_write(folder / _PARTS) as file:
                    file.write(json.dumps(_plain(key), indent=1))
            if development.size:
                drawn = Files(folder / "drawn.src", folder / "drawn.tgt")
                if not drawn.tgt.exists():  # which is written last
                    draw(raw, contents["train"][0].lines, development.size, development.seed, prep, drawn)
                raw, contents = {**raw, "dev": drawn}, {**contents, "dev": [read(path) for path in drawn]}
            work = cls(raw, development, contents, output, prep, folder, like, _plain(key))
            done = sum(map(work.is_clean, work.shards))
            if done:
                log.info(f"going on: {done} of {len(work.shards)} shards are clean already")
            yield work

    @property
    def others(self) -> list[Path]:
        """What runs with other settings or of another text have left in the data folder, or are at work on."""
        return [path for path in sorted(self.output.glob(".prep-*")) if path != self.folder]

    @property
    def with_shards(self) -> list[Path]:
        """Those of the others that somebody may want to go on with: they have clean shards."""
        return [path for path in self.others if not path.name.startswith(_GONE) and any(path.glob("shards/*.lost"))]

    def check_parts(self) -> None:
        """Raise UserError for shards that parts of another run have made, perhaps in days and on many machines."""
        for path in self.with_shards:
            if (path / _PARTS).is_file():
                theirs, ours = read_json(path / _PARTS, f"delete {path}"), self.made_from
                names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
                changed = "; ".join(
                    f"{name} {theirs.get(name, 'none')}, now {ours.get(name, 'none')}" for name in names
                )
                raise UserError(
                    f"{path}: its shards were made with `shard` and other settings or of another text ({changed}); "
                    "go on with the same ones, or delete this folder"
                )

    def remove_others(self) -> None:
        """Delete what other runs have left. Raises UserError where one of them is at work."""
        for old in self.others:
            # Its lock says that it is not left but at work.
            with locked(old, "prep"), report_write_errors(self.output):
                remove(old)
            log.info(f"{old}: of a run that has ended, or had other settings or another text; removed")

    @property
    def pairs(self) -> int:
        """The number of pairs in the raw training text."""
        return self.contents["train"][0].lines

    @cached_property
    def shards(self) -> list[Shard]:
        """All shards of the training text in their order."""
        # -(-a // b) is a / b rounded up.
        size = max(SHARD_LINES, -(-self.pairs // _SHARDS))
        starts = range(0, self.pairs, size)
        return [Shard(i, start + 1, min(size, self.pairs - start)) for i, start in enumerate(starts)]

    def shard_file(self, shard: Shard, name: str) -> Path:
        """The file ``name`` of a shard: src and tgt (tokens), hashes, lost, and counts."""
        return self.folder / "shards" / f"{shard.number:03}.{name}"

    def is_clean(self, shard: Shard) -> bool:
        """True if the shard is tokenised and cleaned."""
        return self.shard_file(shard, "lost").is_file()  # it is written last

    def lost(self, shard: Shard) -> list[tuple[int, str]]:
        """Line number and rule of each pair that does not stay, in their order."""
        # Whether a pair was there before is not known while shards are cleaned, because others come before it.
        lost = json.loads(self.shard_file(shard, "lost").read_text(encoding="utf-8"))
        if "duplicate" not in self.prep.cleaning.drop:
            return [(line, rule) for line, rule in lost]
        # There are hashes, and marks, of the pairs that stay only: each belongs to the next line that is not gone.
        gone = {line for line, _ in lost}
        kept = [line for line in range(shard.first, shard.first + shard.lines) if line not in gone]
        return sorted([*map(tuple, lost), *((line, "duplicate") for line in compress(kept, self.repeated[shard]))])

    def tokens(self, shard: Shard, side: SideName) -> Iterator[Chunk]:
        """The pairs of a clean shard that stay, in chunks."""
        if "duplicate" not in self.prep.cleaning.drop:
            return chunks(self.shard_file(shard, side), CHUNK_LINES)
        return _chunks(compress(raw_lines(self.shard_file(shard, side)), ~self.repeated[shard]))

    @cached_property
    def repeated(self) -> dict[Shard, NDArray[np.bool_]]:
        """The pairs of each clean shard that were there before, as marks."""
        files = [self.shard_file(shard, "hashes") for shard in self.shards]
        with progress("looking for duplicate pairs"):
            return dict(zip(self.shards, repeated(files, self.folder / "repeated"), strict=True))


def _check_overwritten(texts: Sequence[Path], output: Path) -> None:
    """Raise UserError if the data folder ``output`` would have a file in the place of one of the raw texts.

    Or in the place of any text, if ``prep`` has not made the folder: it may be the user's own.
    """
    for path in texts:
        real = real_path(file_of(path)[0])  # a link to a text is that text
        if is_data_file(real.name) and real.parent == real_path(output):
            raise UserError(f"{path}: would be overwritten; choose another folder or another name")
    if any(output.glob(".prep-*")) or any((output / name).exists() for name in ("manifest.json", "ids.json")):
        return
    for path in (output / f"{split}.{side}" for split in SPLITS for side in SIDES):
        if path.exists():
            raise UserError(f"{path}: of no data folder, and would be overwritten; choose another folder")


def _plain(key: Mapping[str, Any]) -> dict[str, str]:
    """What decides what is made, each value by its name and short enough to be shown; a text by its checksums."""
    sums = {f"text {name}": " ".join(file.sha256[:12] for file in files) for name, files in key["text"].items()}
    others = {name: value for name, value in key.items() if name not in ("settings", "text")}
    return {name: str(value)[:60] for name, value in flatten({**key["settings"], **others, **sums}).items()}


def remove(folder: Path) -> None:
    """Delete a work folder under a name that no run looks for: half of one must not be gone on with."""
    # Where this is ended half-way, the next run finds it among what others have left.
    shutil.rmtree(folder.rename(folder.with_name(f"{_GONE}{uuid4().hex}")))


def _chunks(lines: Iterator[bytes]) -> Iterator[Chunk]:
    """Lines in chunks whose numbers mean nothing, since lines before them are left out."""
    while chunk := list(islice(lines, CHUNK_LINES)):
        yield Chunk(1, chunk)


def split_lines(chunk: Chunk) -> Iterator[list[str]]:
    """The tokens of each line of a file that prep wrote."""
    return (line.decode().split() for line in chunk.lines)


def join_lines(sentences: Iterable[list[str]]) -> bytes:
    """Tokens as the lines of such a file."""
    return "".join(" ".join(tokens) + "\n" for tokens in sentences).encode()
