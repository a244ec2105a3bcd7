"""Training text tokenised and cleaned, shard by shard, and an account of the pairs that are left out."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from nmtkit.errors import UserError
from nmtkit.folders import SPLITS
from nmtkit.lines import atomic_write, parse_line, raw_lines
from nmtkit.machine.processes import Chunk, Workers, chunks
from nmtkit.machine.progress import progress
from nmtkit.text.hashes import load_hashes, pair_hash
from nmtkit.text.manifest import line_numbers
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.raw import Files
from nmtkit.text.rules import broken_rule, describe_rule, rules_of
from nmtkit.text.settings import Prep
from nmtkit.text.work import CHUNK_LINES, Shard, Work, join_lines

_FIRST_LINES = 10  # that a rule's entry in the manifest names
_MANY = 0.1  # losing more than this share of the training pairs deserves a warning

log = logging.getLogger(__name__)


def clean_shards(work: Work, part: tuple[int, int], pool: Workers) -> None:
    """Clean part i of n of the training text, which is every n-th shard, where that is not done yet.

    Of each shard this writes the tokens of the pairs that may stay, and last of all which may not, and why.
    """
    i, n = part
    # Every n-th, so that each part has equally much of every corpus of which the text is put together.
    todo = [shard for shard in work.shards[i - 1 :: n] if not work.is_clean(shard)]
    if not todo:
        return
    heldout = work.folder / f"heldout-{i}-{n}"  # of each part its own, because parts do not wait for each other
    if "overlap" in work.prep.cleaning.drop:
        _write_heldout_hashes(work, heldout, pool)
    clean = partial(_clean, work.prep, work.raw["train"], heldout)
    with progress("tokenising and cleaning train", sum(shard.lines for shard in todo)) as advance:
        # One stream over all shards, so that no process is idle while a shard comes to its end.
        cleaned = pool.map(clean, _paired_chunks(work.raw["train"], todo))
        for shard in todo:
            lost: list[tuple[int, str]] = []
            names = ("src", "tgt", "hashes") if "duplicate" in work.prep.cleaning.drop else ("src", "tgt")
            with ExitStack() as stack:
                # They appear with their last line, and "lost" after them: a shard that has it is whole.
                files = [stack.enter_context(atomic_write(work.shard_file(shard, name), "wb")) for name in names]
                # As many chunks as the shard has, rounded up: ``_paired_chunks`` cuts at its end.
                for chunk in islice(cleaned, -(-shard.lines // CHUNK_LINES)):
                    for file, content in zip(files, (chunk.src, chunk.tgt, chunk.hashes), strict=False):
                        file.write(content)
                    lost += chunk.lost
                    advance(chunk.pairs)
            with atomic_write(work.shard_file(shard, "lost")) as note:
                note.write(json.dumps(lost))


def _paired_chunks(files: Files, shards: Sequence[Shard]) -> Iterator[tuple[Chunk, Chunk]]:
    """The raw lines of some shards, in order; no chunk reaches over the end of a shard.

    The files are read from their beginning, lines of other shards too: compressed text has no other way.
    """
    src, tgt = raw_lines(files.src), raw_lines(files.tgt)
    line = 1
    for shard in shards:
        for side in (src, tgt):
            next(islice(side, shard.first - line, shard.first - line), None)
        line = shard.first + shard.lines
        for first in range(shard.first, line, CHUNK_LINES):
            size = min(CHUNK_LINES, line - first)
            yield Chunk(first, list(islice(src, size))), Chunk(first, list(islice(tgt, size)))


class _Pairs(NamedTuple):
    """The result of cleaning a chunk of training text."""

    pairs: int  # in the chunk
    src: bytes  # the lines of tokens of those that may stay
    tgt: bytes
    hashes: bytes  # of the same, eight bytes each, if duplicates are looked for
    lost: list[tuple[int, str]]  # of the others the line number and the rule that they break


def _clean(prep: Prep, files: Files, heldout: Path, chunk: tuple[Chunk, Chunk]) -> _Pairs:
    """Tokenise the pairs of a chunk, given as its two sides, and try every rule that looks at one pair alone."""
    src_kept, tgt_kept, lost = [], [], []
    src_side, tgt_side = _tokenizer(prep.src), _tokenizer(prep.tgt)
    # Read once in each process, and only where the rule asks for it.
    known = _heldout_hashes(heldout) if "overlap" in prep.cleaning.drop else frozenset[bytes]()
    for number, (src_raw, tgt_raw) in enumerate(zip(chunk[0].lines, chunk[1].lines, strict=True), chunk[0].first):
        src_line, tgt_line = parse_line(src_raw, files.src, number), parse_line(tgt_raw, files.tgt, number)
        src, tgt = src_side.tokenize(src_line), tgt_side.tokenize(tgt_line)
        if rule := broken_rule(src_line + tgt_line, src, tgt, prep, known):
            lost.append((number, rule))
        else:
            src_kept.append(src)
            tgt_kept.append(tgt)
    # Of the pairs that stay alone: one that is left out does not make the next one a repetition.
    hashes = map(pair_hash, src_kept, tgt_kept) if "duplicate" in prep.cleaning.drop else ()
    return _Pairs(len(chunk[0].lines), join_lines(src_kept), join_lines(tgt_kept), b"".join(hashes), lost)


def _write_heldout_hashes(work: Work, path: Path, pool: Workers) -> None:
    """The hashes of the development and test pairs, tokenised as the training pairs are."""
    files = [work.raw[split] for split in SPLITS[1:] if split in work.raw]
    with progress("reading dev and test"), atomic_write(path, "wb") as file:
        for pair in files:
            pairs = zip(chunks(pair.src, CHUNK_LINES), chunks(pair.tgt, CHUNK_LINES), strict=True)
            file.writelines(pool.map(partial(_hash, work.prep, pair), pairs))


def _hash(prep: Prep, files: Files, chunk: tuple[Chunk, Chunk]) -> bytes:
    """The hashes of the pairs of a chunk of development or test text, given as its two sides, one after the other."""
    src, tgt = (
        [_tokenizer(side).tokenize(parse_line(raw, path, n)) for n, raw in enumerate(lines.lines, lines.first)]
        for side, path, lines in zip((prep.src, prep.tgt), files, chunk, strict=True)
    )
    return b"".join(map(pair_hash, src, tgt))


def report_lost(work: Work) -> dict[str, dict[str, Any]]:
    """Count and first line numbers for each rule; a warning when many pairs are left out. Raises UserError if all."""
    account: dict[str, dict[str, Any]] = {rule: {"count": 0, "lines": []} for rule in rules_of(work.prep.cleaning)}
    for shard in work.shards:
        for line, rule in work.lost(shard):
            account[rule]["count"] += 1
            # Enough to look at; millions of numbers would make the manifest unreadable.
            account[rule]["lines"] += [line] if len(account[rule]["lines"]) < _FIRST_LINES else []
    lost, files = sum(rule["count"] for rule in account.values()), work.raw["train"]
    if lost > _MANY * work.pairs:  # perhaps the sides are shifted, or a language is the wrong one
        # The most frequent reason says most about what is wrong.
        rule = max(account, key=lambda rule: int(account[rule]["count"]))
        message = (
            f"{lost:,} of the {work.pairs:,} training pairs ({lost / work.pairs:.0%}) are left out, "
            f"most of them for {describe_rule(rule, work.prep.cleaning)}: "
            f"see {line_numbers(account[rule])} of {files.src} and {files.tgt}"
        )
        if lost == work.pairs:
            raise UserError(message)
        log.warning(message)
    return account


def write_rejected(work: Work, path: Path) -> None:
    """Line number, rule and both raw sides of every pair that does not stay, with tabs between."""
    files = work.raw["train"]
    # One pass over the raw text, since the rejected pairs come in the order of their lines.
    pairs = enumerate(zip(raw_lines(files.src), raw_lines(files.tgt), strict=True), 1)
    with progress(f"writing {path}"), atomic_write(path) as file:
        for number, rule in chain.from_iterable(map(work.lost, work.shards)):
            src, tgt = next(pair for line, pair in pairs if line == number)
            texts = (parse_line(side, name, number) for side, name in zip((src, tgt), files, strict=True))
            file.write("\t".join([str(number), rule, *(text.replace("\t", " ") for text in texts)]) + "\n")


# One of each per process. The path is in a work folder, whose name stands for its content.
_tokenizer = lru_cache(maxsize=2)(TextPipeline)
_heldout_hashes = lru_cache(maxsize=1)(load_hashes)
