"""The work folder of an unfinished run of ``nmtkit prep``, from which the run can be resumed.

Training text is processed in shards of consecutive lines. The folder is in the data folder, and its name is a hash of
text and settings, so the same command finds it again on any machine.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from nmtkit.config import flatten, to_dict
from nmtkit.errors import UserError
from nmtkit.folders import SIDES, SPLITS, ModelFolder, SideName, TextFiles
from nmtkit.lines import raw_lines
from nmtkit.machine.processes import Chunk, Workers
from nmtkit.machine.progress import progress
from nmtkit.text.hashes import repeated
from nmtkit.text.held_out import sample_sets
from nmtkit.text.manifest import is_data_file, read_json, versions
from nmtkit.text.raw import Content, Files, check_outside, input_files, read, read_all, stamp
from nmtkit.text.settings import Drop, Prep, SetOptions, Side
from nmtkit.version import __version__
from nmtkit.writing import locked, real_path, report_write_errors, write_file

SHARD_LINES = 100_000  # half a minute for one process
_SHARDS = 500  # at most; larger texts have larger shards
CHUNK_LINES = 500  # lines per item of a worker: at least 0.1 s
_PARTS = "parts.json"  # the settings and text of a run with parts
_GONE = ".prep-gone-"  # prefix of a folder that is being deleted

log = logging.getLogger(__name__)


class Shard(NamedTuple):
    """Consecutive lines of the training text, the unit of resuming."""

    number: int  # from 0
    first: int  # line of the raw text, from 1
    lines: int


@dataclass(frozen=True)
class Work:
    """An unfinished run and its folder.

    Every file in the folder is complete, except train.src and train.tgt, whose progress is in train.*.done. So a run
    resumes by making the missing files.
    """

    raw: Mapping[str, Files]
    held_out: SetOptions
    contents: Mapping[str, Sequence[Content]]  # of both sides of each split, then of dev's further references
    output: Path
    prep: Prep
    folder: Path
    like: Path | None  # a folder whose truecasing and subword models are used
    made_from: Mapping[str, str]  # settings and checksums, for error messages
    stamps: Mapping[Path, tuple[int, int] | None]  # of the raw files when their contents were read
    pool: Workers  # that tokenise, count and segment

    @classmethod
    @contextmanager
    def open(
        cls,
        raw: Mapping[str, Files],
        output: Path,
        prep: Prep,
        pool: Workers,
        held_out: SetOptions,
        like: Path | None,
        shared: bool = False,
    ) -> "Iterator[Work]":
        """Open and lock the run that makes ``output`` from ``raw``; ``shared`` by the parts of one run.

        A sampled set adds the rule "overlap". Raises UserError for text that is unusable or would be
        overwritten, and if another run holds the lock.
        """
        if held_out.sizes:
            # In the order of ``Drop``, because the work folder is named after the settings.
            rules = tuple(rule for rule in get_args(Drop) if rule == "overlap" or rule in prep.cleaning.drop)
            prep = replace(prep, cleaning=replace(prep.cleaning, drop=rules))
        check_outside(raw, output, "output")
        files = input_files(raw, held_out)
        _check_overwritten(files, output)
        for split, size in held_out.sizes.items():
            if split in raw:
                raise UserError(f"`{split}_size` {size}: there is already {raw[split].src}; use only one of them")
        stamps = {path: stamp(path) for path in files}
        contents = read_all(raw, held_out.references, pool, prep.languages)
        if like is None:
            src, tgt = map(_with_form, prep.sides.values(), raw["train"], contents["train"])
            prep = replace(prep, src=src, tgt=tgt)
        # With versions, because other versions may tokenise differently.
        key: dict[str, Any] = {
            "settings": to_dict(prep), "text": contents, "dev_size": held_out.dev_size, "test_size": held_out.test_size,
            "seed": held_out.seed, "nmtkit": __version__, "versions": versions(prep), "lines of a shard": SHARD_LINES,
        }  # fmt: skip
        if like is not None:
            learnt = [path for side in SIDES for path in TextFiles(like).learnt(side) if path.is_file()]
            learnt += vocabularies(like)
            key |= {f"like, {path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in learnt}
        folder = output / f".prep-{hashlib.sha256(json.dumps([*key.values()]).encode()).hexdigest()[:12]}"
        with locked(folder, "prep", shared):
            with report_write_errors(output):
                (folder / "shards").mkdir(exist_ok=True)
            if shared and not (folder / _PARTS).exists():
                write_file(folder / _PARTS, json.dumps(_plain(key), indent=1))
            sampled = {split: Files(*(folder / f"{split}-sample.{side}" for side in SIDES)) for split in held_out.sizes}
            if any(not files.tgt.exists() for files in sampled.values()):  # of each set it is written last
                sample_sets(raw, contents["train"][0].lines, held_out, prep, sampled)
            raw = {**raw, **sampled}
            contents = {**contents, **{split: [*map(read, files)] for split, files in sampled.items()}}
            work = cls(raw, held_out, contents, output, prep, folder, like, _plain(key), stamps, pool)
            done = sum(map(work.is_clean, work.shards))
            if done:
                log.info(f"resuming: {done} of {len(work.shards)} shards are done")
            yield work

    def check_text(self) -> None:
        """Raise UserError if a raw file has changed since its contents were read."""
        given = {split: files for split, files in self.raw.items() if split not in self.held_out.sizes}
        for path in {**self.stamps, **dict.fromkeys(input_files(given, self.held_out))}:
            if path not in self.stamps or stamp(path) != self.stamps[path]:
                raise UserError(f"{path}: changed while prep was reading it; run nmtkit prep again")

    @property
    def others(self) -> list[Path]:
        """Work folders of runs with other settings or another text."""
        return [path for path in sorted(self.output.glob(".prep-*")) if path != self.folder]

    @property
    def with_shards(self) -> list[Path]:
        """Those of the others that have clean shards."""
        return [path for path in self.others if not path.name.startswith(_GONE) and any(path.glob("shards/*.lost"))]

    def check_parts(self) -> None:
        """Raise UserError if parts of another run have left shards, which may be days of work."""
        for path in self.with_shards:
            if (path / _PARTS).is_file():
                theirs, ours = read_json(path / _PARTS, f"delete {path}"), self.made_from
                changed = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
                changes = "; ".join(f"{n} {theirs.get(n, 'none')}, now {ours.get(n, 'none')}" for n in changed)
                shards = f"has shards made by `shard` with other settings or another text ({changes})"
                raise UserError(f"{path}: {shards}; use the same ones, or delete this folder")

    def remove_others(self) -> None:
        """Delete the work folders of other runs. Raises UserError if one of them is in use."""
        for old in self.others:
            with locked(old, "prep"), report_write_errors(self.output):
                remove(old)
            log.info(f"{old}: removed; it belonged to another run, with other settings or another text")

    @property
    def pairs(self) -> int:
        """The number of pairs in the raw training text."""
        return self.contents["train"][0].lines

    @cached_property
    def shards(self) -> list[Shard]:
        """The shards of the training text in order."""
        size = max(SHARD_LINES, -(-self.pairs // _SHARDS))
        starts = range(0, self.pairs, size)
        return [Shard(i, start + 1, min(size, self.pairs - start)) for i, start in enumerate(starts)]

    def shard_file(self, shard: Shard, name: str) -> Path:
        """The file ``name`` of a shard: src and tgt (tokens), hashes, lost, or counts."""
        return self.folder / "shards" / f"{shard.number:03}.{name}"

    def is_clean(self, shard: Shard) -> bool:
        """True if the shard is tokenised and cleaned."""
        return self.shard_file(shard, "lost").is_file()  # it is written last

    def lost(self, shard: Shard) -> list[tuple[int, str]]:
        """Line number and rule of each pair left out, in order."""
        lost = json.loads(self.shard_file(shard, "lost").read_text(encoding="utf-8"))
        if "duplicate" not in self.prep.cleaning.drop:
            return [(line, rule) for line, rule in lost]
        # Only the remaining pairs have hashes, and so entries in the mask of duplicates.
        dropped = {line for line, _ in lost}
        kept = [line for line in range(shard.first, shard.first + shard.lines) if line not in dropped]
        return sorted([*map(tuple, lost), *((line, "duplicate") for line in compress(kept, self.repeated[shard]))])

    def tokens(self, shard: Shard, side: SideName) -> Iterator[Chunk]:
        """The tokens of the remaining pairs of a clean shard, in chunks without meaningful line numbers."""
        lines = raw_lines(self.shard_file(shard, side))
        if "duplicate" in self.prep.cleaning.drop:
            lines = compress(lines, ~self.repeated[shard])
        while chunk := list(islice(lines, CHUNK_LINES)):
            yield Chunk(1, chunk)

    @cached_property
    def repeated(self) -> dict[Shard, NDArray[np.bool_]]:
        """For each clean shard a mask of duplicates among its remaining pairs."""
        files = [self.shard_file(shard, "hashes") for shard in self.shards]
        with progress("looking for duplicate pairs"):
            return dict(zip(self.shards, repeated(files), strict=True))


def vocabularies(like: Path) -> list[Path]:
    """The vocabularies of a model folder, which limit its subwords; those of a data folder do not."""
    paths = [TextFiles(like).vocabulary(side) for side in SIDES] if ModelFolder(like).config.is_file() else []
    return [path for path in paths if path.is_file()]


def _with_form(side: Side, path: Path, content: Content) -> Side:
    """The side with the normal form of most of its training text; Moses' tokens stay as Moses makes them.

    Text of which most lines are in neither form, as Bengali with the usual letters RRA and YYA, stays as it is written.
    """
    if side.tokenizer != "reversible":
        return side
    form: Literal["NFC", "NFD"] = "NFD" if content.nfd < content.nfc else "NFC"
    others = min(content.nfc, content.nfd)
    if 2 * others > content.lines:
        return side
    if others:
        log.info(
            f"{path}: {others:,} of {content.lines:,} lines are converted to {form}, the normal form of the others"
        )
    return replace(side, form=form)


def _check_overwritten(files: Sequence[Path], output: Path) -> None:
    """Raise UserError if a raw text, or any text in a folder that prep has not made, would be overwritten."""
    for path in files:
        real = real_path(path)
        if is_data_file(real.name) and real.parent == real_path(output):
            raise UserError(f"{path}: would be overwritten; choose another folder or another name")
    if any(output.glob(".prep-*")) or any((output / name).exists() for name in ("manifest.json", "ids.json")):
        return
    for path in (output / f"{split}.{side}" for split in SPLITS for side in SIDES):
        if path.exists():
            raise UserError(f"{path}: not made by prep, and would be overwritten; choose another folder")


def _plain(key: Mapping[str, Any]) -> dict[str, str]:
    """The settings and text checksums of a run, flat and shortened for error messages."""
    sums = {f"text {name}": " ".join(file.sha256[:12] for file in files) for name, files in key["text"].items()}
    others = {name: value for name, value in key.items() if name not in ("settings", "text")}
    return {name: str(value)[:60] for name, value in flatten({**key["settings"], **others, **sums}).items()}


def remove(folder: Path) -> None:
    """Delete a work folder, renamed first so that no run resumes a half-deleted one."""
    shutil.rmtree(folder.rename(folder.with_name(f"{_GONE}{uuid4().hex}")))


def split_lines(chunk: Chunk) -> Iterator[list[str]]:
    """The tokens of each line of a chunk."""
    return (line.decode().split() for line in chunk.lines)


def join_lines(sentences: Iterable[list[str]]) -> bytes:
    """Tokenised sentences as lines."""
    return "".join(" ".join(tokens) + "\n" for tokens in sentences).encode()
