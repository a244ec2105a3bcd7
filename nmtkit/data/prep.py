"""``nmtkit prep``: raw parallel text to a data folder that training, translation and scoring read.

Training text is tokenised and cleaned, models of case and subwords are learnt on it, and it is written as tokens.
Development and test text keep every line, as tokens and, for scoring, as they were.
A run that is ended goes on where it was: see work.py.
"""

import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nmtkit.config import dump_yaml, to_dict
from nmtkit.data.cleaning import broken_rule, describe_rule, load_hashes, pair_hash, rules_of
from nmtkit.data.counts import most_frequent, write_run
from nmtkit.data.manifest import DATA_FILES, Report, describe_file, line_numbers, versions
from nmtkit.data.parallel import Chunk, Workers, chunks, progress
from nmtkit.data.raw import Files
from nmtkit.data.settings import ALIGN_FILES, SIDES, SPLITS, Prep
from nmtkit.data.text import (
    TextPipeline,
    Truecaser,
    count_cases,
    has_moses_rules,
    learn_merges,
    learn_truecaser,
    moses_language,
)
from nmtkit.data.work import CHUNK_LINES, Shard, Work
from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, move_into_place, parse_line, raw_lines, report_write_errors, sync

SideName = Literal["src", "tgt"]

_LEARNT_FROM = 500_000  # different words, the most frequent ones: 850 MB for subword-nmt
_FIRST_LINES = 10  # that a rule's entry in the manifest names
_WITHOUT_SPACES = ("zh", "yue", "ja", "th", "lo", "km", "my")
_MANY = 0.1  # losing more than this share of the training pairs deserves a warning

log = logging.getLogger(__name__)


def prepare(
    raw: Mapping[str, Files],
    folder: Path,
    prep: Prep,
    workers: int | None,
    keep_rejected: Path | None = None,
    merge: bool = False,
) -> Report:
    """Make the data folder ``folder`` from the raw text of the splits: train, and dev and test if there are any.

    ``keep_rejected``: a file for the training pairs that are left out. ``merge``: only from what ``prepare_part`` left.
    Raises UserError for text that cannot be used. Whatever ends it early, an older data folder stays as it was, and
    the same call goes on with the first shard that is not finished.
    """
    if keep_rejected is not None and not keep_rejected.parent.is_dir():
        raise UserError(f"{keep_rejected}: cannot be written: there is no folder {keep_rejected.parent}")
    with Workers(workers) as pool, Work.open(raw, folder, prep, pool) as work:
        _note_languages(prep)
        if merge:
            _check_merge(work)
        _clean_shards(work, (1, 1), pool)
        return _finish(work, pool, keep_rejected)


def prepare_part(raw: Mapping[str, Files], folder: Path, prep: Prep, workers: int | None, part: tuple[int, int]) -> str:
    """Tokenise and clean part i of n of the training text: every n-th shard. It is left in the folder to be merged."""
    with Workers(workers) as pool, Work.open(raw, folder, prep, pool, shared=True) as work:
        _note_languages(prep)
        _clean_shards(work, part, pool)
    done = sum(map(work.is_clean, work.shards))
    return f"{work.folder}: {done} of {len(work.shards)} shards are done; when all are, nmtkit prep --merge"


def _check_merge(work: Work) -> None:
    missing = [shard for shard in work.shards if not work.is_clean(shard)]
    if missing:
        raise UserError(
            f"{work.folder}: {len(missing)} of {len(work.shards)} shards are not there, the first is that of line "
            f"{missing[0].first}; run every --shard with these settings, then --merge"
        )


def _note_languages(prep: Prep) -> None:
    for side in (prep.src, prep.tgt):
        if side.tokenizer != "moses" or side.command:
            continue
        if moses_language(side.language) in _WITHOUT_SPACES:
            log.warning(
                f"language {side.language}: it is written without spaces, which Moses' rules do not put in; "
                f"use --tokenizer {side.language}=characters, or a segmenter with --tokenizer-command"
            )
        elif not has_moses_rules(side.language):
            log.warning(f"language {side.language}: Moses has no list of its abbreviations; the English one is used")


def _clean_shards(work: Work, part: tuple[int, int], pool: Workers) -> None:
    """Writes of each shard of a part that is not done yet the tokens of the pairs that may stay, and which may not."""
    i, n = part
    todo = [shard for shard in work.shards[i - 1 :: n] if not work.is_clean(shard)]
    if not todo:
        return
    heldout = work.folder / f"heldout-{i}-{n}"
    if "overlap" in work.prep.cleaning.drop:
        _write_heldout_hashes(work, heldout, pool)
    clean = partial(_clean, work.prep, work.raw["train"], heldout)
    with progress("tokenising and cleaning train", sum(shard.lines for shard in todo)) as advance:
        found = pool.map(clean, _paired_chunks(work.raw["train"], todo))
        for shard in todo:
            lost: list[tuple[int, str]] = []
            names = ("src", "tgt", "hashes") if "duplicate" in work.prep.cleaning.drop else ("src", "tgt")
            with ExitStack() as stack:
                files = [stack.enter_context(atomic_write(work.shard_file(shard, name), "wb")) for name in names]
                for chunk in islice(found, -(-shard.lines // CHUNK_LINES)):
                    for file, content in zip(files, (chunk.src, chunk.tgt, chunk.hashes), strict=False):
                        file.write(content)
                    lost += chunk.lost
                    advance(chunk.pairs)
            with atomic_write(work.shard_file(shard, "lost")) as note:
                note.write(json.dumps(lost))


def _paired_chunks(files: Files, shards: Sequence[Shard]) -> Iterator[tuple[Chunk, Chunk]]:
    """The raw lines of some shards, in chunks that begin with them."""
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
    """Of a chunk of ``pairs``, those that may stay, tokenised; the rest as line number and rule broken."""

    pairs: int
    src: bytes
    tgt: bytes
    hashes: bytes
    lost: list[tuple[int, str]]


def _clean(prep: Prep, files: Files, heldout: Path, chunk: tuple[Chunk, Chunk]) -> _Pairs:
    src_kept, tgt_kept, lost = [], [], []
    src_side, tgt_side = _tokenizer(prep.src), _tokenizer(prep.tgt)
    known = _heldout_hashes(heldout) if "overlap" in prep.cleaning.drop else frozenset[bytes]()
    for number, (src_raw, tgt_raw) in enumerate(zip(chunk[0].lines, chunk[1].lines, strict=True), chunk[0].first):
        src_line, tgt_line = parse_line(src_raw, files.src, number), parse_line(tgt_raw, files.tgt, number)
        src, tgt = src_side.tokenize(src_line), tgt_side.tokenize(tgt_line)
        if rule := broken_rule(src_line + tgt_line, src, tgt, prep, known):
            lost.append((number, rule))
        else:
            src_kept.append(src)
            tgt_kept.append(tgt)
    hashes = map(pair_hash, src_kept, tgt_kept) if "duplicate" in prep.cleaning.drop else ()
    return _Pairs(len(chunk[0].lines), _joined(src_kept), _joined(tgt_kept), b"".join(hashes), lost)


def _write_heldout_hashes(work: Work, path: Path, pool: Workers) -> None:
    """The hashes of the development and test pairs, tokenised as the training pairs are."""
    files = [work.raw[split] for split in SPLITS[1:] if split in work.raw]
    with progress("reading dev and test"), atomic_write(path, "wb") as file:
        for pair in files:
            pairs = zip(chunks(pair.src, CHUNK_LINES), chunks(pair.tgt, CHUNK_LINES), strict=True)
            file.writelines(pool.map(partial(_hash, work.prep, pair), pairs))


def _hash(prep: Prep, files: Files, chunk: tuple[Chunk, Chunk]) -> bytes:
    src, tgt = (
        [_tokenizer(side).tokenize(parse_line(raw, path, n)) for n, raw in enumerate(lines.lines, lines.first)]
        for side, path, lines in zip((prep.src, prep.tgt), files, chunk, strict=True)
    )
    return b"".join(map(pair_hash, src, tgt))


def _finish(work: Work, pool: Workers, keep_rejected: Path | None) -> Report:
    """From clean shards to the data folder."""
    if keep_rejected is not None:
        _write_rejected(work, keep_rejected)
    path = work.folder / "manifest.json"
    if not path.exists():
        _make_files(work, pool)
    manifest = json.loads(path.read_text(encoding="utf-8"))
    made = [*manifest["files"], path.name]
    with report_write_errors(work.output):
        (work.output / path.name).unlink(missing_ok=True)
        for name in (*DATA_FILES, *ALIGN_FILES):  # an alignment is of another text
            if name not in made:
                (work.output / name).unlink(missing_ok=True)
        # A run that was killed here has moved some of them.
        move_into_place(work.folder, work.output, [name for name in made if (work.folder / name).exists()])
        shutil.rmtree(work.folder)
    return Report(work.output, work.prep, manifest)


def _make_files(work: Work, pool: Workers) -> None:
    """Every file of the data folder, in the work folder; the manifest comes last."""
    found = _report_lost(work)
    kept = work.pairs - sum(rule["count"] for rule in found.values())
    with atomic_write(work.folder / "prep.yaml") as file:
        file.write(dump_yaml(to_dict(work.prep)))
    _learn_truecasers(work, kept, pool)
    _learn_segmenters(work, kept, pool)
    for side in SIDES:
        _write_train(work, side, kept, pool)
    for split in SPLITS[1:]:
        if split in work.raw:
            _make_heldout(work, split, pool)
    made = [name for name in DATA_FILES if (work.folder / name).is_file()]
    with progress("counting what was written"):
        descriptions = list(pool.map(describe_file, [work.folder / name for name in made]))
    manifest = {
        "format_version": "1",
        "made_with": versions(),
        "raw": {split: [str(path) for path in files] for split, files in work.raw.items()},
        "raw_sha256": {split: [content.sha256 for content in pair] for split, pair in work.contents.items()},
        "pairs": {split: src.lines for split, (src, _) in work.contents.items()},
        "cleaning": found,
        "files": dict(zip(made, descriptions, strict=True)),
    }
    with atomic_write(work.folder / "manifest.json") as file:
        file.write(json.dumps(manifest, indent=1) + "\n")


def _report_lost(work: Work) -> dict[str, dict[str, Any]]:
    """Count and first line numbers for each rule; a warning when many pairs are left out. Raises UserError if all."""
    found: dict[str, dict[str, Any]] = {rule: {"count": 0, "lines": []} for rule in rules_of(work.prep.cleaning)}
    for shard in work.shards:
        for line, rule in work.lost(shard):
            found[rule]["count"] += 1
            found[rule]["lines"] += [line] if len(found[rule]["lines"]) < _FIRST_LINES else []
    lost, files = sum(rule["count"] for rule in found.values()), work.raw["train"]
    if lost > _MANY * work.pairs:
        rule = max(found, key=lambda rule: int(found[rule]["count"]))
        message = (
            f"{lost:,} of the {work.pairs:,} training pairs ({lost / work.pairs:.0%}) are left out, "
            f"most of them for {describe_rule(rule, work.prep.cleaning)}: "
            f"see {line_numbers(found[rule])} of {files.src} and {files.tgt}"
        )
        if lost == work.pairs:
            raise UserError(message)
        log.warning(message)
    return found


def _write_rejected(work: Work, path: Path) -> None:
    """Line number, rule and both raw sides of every pair that does not stay, with tabs between."""
    files = work.raw["train"]
    pairs = enumerate(zip(raw_lines(files.src), raw_lines(files.tgt), strict=True), 1)
    with progress(f"writing {path}"), atomic_write(path) as file:
        for number, rule in chain.from_iterable(map(work.lost, work.shards)):
            src, tgt = next(pair for line, pair in pairs if line == number)
            texts = (parse_line(side, name, number) for side, name in zip((src, tgt), files, strict=True))
            file.write("\t".join([str(number), rule, *(text.replace("\t", " ") for text in texts)]) + "\n")


def _learn_truecasers(work: Work, kept: int, pool: Workers) -> None:
    for side, settings in zip(SIDES, (work.prep.src, work.prep.tgt), strict=True):
        model = work.folder / f"truecase.{side}"
        if settings.truecase and not model.exists():
            runs = _count(work, side, "cases", _cases, kept, pool)
            with atomic_write(model) as file:
                file.write(learn_truecaser(Counter(dict(most_frequent(runs, _LEARNT_FROM)))))


def _learn_segmenters(work: Work, kept: int, pool: Workers) -> None:
    sides = [s for s, side in zip(SIDES, (work.prep.src, work.prep.tgt), strict=True) if side.segmentation == "bpe"]
    if all((work.folder / f"bpe.{side}").exists() for side in sides):
        return
    groups = [sides] if work.prep.joint else [[side] for side in sides]
    runs = {}
    for side in sides:
        runs[side] = _count(work, side, "words", partial(_words, _truecase_model(work, side)), kept, pool)
    tasks = [[run for side in group for run in runs[side]] for group in groups]
    learn = partial(_learn_merges, work.prep.merges, _LEARNT_FROM // len(groups))
    # In processes of their own: what subword-nmt takes is free again before the next step.
    with progress(f"learning {work.prep.merges:,} BPE merges"), Workers(min(pool.count, 2)) as learners:
        learnt = list(learners.map(learn, tasks))
    for group, merges in zip(groups, learnt, strict=True):
        for side in group:
            with atomic_write(work.folder / f"bpe.{side}") as file:
                file.write(merges)


def _learn_merges(merges: int, limit: int, runs: Sequence[Path]) -> str:
    return learn_merges(Counter(dict(most_frequent(runs, limit))), merges)


def _count(
    work: Work, side: SideName, name: str, function: Callable[[Chunk], Counter[str]], kept: int, pool: Workers
) -> list[Path]:
    """Runs of what ``function`` counts in each shard."""
    runs = {shard: work.shard_file(shard, f"{name}.{side}") for shard in work.shards}
    todo = [shard for shard, run in runs.items() if not run.exists()]
    with progress(f"counting {name} of train.{side}", kept * len(todo) // len(runs)) as advance:
        for shard in todo:
            counts: Counter[str] = Counter()
            for found in pool.map(function, work.tokens(shard, side)):
                counts.update(found)
                advance(CHUNK_LINES)
            write_run(runs[shard], counts)
    return list(runs.values())


def _cases(chunk: Chunk) -> Counter[str]:
    return count_cases(_split(chunk))


def _words(truecaser: Path | None, chunk: Chunk) -> Counter[str]:
    sentences = _split(chunk) if truecaser is None else map(_truecaser(truecaser).apply, _split(chunk))
    return Counter(chain.from_iterable(sentences))


def _truecase_model(work: Work, side: SideName) -> Path | None:
    path = work.folder / f"truecase.{side}"
    return path if path.exists() else None


def _write_train(work: Work, side: SideName, kept: int, pool: Workers) -> None:
    """Writes train.{src,tgt}, shard by shard; a note beside it says how much of it is finished."""
    path, note = work.folder / f"train.{side}", work.folder / f"train.{side}.done"
    done = {"shards": 0, "bytes": 0}
    if note.exists() and path.exists():
        done = json.loads(note.read_text(encoding="utf-8"))
    todo = work.shards[done["shards"] :]
    with open(path, "ab") as file, progress(f"writing train.{side}", kept * len(todo) // len(work.shards)) as advance:
        file.truncate(done["bytes"])
        for shard in todo:
            for text in pool.map(partial(_segment, work.folder, side), work.tokens(shard, side)):
                file.write(text)
                advance(CHUNK_LINES)
            file.flush()
            sync(path)
            with atomic_write(note) as written:
                written.write(json.dumps({"shards": shard.number + 1, "bytes": file.tell()}))


def _segment(folder: Path, side: SideName, chunk: Chunk) -> bytes:
    pipeline = _pipeline(folder, side)
    return _joined(pipeline.segment(pipeline.truecase(words)) for words in _split(chunk))


def _make_heldout(work: Work, split: str, pool: Workers) -> None:
    """Writes {dev,test}.{src,tgt} and, untouched but for line ends, {dev,test}.raw.{src,tgt}."""
    folder = work.folder
    with progress(f"preparing {split}", 2 * work.contents[split][0].lines) as advance:
        for side, path in zip(SIDES, work.raw[split], strict=True):
            with open(folder / f"{split}.{side}", "wb") as tokens, open(folder / f"{split}.raw.{side}", "wb") as raw:
                apply = partial(_apply, folder, side, path)
                for lines, token_text, raw_text in pool.map(apply, chunks(path, CHUNK_LINES)):
                    tokens.write(token_text)
                    raw.write(raw_text)
                    advance(lines)


def _apply(folder: Path, side: SideName, path: Path, chunk: Chunk) -> tuple[int, bytes, bytes]:
    pipeline = _pipeline(folder, side)
    lines = [parse_line(raw, path, number) for number, raw in enumerate(chunk.lines, chunk.first)]
    return len(lines), _joined(map(pipeline.tokens, lines)), "".join(line + "\n" for line in lines).encode()


def _split(chunk: Chunk) -> Iterator[list[str]]:
    return (line.decode().split() for line in chunk.lines)


def _joined(sentences: Iterable[list[str]]) -> bytes:
    return "".join(" ".join(tokens) + "\n" for tokens in sentences).encode()


# One of each per process. The paths are in a work folder, whose name stands for their content.
_tokenizer = lru_cache(maxsize=2)(TextPipeline)
_truecaser = lru_cache(maxsize=2)(Truecaser.load)
_pipeline = lru_cache(maxsize=2)(partial(TextPipeline.load, trusted=True))
_heldout_hashes = lru_cache(maxsize=1)(load_hashes)
