"""Tokenisation and cleaning of training text, shard by shard, and statistics of the pairs left out."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.folders import SPLITS
from nmtkit.lines import raw_lines, read_lines
from nmtkit.machine.processes import Chunk, chunks
from nmtkit.machine.progress import progress
from nmtkit.text.hashes import load_hashes, pair_hash
from nmtkit.text.manifest import line_numbers
from nmtkit.text.raw import Files
from nmtkit.text.rules import broken_rule, describe_rule, rules_of, tokenized
from nmtkit.text.settings import Prep
from nmtkit.text.work import CHUNK_LINES, Shard, Work, join_lines
from nmtkit.writing import atomic_write, write_file

_FIRST_LINES = 10  # line numbers per rule in the manifest
_MANY = 0.1  # warn if a larger share of the training pairs is left out

log = logging.getLogger(__name__)


def clean_shards(work: Work, part: tuple[int, int]) -> None:
    """Clean part i of n of the training text (every n-th shard), except shards that are done.

    Writes the tokens of the remaining pairs of each shard, and the line numbers and rules of the others.
    """
    i, n = part
    # Every n-th shard, so that all parts have the same mixture of corpora.
    todo = [shard for shard in work.shards[i - 1 :: n] if not work.is_clean(shard)]
    if not todo:
        return
    heldout = work.folder / f"heldout-{i}-{n}"  # one per part, because parts run concurrently
    if "overlap" in work.prep.cleaning.drop:
        _write_heldout_hashes(work, heldout)
    clean = partial(_clean, work.prep, work.raw["train"], heldout)
    with progress("tokenising and cleaning train", sum(shard.lines for shard in todo)) as advance:
        # One stream over all shards, so that no process is idle at the end of a shard.
        cleaned = work.pool.map(clean, paired_chunks(work.raw["train"], todo))
        for shard in todo:
            lost: list[tuple[int, str]] = []
            names = ("src", "tgt", "hashes") if "duplicate" in work.prep.cleaning.drop else ("src", "tgt")
            with ExitStack() as stack:
                # Atomic writes, and "lost" comes last: a shard that has it is complete.
                files = [stack.enter_context(atomic_write(work.shard_file(shard, name), "wb")) for name in names]
                # ``paired_chunks`` ends a chunk at the end of each shard.
                for pairs, contents, lost_of_chunk in islice(cleaned, -(-shard.lines // CHUNK_LINES)):
                    for file, content in zip(files, contents, strict=False):
                        file.write(content)
                    lost += lost_of_chunk
                    advance(pairs)
            work.check_text()
            write_file(work.shard_file(shard, "lost"), json.dumps(lost))


def paired_chunks(files: Files, shards: Sequence[Shard]) -> Iterator[tuple[Chunk, Chunk]]:
    """The raw lines of these shards in order; no chunk crosses the end of a shard.

    Raises UserError if the files have fewer lines.
    """
    src, tgt = raw_lines(files.src), raw_lines(files.tgt)  # from the start, because compressed files cannot seek
    line = 1
    for shard in shards:
        for side in (src, tgt):
            next(islice(side, shard.first - line, shard.first - line), None)
        line = shard.first + shard.lines
        for first in range(shard.first, line, CHUNK_LINES):
            size = min(CHUNK_LINES, line - first)
            both = [list(islice(side, size)) for side in (src, tgt)]
            if min(map(len, both)) < size:
                raise UserError(f"{files.src}, {files.tgt}: became shorter while prep was reading them; run it again")
            yield Chunk(first, both[0]), Chunk(first, both[1])


def _clean(
    prep: Prep, files: Files, heldout: Path, chunk: tuple[Chunk, Chunk]
) -> tuple[int, tuple[bytes, bytes, bytes], list[tuple[int, str]]]:
    """Tokenise the pairs of a chunk and apply every rule for single pairs.

    Returns the number of pairs; the tokens of both sides of the remaining pairs and, if duplicates are dropped, their
    8-byte hashes; and the line number and rule of each of the others.
    """
    src_kept, tgt_kept, lost = [], [], []
    known = _heldout_hashes(heldout) if "overlap" in prep.cleaning.drop else frozenset[bytes]()
    sides = (lines.text(path) for path, lines in zip(files, chunk, strict=True))
    for number, (src_line, tgt_line) in enumerate(zip(*sides, strict=True), chunk[0].first):
        src, tgt = tokenized(prep, src_line, tgt_line)
        if rule := broken_rule(src_line + tgt_line, src, tgt, prep, known):
            lost.append((number, rule))
        else:
            src_kept.append(src)
            tgt_kept.append(tgt)
    # Only the remaining pairs are hashed, because duplicates of a pair that is left out are not duplicates.
    hashes = map(pair_hash, src_kept, tgt_kept) if "duplicate" in prep.cleaning.drop else ()
    return len(chunk[0].lines), (join_lines(src_kept), join_lines(tgt_kept), b"".join(hashes)), lost


def _write_heldout_hashes(work: Work, path: Path) -> None:
    """Write the hashes of the tokenised development and test pairs."""
    files = [work.raw[split] for split in SPLITS[1:] if split in work.raw]
    with progress("reading dev and test"), atomic_write(path, "wb") as file:
        for pair in files:
            pairs = zip(chunks(pair.src, CHUNK_LINES), chunks(pair.tgt, CHUNK_LINES), strict=True)
            file.writelines(work.pool.map(partial(_hash, work.prep, pair), pairs))


def _hash(prep: Prep, files: Files, chunk: tuple[Chunk, Chunk]) -> bytes:
    """The concatenated hashes of the pairs of a chunk of development or test text."""
    sides = (lines.text(path) for path, lines in zip(files, chunk, strict=True))
    return b"".join(pair_hash(*tokenized(prep, src, tgt)) for src, tgt in zip(*sides, strict=True))


def report_lost(work: Work) -> dict[str, dict[str, Any]]:
    """The number of pairs and the first line numbers for each rule.

    Warns if many pairs are left out besides sampled sets. Raises UserError if all are.
    """
    account: dict[str, dict[str, Any]] = {rule: {"count": 0, "lines": []} for rule in rules_of(work.prep.cleaning)}
    for shard in work.shards:
        for line, rule in work.lost(shard):
            account[rule]["count"] += 1
            account[rule]["lines"] += [line] if len(account[rule]["lines"]) < _FIRST_LINES else []
    counts, files = {rule: int(entry["count"]) for rule, entry in account.items()}, work.raw["train"]
    moved = sum(work.held_out.sizes.values())
    if moved:
        counts["overlap"] -= moved
    lost = sum(counts.values())
    if lost > _MANY * work.pairs:  # misaligned sides, or a wrong language
        rule = max(counts, key=counts.__getitem__)
        message = (
            f"{lost:,} of the {work.pairs:,} training pairs ({lost / work.pairs:.0%}) are left out, "
            f"most of them for {describe_rule(rule, work.prep.cleaning)}: "
            f"see {line_numbers(account[rule], files.src)} of {files.src} and {files.tgt}"
        )
        if lost + moved == work.pairs:
            raise UserError(message)
        log.warning(message)
    return account


def write_rejected(work: Work, path: Path) -> None:
    """Write line number, rule and both raw sides of every pair left out, tab-separated."""
    pairs = enumerate(zip(*map(read_lines, work.raw["train"]), strict=True), 1)
    with progress(f"writing {path}"), atomic_write(path) as file:
        for number, rule in chain.from_iterable(map(work.lost, work.shards)):
            texts = next(pair for line, pair in pairs if line == number)
            file.write("\t".join([str(number), rule, *(text.replace("\t", " ") for text in texts)]) + "\n")


# Cached per process; the path determines the content, because the work folder is named after its settings.
_heldout_hashes = lru_cache(maxsize=1)(load_hashes)
