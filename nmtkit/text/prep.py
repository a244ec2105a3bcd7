"""``nmtkit prep``: raw parallel text to a data folder for training, translation and scoring.

Training text is tokenised and cleaned, truecasing and subword models are learnt from it, and it is written as tokens.
Development and test text keep every line, as tokens and, for scoring, raw. work.py resumes interrupted runs.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from nmtkit.config import dump_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.folders import ALIGN_FILES, SIDES, SPLITS, SideName, TextFiles
from nmtkit.lines import read_lines
from nmtkit.machine.processes import Chunk, Workers, chunks
from nmtkit.machine.progress import progress
from nmtkit.symbols import SPELLINGS, UNKPOS
from nmtkit.text.advice import warn_of
from nmtkit.text.cleaning import clean_shards, report_lost, write_rejected
from nmtkit.text.learning import choose_merges, learn_segmenters, learn_truecasers
from nmtkit.text.manifest import (
    DATA_FILES,
    PrepReport,
    describe_file,
    is_data_file,
    line_numbers,
    reference_files,
    versions,
)
from nmtkit.text.pipeline import TextPipeline, copy_prep
from nmtkit.text.raw import Files, check_outside, input_files
from nmtkit.text.round_trip import round_trip, sample
from nmtkit.text.settings import AS_GIVEN, Cleaning, Prep, SetOptions, load_prep
from nmtkit.text.work import CHUNK_LINES, Work, join_lines, remove, split_lines, vocabularies
from nmtkit.writing import FULL, copy_file, move_into_place, real_path, report_write_errors, sync, write_file

log = logging.getLogger(__name__)


def prepare(
    raw: Mapping[str, Files],
    folder: Path,
    prep: Prep,
    workers: int | None,
    keep_rejected: Path | None = None,
    merge: bool = False,
    held_out: SetOptions = AS_GIVEN,
    like: Path | None = None,
) -> PrepReport:
    """Make the data folder ``folder`` from the raw text of train and, if given, dev and test.

    keep_rejected: a file for the training pairs left out. merge: only merge the shards of ``prepare_part``.
    held_out: further references, or the number of training pairs to move to development and test sets. like: a data or
    model folder whose truecasing and subword models are used, with ``prep`` from ``prep_like``; subwords that a model's
    vocabulary lacks are split, as in translation. Raises UserError for unusable text and, without ``merge``, if
    ``prepare_part`` has left shards made with other settings. An interruption leaves an older data folder unchanged,
    and the same call resumes at the first unfinished shard.
    """
    if keep_rejected is not None:
        real = real_path(keep_rejected)
        check_outside(raw, keep_rejected, "keep_rejected")
        if not keep_rejected.parent.is_dir():
            raise UserError(f"{keep_rejected}: cannot be written: there is no folder {keep_rejected.parent}")
        if real in map(real_path, input_files(raw, held_out)):
            raise UserError(f"{keep_rejected}: is an input file; choose another `keep_rejected`")
        if is_data_file(real.name) and real.parent == real_path(folder):
            raise UserError(f"{keep_rejected}: is a file of the data folder; choose another `keep_rejected`")
    with Workers(workers) as pool, Work.open(raw, folder, prep, pool, held_out, like) as work:
        warn_of(work)
        if merge:
            _check_merge(work)
        else:
            work.check_parts()
        # After the checks: the shards may be days of work, made with an option that this call forgot.
        work.remove_others()
        clean_shards(work, (1, 1))
        return _finish(work, keep_rejected)


def prepare_part(
    raw: Mapping[str, Files],
    folder: Path,
    prep: Prep,
    workers: int | None,
    part: tuple[int, int],
    held_out: SetOptions = AS_GIVEN,
    like: Path | None = None,
) -> str:
    """Tokenise and clean part i of n of the training text (every n-th shard); returns a progress message.

    The shards stay in the data folder, for ``prepare`` to merge. All parts need the same arguments. Files of other runs
    are kept, because parts that start together would all delete them. Only the first part examines the text, which
    takes minutes for many million pairs.
    """
    with Workers(workers) as pool, Work.open(raw, folder, prep, pool, held_out, like, shared=True) as work:
        if part[0] == 1:
            warn_of(work)
        clean_shards(work, part)
    done = sum(map(work.is_clean, work.shards))
    return f"{work.folder}: {done} of {len(work.shards)} shards are done; when all are done, run nmtkit prep --merge"


def prep_like(folder: Path, cleaning: Cleaning) -> Prep:
    """The settings of a data or model folder with other ``cleaning``, to prepare more text in the same way.

    Raises UserError for a folder that cannot prepare text.
    """
    for side in SIDES:  # raises for missing files and untrusted commands
        TextPipeline.load(folder, side)
    return replace(load_prep(folder), cleaning=cleaning)


def _check_merge(work: Work) -> None:
    """Raise UserError if shards are missing: cleaning them here would hide that a part has failed."""
    missing = [shard for shard in work.shards if not work.is_clean(shard)]
    if not missing:
        return
    others = ", ".join(path.name for path in work.with_shards)
    found = f" (those in {others} have other settings or another text)" if others else ""
    first = line_numbers({"lines": [missing[0].first], "count": 1}, work.raw["train"].src)
    raise UserError(
        f"{work.folder}: {len(missing)} of {len(work.shards)} shards are missing, the first of which starts at {first}"
        f"{found}; run every `shard` with these settings, then `merge`"
    )


def _finish(work: Work, keep_rejected: Path | None) -> PrepReport:
    """Make the data folder from clean shards; the old one is unchanged until all new files are on disk."""
    if keep_rejected is not None:
        write_rejected(work, keep_rejected)
    # The manifest is written last: if it exists, an earlier run was killed after it had written all files.
    path = work.folder / "manifest.json"
    if not path.exists():
        with report_write_errors(work.output, only=FULL):
            _make_files(work)
    manifest = json.loads(path.read_text(encoding="utf-8"))
    made = [*manifest["files"], path.name]
    with report_write_errors(work.output):
        # First, because without a manifest it is not a data folder.
        (work.output / path.name).unlink(missing_ok=True)
        for old in [*work.output.iterdir()]:
            if (is_data_file(old.name) or old.name in ALIGN_FILES) and old.name not in made:
                old.unlink()
        # A run killed here may already have moved some of them.
        move_into_place(work.folder, work.output, [name for name in made if (work.folder / name).exists()])
        remove(work.folder)
    return PrepReport(work.output, work.prep, manifest)


def _make_files(work: Work) -> None:
    """Write every file of the data folder to the work folder, the manifest last."""
    lost = report_lost(work)
    kept = work.pairs - sum(rule["count"] for rule in lost.values())
    prep = work.prep if work.prep.merges is not None else _with_merges(work)
    if work.like is not None:
        copy_prep(work.like, work.folder)
        for path in vocabularies(work.like):
            copy_file(path, work.folder / path.name)
    write_file(TextFiles(work.folder).settings, dump_yaml(to_dict(prep)))
    learn_truecasers(work, kept)
    learn_segmenters(work, prep, kept)
    for side in SIDES:
        _write_train(work, side, kept)
    for split in SPLITS[1:]:
        if split in work.raw:
            _make_heldout(work, split)
    references = [path.name for path in reference_files(work.folder, "dev")[1:]]
    made = [name for name in (*DATA_FILES, *references) if (work.folder / name).is_file()]
    with progress("computing checksums"):
        descriptions = list(work.pool.map(describe_file, [work.folder / name for name in made]))
    manifest = {
        "format_version": "1",
        "made_with": versions(work.prep),
        "raw": {split: list(map(str, paths)) for split, paths in _origins(work).items()},
        "raw_sha256": {split: [content.sha256 for content in group] for split, group in work.contents.items()},
        "pairs": {split: group[0].lines for split, group in work.contents.items()},
        "cleaning": lost,
        "round_trip": {
            side: round_trip(_pipeline(work.folder, side), sample(path, content.lines))._asdict()
            for side, path, content in zip(SIDES, work.raw["train"], work.contents["train"], strict=True)
        },
        "files": dict(zip(made, descriptions, strict=True)),
    }
    work.check_text()
    write_file(work.folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")


def _with_merges(work: Work) -> Prep:
    """The settings with the number of BPE merges chosen."""
    merges = Prep.merges
    if "bpe" in (work.prep.src.segmentation, work.prep.tgt.segmentation) and work.like is None:
        merges, reason = choose_merges(work)
        log.info(f"BPE with {merges:,} merges, because {reason}; set `bpe` for another number")
    return replace(work.prep, merges=merges)


def _origins(work: Work) -> dict[str, list[Path]]:
    """The files that each split was made from; a sampled set has those of the training text."""
    origins = {split: [*files] for split, files in work.raw.items()}
    if "dev" in origins:
        origins["dev"] += work.held_out.references
    return origins | dict.fromkeys(work.held_out.sizes, origins["train"])


def _write_train(work: Work, side: SideName, kept: int) -> None:
    """Write train.src or train.tgt shard by shard; train.*.done has the progress, for resuming."""
    path, note = work.folder / f"train.{side}", work.folder / f"train.{side}.done"
    done = {"shards": 0, "bytes": 0}
    if note.exists() and path.exists():
        done = json.loads(note.read_text(encoding="utf-8"))
    todo = work.shards[done["shards"] :]
    with open(path, "ab") as file, progress(f"writing train.{side}", kept * len(todo) // len(work.shards)) as advance:
        file.truncate(done["bytes"])  # drops an unfinished shard
        for shard in todo:
            for text in work.pool.map(partial(_segment, work.folder, side), work.tokens(shard, side)):
                file.write(text)
                advance(CHUNK_LINES)
            # The text must be on disk before the note.
            file.flush()
            sync(path)
            write_file(note, json.dumps({"shards": shard.number + 1, "bytes": file.tell()}))


def _segment(folder: Path, side: SideName, chunk: Chunk) -> bytes:
    """The lines of a chunk of tokenised words, truecased and split into subwords."""
    pipeline = _pipeline(folder, side)
    return join_lines(pipeline.segment(pipeline.truecase(words)) for words in split_lines(chunk))


def _make_heldout(work: Work, split: str) -> None:
    """Write {dev,test}.{src,tgt} and, with normalised line ends only, {dev,test}.raw.{src,tgt}, dev.raw.tgt1, ..."""
    folder = work.folder
    with progress(f"preparing {split}", 2 * work.contents[split][0].lines) as advance:
        for side, path in zip(SIDES, work.raw[split], strict=True):
            with open(folder / f"{split}.{side}", "wb") as tokens, open(folder / f"{split}.raw.{side}", "wb") as raw:
                apply = partial(_apply, folder, side, path)
                for lines, token_text, raw_text in work.pool.map(apply, chunks(path, CHUNK_LINES)):
                    tokens.write(token_text)
                    raw.write(raw_text)
                    advance(lines)
    # Further references are only for scoring and are not tokenised.
    for number, path in enumerate(work.held_out.references if split == "dev" else (), 1):
        with open(folder / f"dev.raw.tgt{number}", "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in read_lines(path))


def _apply(folder: Path, side: SideName, path: Path, chunk: Chunk) -> tuple[int, bytes, bytes]:
    """The number of lines of a chunk of raw text, its tokens, and its text with normalised line ends."""
    pipeline = _pipeline(folder, side)
    lines = chunk.text(path)
    return len(lines), join_lines(map(pipeline.tokens, lines)), "".join(line + "\n" for line in lines).encode()


@lru_cache(maxsize=2)  # per process and side; a work folder is named after its settings
def _pipeline(folder: Path, side: SideName) -> TextPipeline:
    """The pipeline of a work folder, which may have the vocabulary of a model."""
    path = TextFiles(folder).vocabulary(side)
    words = {line.partition("\t")[0] for line in read_lines(path)} if path.is_file() else None
    known = None if words is None else words.difference(SPELLINGS, UNKPOS)
    return TextPipeline.load(folder, side, trusted=True, known=known)
