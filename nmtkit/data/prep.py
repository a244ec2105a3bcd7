"""``nmtkit prep``: raw parallel text to a data folder that training, translation and scoring read.

Training text is tokenised and cleaned, models of case and subwords are learnt on it, and it is written as tokens.
Development and test text keep every line, as tokens and, for scoring, as they were.
"""

import hashlib
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nmtkit.config import dump_yaml, to_dict
from nmtkit.data.parallel import Chunk, Workers, chunks, progress
from nmtkit.data.settings import ALIGN_FILES, PREP_FILES, SIDES, SPLITS, Cleaning, Prep, Side
from nmtkit.data.text import (
    CONTROL,
    Segmenter,
    TextPipeline,
    Truecaser,
    count_cases,
    has_moses_rules,
    learn_merges,
    learn_truecaser,
    moses_language,
)
from nmtkit.errors import UserError
from nmtkit.lines import move_into_place, parse_line, raw_lines, read_lines, staging_folder

RULES = {  # why a training pair is left out
    "control": "control characters",
    "empty": "an empty side",
    "long": "more than {max_length} words",
    "ratio": "one side more than {max_ratio:g} times as long as the other",
}

_DATA_FILES = (
    *PREP_FILES,
    *(f"{split}.{side}" for split in SPLITS for side in SIDES),
    *(f"{split}.raw.{side}" for split in SPLITS[1:] for side in SIDES),
    *ALIGN_FILES,  # never made here: those of another text go
    "manifest.json",
)
_LINES = 500  # of a chunk: a tenth of a second's work or more, and little memory
_FIRST_LINES = 10  # that a rule's entry in the manifest names
_WITHOUT_SPACES = ("zh", "yue", "ja", "th", "lo", "km", "my")
_MANY = 0.1  # losing more than this share of the training pairs deserves a warning

log = logging.getLogger(__name__)


class Files(NamedTuple):
    """The two sides of a parallel text."""

    src: Path
    tgt: Path


@dataclass(frozen=True)
class Report:
    """What was made; ``str`` of it is for people."""

    folder: Path
    prep: Prep
    manifest: dict[str, Any]

    def __str__(self) -> str:
        lines = [f"{self.folder}: {self.prep.src.language} to {self.prep.tgt.language}, {self._units()}"]
        for split, pairs in self.manifest["pairs"].items():
            src, tgt = (self.manifest["files"][f"{split}.{side}"] for side in SIDES)
            kept = f"{src['lines']:,} of {pairs:,} pairs" if split == "train" else f"{pairs:,} pairs"
            lines.append(f"  {split:<5} {kept}, {src['tokens']:,} + {tgt['tokens']:,} tokens")
            if split == "train":
                for rule, found in self.manifest["cleaning"].items():
                    if found["count"]:
                        reason = _describe_rule(rule, self.prep.cleaning)
                        lines.append(f"    left out {found['count']:,} for {reason}: {_line_numbers(found)}")
        return "\n".join(lines)

    def _units(self) -> str:
        merges = [
            f"{self.manifest['files'][name]['lines'] - 1:,}"  # the first line is a version
            for name in ("bpe.src", "bpe.tgt")
            if name in self.manifest["files"]
        ]
        if not merges:
            return "words"
        return f"joint BPE of {merges[0]} merges" if self.prep.joint else f"BPE of {' + '.join(merges)} merges"


def _describe_rule(rule: str, cleaning: Cleaning) -> str:
    return RULES[rule].format(max_length=cleaning.max_length, max_ratio=cleaning.max_ratio)


def _line_numbers(found: Mapping[str, Any]) -> str:
    shown = found["lines"][:5]
    more = ", ..." if found["count"] > len(shown) else ""
    return f"{'lines' if found['count'] > 1 else 'line'} {', '.join(map(str, shown))}{more}"


def prepare(raw: Mapping[str, Files], folder: Path, prep: Prep, workers: int | None) -> Report:
    """Make the data folder ``folder`` from the raw text of the splits: train, and dev and test if there are any.

    Raises UserError for text that cannot be used. Whatever ends it early, an older data folder stays as it was.
    """
    with Workers(workers) as pool:
        pairs = _check(raw, folder, pool)
        _note_languages(prep)
        with staging_folder(folder) as staging:
            (staging / "prep.yaml").write_text(dump_yaml(to_dict(prep)), encoding="utf-8")
            cleaning = _make_train(raw["train"], pairs["train"], staging, prep, pool)
            for split in SPLITS[1:]:
                if split in raw:
                    _make_heldout(raw[split], pairs[split], split, staging, pool)
            made = [name for name in _DATA_FILES if (staging / name).is_file()]
            descriptions = pool.map(_describe_file, [staging / name for name in made])
            manifest = {
                "format_version": "1",
                "made_with": {package: version(package) for package in ("sacremoses", "subword-nmt")},
                "raw": {split: [str(path) for path in files] for split, files in raw.items()},
                "pairs": pairs,
                "cleaning": cleaning,
                "files": dict(zip(made, descriptions, strict=True)),
            }
            (staging / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
            move_into_place(staging, folder, _DATA_FILES)
    return Report(folder, prep, manifest)


def _check(raw: Mapping[str, Files], folder: Path, pool: Workers) -> dict[str, int]:
    """The number of pairs in each split, once every line is known to be UTF-8 and to have a partner."""
    paths = [path for files in raw.values() for path in files]
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file")
        if not path.is_file():
            raise UserError(f"{path}: not a file that can be read twice, as prep has to; copy it into one")
        if path.name in _DATA_FILES and path.resolve().parent == folder.resolve():
            raise UserError(f"{path}: would be overwritten; choose another --output or another name")
    with progress("counting lines"):
        lines = dict(zip(paths, pool.map(_count_lines, paths), strict=True))
    for src, tgt in raw.values():
        if lines[src] != lines[tgt]:
            raise UserError(
                f"{src} has {lines[src]} lines but {tgt} has {lines[tgt]}, and they must translate each other line "
                "by line; find the first pair that does not: there a line was lost, or broken in two"
            )
    if not lines[raw["train"].src]:
        raise UserError(f"{raw['train'].src}: no lines; there is nothing to train on")
    return {split: lines[files.src] for split, files in raw.items()}


def _count_lines(path: Path) -> int:
    return sum(1 for _ in read_lines(path))


def _note_languages(prep: Prep) -> None:
    for side in (prep.src, prep.tgt):
        if side.tokenizer == "none":
            continue
        if moses_language(side.language) in _WITHOUT_SPACES:
            log.warning(
                f"language {side.language}: it is written without spaces, which Moses' rules do not put in; "
                "separate the words first, then use --tokenizer none"
            )
        elif not has_moses_rules(side.language):
            log.warning(f"language {side.language}: Moses has no list of its abbreviations; the English one is used")


def _make_train(files: Files, pairs: int, staging: Path, prep: Prep, pool: Workers) -> dict[str, dict[str, Any]]:
    """Writes train.{src,tgt} and the models learnt on them; gives for each rule the count and first line numbers."""
    sides = {"src": prep.src, "tgt": prep.tgt}
    counts: dict[str, Counter[str]] = {"src": Counter(), "tgt": Counter()}
    found: dict[str, dict[str, Any]] = {rule: {"count": 0, "lines": []} for rule in RULES}
    with (
        progress("tokenising and cleaning train", pairs) as advance,
        open(staging / "train.src", "wb") as src,
        open(staging / "train.tgt", "wb") as tgt,
    ):
        for chunk in pool.map(partial(_clean, prep, files), _paired_chunks(files)):
            src.write(chunk.src)
            tgt.write(chunk.tgt)
            counts["src"].update(chunk.src_counts)
            counts["tgt"].update(chunk.tgt_counts)
            for rule, line in chunk.lost:
                found[rule]["count"] += 1
                found[rule]["lines"] += [line] if len(found[rule]["lines"]) < _FIRST_LINES else []
            advance(chunk.pairs)
    kept = pairs - _report_lost(files, pairs, found, prep.cleaning)

    for name, side in sides.items():
        if side.truecase:
            model = staging / f"truecase.{name}"
            model.write_text(learn_truecaser(counts[name]), "utf-8", newline="\n")
            with progress(f"truecasing train.{name}", kept) as advance:
                counts[name] = _rewrite(staging / f"train.{name}", partial(_truecase, model), pool, advance)

    segmented = [name for name, side in sides.items() if side.segmentation == "bpe"]
    if not segmented:
        return found
    groups = [segmented] if prep.joint else [[name] for name in segmented]
    totals = [sum((counts[name] for name in group), Counter[str]()) for group in groups]
    with progress(f"learning {prep.merges:,} BPE merges"):
        learnt = list(pool.map(partial(learn_merges, merges=prep.merges), totals))
    for group, merges in zip(groups, learnt, strict=True):
        for name in group:
            (staging / f"bpe.{name}").write_text(merges, "utf-8", newline="\n")
            with progress(f"segmenting train.{name}", kept) as advance:
                _rewrite(staging / f"train.{name}", partial(_segment, staging / f"bpe.{name}"), pool, advance)
    return found


class _Pairs(NamedTuple):
    """Of a chunk of ``pairs``, those that may stay, tokenised; the rest as rule broken and line number."""

    pairs: int
    src: bytes
    tgt: bytes
    src_counts: Counter[str]  # what the next step learns from
    tgt_counts: Counter[str]
    lost: list[tuple[str, int]]


def _clean(prep: Prep, files: Files, chunk: tuple[Chunk, Chunk]) -> _Pairs:
    src_kept, tgt_kept, lost = [], [], []
    src_side, tgt_side = _tokenizer(prep.src), _tokenizer(prep.tgt)
    for number, (src_raw, tgt_raw) in enumerate(zip(chunk[0].lines, chunk[1].lines, strict=True), chunk[0].first):
        src_line, tgt_line = parse_line(src_raw, files.src, number), parse_line(tgt_raw, files.tgt, number)
        src, tgt = src_side.tokenize(src_line), tgt_side.tokenize(tgt_line)
        rule = "control" if CONTROL.search(src_line + tgt_line) else broken_rule(src, tgt, prep.cleaning)
        if rule:
            lost.append((rule, number))
        else:
            src_kept.append(src)
            tgt_kept.append(tgt)
    counts = _count(prep.src, src_kept), _count(prep.tgt, tgt_kept)
    return _Pairs(len(chunk[0].lines), _joined(src_kept), _joined(tgt_kept), *counts, lost)


def broken_rule(src: list[str], tgt: list[str], cleaning: Cleaning) -> str | None:
    """The first of RULES, after "control", that a pair of tokenised sentences breaks."""
    short, long = sorted((len(src), len(tgt)))
    if short == 0:
        return "empty"
    if cleaning.max_length and long > cleaning.max_length:
        return "long"
    if cleaning.max_ratio and long > cleaning.max_ratio * short:
        return "ratio"
    return None


def _count(side: Side, sentences: list[list[str]]) -> Counter[str]:
    if side.truecase:
        return count_cases(sentences)
    return Counter(chain.from_iterable(sentences)) if side.segmentation == "bpe" else Counter()


def _report_lost(files: Files, pairs: int, found: Mapping[str, Mapping[str, Any]], cleaning: Cleaning) -> int:
    """How many pairs are left out; a warning when they are many. Raises UserError when none is left."""
    lost: int = sum(rule["count"] for rule in found.values())
    if lost > _MANY * pairs:
        rule = max(found, key=lambda rule: int(found[rule]["count"]))
        message = (
            f"{lost:,} of the {pairs:,} training pairs ({lost / pairs:.0%}) are left out, most of them for "
            f"{_describe_rule(rule, cleaning)}: see {_line_numbers(found[rule])} of {files.src} and {files.tgt}"
        )
        if lost == pairs:
            raise UserError(message)
        log.warning(message)
    return lost


def _make_heldout(files: Files, pairs: int, split: str, staging: Path, pool: Workers) -> None:
    """Writes {dev,test}.{src,tgt} and, untouched but for line ends, {dev,test}.raw.{src,tgt}."""
    with progress(f"preparing {split}", 2 * pairs) as advance:
        for side, path in zip(SIDES, files, strict=True):
            with open(staging / f"{split}.{side}", "wb") as tokens, open(staging / f"{split}.raw.{side}", "wb") as raw:
                for lines, token_text, raw_text in pool.map(partial(_apply, staging, side, path), chunks(path, _LINES)):
                    tokens.write(token_text)
                    raw.write(raw_text)
                    advance(lines)


def _apply(folder: Path, side: Literal["src", "tgt"], path: Path, chunk: Chunk) -> tuple[int, bytes, bytes]:
    pipeline = _pipeline(folder, side)
    lines = [parse_line(raw, path, number) for number, raw in enumerate(chunk.lines, chunk.first)]
    return len(lines), _joined(map(pipeline.tokens, lines)), "".join(line + "\n" for line in lines).encode()


def _rewrite(
    path: Path, function: Callable[[Chunk], tuple[bytes, Counter[str]]], pool: Workers, advance: Callable[[int], None]
) -> Counter[str]:
    """Replaces the lines of a file of tokens by what ``function`` makes of them; the sum of what it counts."""
    counts: Counter[str] = Counter()
    rewritten = path.with_name(path.name + ".rewritten")
    with open(rewritten, "wb") as file:
        for text, found in pool.map(function, chunks(path, _LINES)):
            file.write(text)
            counts.update(found)
            advance(text.count(b"\n"))
    os.replace(rewritten, path)
    return counts


def _truecase(model: Path, chunk: Chunk) -> tuple[bytes, Counter[str]]:
    sentences = [_truecaser(model).apply(words) for words in _split(chunk)]
    return _joined(sentences), Counter(chain.from_iterable(sentences))


def _segment(merges: Path, chunk: Chunk) -> tuple[bytes, Counter[str]]:
    return _joined(map(_segmenter(merges).apply, _split(chunk))), Counter()


def _paired_chunks(files: Files) -> Iterator[tuple[Chunk, Chunk]]:
    return zip(chunks(files.src, _LINES), chunks(files.tgt, _LINES), strict=True)


def _split(chunk: Chunk) -> Iterator[list[str]]:
    return (line.decode().split() for line in chunk.lines)


def _joined(sentences: Iterable[list[str]]) -> bytes:
    return "".join(" ".join(tokens) + "\n" for tokens in sentences).encode()


# One of each per process; the paths are in a staging folder, whose name never comes again.
_tokenizer = lru_cache(maxsize=2)(TextPipeline)
_truecaser = lru_cache(maxsize=2)(Truecaser.load)
_segmenter = lru_cache(maxsize=2)(Segmenter.load)
_pipeline = lru_cache(maxsize=2)(TextPipeline.load)


def _describe_file(path: Path) -> dict[str, Any]:
    """What the manifest says of a file of the data folder."""
    lines = tokens = 0
    digest = hashlib.sha256()
    for line in raw_lines(path):
        lines += 1
        tokens += len(line.split())
        digest.update(line)
    return {"lines": lines, "tokens": tokens, "sha256": digest.hexdigest()}


def find_raw(folder: Path, src: str | None, tgt: str | None) -> tuple[dict[str, Files], str, str]:
    """The files {train,dev,test}.LANGUAGE of a folder (.gz and .zst too), by split, and the two languages.

    One language may be left to find, if the folder has only two. Raises UserError with what to type where files
    are missing or there is a choice.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}/: no such folder; put train.en, train.fr, ... there, or name files: --train A B")
    found: dict[str, dict[str, Path]] = {split: {} for split in SPLITS}
    for path in sorted(folder.iterdir()):
        if match := _RAW_NAME.fullmatch(path.name):
            split, language = match.groups()
            if language in found[split]:
                raise UserError(f"{path}: {found[split][language].name} is there too; keep one of them")
            found[split][language] = path
    src, tgt = _direction(folder, sorted(found["train"]), src, tgt)
    raw = {}
    for split, by_language in found.items():
        missing = [language for language in (src, tgt) if language not in by_language]
        if (split == "train" and missing) or len(missing) == 1:
            raise UserError(f"{folder / split}.{missing[0]}: no such file (nor .gz or .zst)")
        if missing:
            log.warning(f"{folder}/ has no {split}.{src} and {split}.{tgt}: there will be no {split} set")
        else:
            raw[split] = Files(by_language[src], by_language[tgt])
    return raw, src, tgt


_LANGUAGE = r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*"
_RAW_NAME = re.compile(rf"(train|dev|test)\.({_LANGUAGE})(?:\.gz|\.zst)?")


def _direction(folder: Path, languages: list[str], src: str | None, tgt: str | None) -> tuple[str, str]:
    others = [language for language in languages if language not in (src, tgt)]
    if src and tgt:
        return src, tgt
    if src and len(others) == 1:
        return src, others[0]
    if tgt and len(others) == 1:
        return others[0], tgt
    if len(languages) == 2:
        a, b = languages
        raise UserError(f"{folder}/ has {a} and {b}: which one is translated? Add --src-lang {a} or --src-lang {b}")
    there = f"has text in {', '.join(languages)}" if languages else "has no train.LANGUAGE"
    raise UserError(f"{folder}/ {there}: name two languages of it, for example --src-lang en --tgt-lang fr")


def language_of(path: Path) -> str:
    """The language that the name of a file ends in: fr for corpus.fr.gz. Raises UserError if it has none."""
    match = re.search(rf"\.({_LANGUAGE})(?:\.gz|\.zst)?$", path.name)
    if not match or match[1] in ("gz", "zst", "txt", "raw", "tok"):
        raise UserError(f"{path}: its name does not end in a language; give --src-lang and --tgt-lang")
    return match[1]
