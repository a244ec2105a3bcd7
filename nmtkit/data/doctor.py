"""Findings about a parallel text, wrong or worth a look, before hours are spent on it.

Everything is read once or twice as it streams by; memory is for the development and test sets, and for the most
frequent words.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice, zip_longest
from pathlib import Path

import numpy as np

from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.folders import SIDES, SPLITS
from nmtkit.lines import conversion, decode_line, file_of, parse_line, raw_lines
from nmtkit.symbols import UNK
from nmtkit.text.hashes import pair_hash, repeated
from nmtkit.text.manifest import read_json
from nmtkit.text.pipeline import CONTROL
from nmtkit.text.raw import NO_WORDS, Files, has_words
from nmtkit.text.round_trip import ENOUGH, describe_loss
from nmtkit.text.rules import wrong_script
from nmtkit.text.settings import Cleaning, load_prep

_FIRST_LINES = 5  # that a finding names
_SAMPLE = 100_000  # pairs that the words of each language are learnt from
_KNOWN = 5  # how often a word has to be in the sample to say something of a language
_SURE = 1.0  # mean logarithm of the ratio of a line's words in both languages
_MANY_UNKNOWN = 0.05  # of a split's tokens
_NOTHING = "nothing to train on: no pair has words on both sides and no control characters"


@dataclass
class Finding:
    """One kind of fault in one file, with its first line numbers. ``fatal``: prep would refuse the file."""

    path: Path
    what: str
    fatal: bool = False
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """Note another line with this fault."""
        self.count += 1
        if len(self.lines) < _FIRST_LINES:
            self.lines.append(line)

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.path}: {self.what}"
        more = ", ..." if self.count > len(self.lines) else ""
        such = f" ({self.count:,} such lines: {', '.join(map(str, self.lines))}{more})" if self.count > 1 else ""
        return f"{self.path}:{self.lines[0]}: {self.what}{such}"


class _Findings:
    """Findings by file and kind, in the order in which they are first seen."""

    def __init__(self) -> None:
        self.all: dict[tuple[Path, str], Finding] = {}

    def add(self, path: Path, line: int, what: str, fatal: bool = False) -> None:
        """Note that a line of a file has a fault."""
        self.all.setdefault((path, what), Finding(path, what, fatal)).add(line)


def examine_text(raw: Mapping[str, Files], src: str, tgt: str) -> list[Finding]:
    """The findings in raw text in the languages ``src`` and ``tgt``.

    ``raw``: the files of train, and of dev and test if there are any. Nothing is raised for text that ``prep`` would
    refuse; the finding is fatal. Raises UserError for files that cannot be read to their end.
    """
    findings = _Findings()
    # The sides of a table with a line that is too short cannot be read.
    raw = {split: files for split, files in raw.items() if _has_columns(files, findings)}
    if "train" not in raw:
        return list(findings.all.values())
    languages = _Languages(raw["train"], src, tgt)
    heldout: dict[bytes, tuple[Path, int]] = {}
    for split in SPLITS[1:]:
        if split in raw:
            for number, hashed in enumerate(_examine_pairs(raw[split], languages, findings), 1):
                heldout.setdefault(hashed, (raw[split].src, number))
    if "dev" in raw and not has_words(raw["dev"]):
        findings.all[raw["dev"].src, NO_WORDS] = Finding(raw["dev"].src, NO_WORDS, fatal=True)
    if not _is_trainable(raw["train"]):
        findings.all[raw["train"].src, _NOTHING] = Finding(raw["train"].src, _NOTHING, fatal=True)
    # The training text may not fit into memory: hashes of its pairs go to a file, to be compared in groups.
    with tempfile.TemporaryDirectory() as folder:
        hashes = Path(folder, "hashes")
        with open(hashes, "wb") as file:
            for hashed in _examine_pairs(raw["train"], languages, findings):
                file.write(hashed)
                if hashed in heldout:
                    findings.add(*heldout[hashed], f"the pair is also in {raw['train'].src}")
        (marks,) = repeated([hashes], Path(folder, "marks"))
        for number in np.flatnonzero(marks).tolist():
            findings.add(raw["train"].src, number + 1, "the same pair as on an earlier line")
    return list(findings.all.values())


def _has_columns(files: Files, findings: _Findings) -> bool:
    """True if the sides are no columns of tables, or in each of their lines; notes the lines that have too few."""
    sound = True
    for file, column in map(file_of, files):
        for number, line in enumerate(raw_lines(file) if column else (), 1):
            if (columns := line.count(b"\t") + 1) < (column or 0):
                findings.add(file, number, f"no column {column} among {columns}", fatal=True)
                sound = False
    return sound


def _is_trainable(files: Files) -> bool:
    """True if ``prep`` would keep a pair: it leaves out those with a blank side or with control characters."""
    sides = (map(decode_line, raw_lines(path), count(1)) for path in files)
    pairs = zip(*sides, strict=False)
    return any(src.split() and tgt.split() and not CONTROL.search(src + tgt) for src, tgt in pairs)


def _examine_pairs(files: Files, languages: "_Languages", findings: _Findings) -> Iterator[bytes]:
    """Note what is wrong with each pair; yield its hash, which a pair that cannot be used shares with none."""
    ended = set[Path]()
    # The first line has the mark that tells UTF-16 from other encodings.
    advice = {path: conversion(next(raw_lines(path), b"")) for path in files}
    # To the end of the longer side: what is wrong with its other lines is worth knowing, too.
    for number, pair in enumerate(zip_longest(*map(raw_lines, files)), 1):
        texts = []
        for path, raw in zip(files, pair, strict=True):
            if raw is None:
                # Said once: every line after it lacks its partner, too.
                if path not in ended:
                    findings.add(path, number, "the text ends before this line, and the other side goes on", fatal=True)
                ended.add(path)
                continue
            try:
                texts.append(parse_line(raw, path, number))
            except UserError:
                findings.add(path, number, f"not UTF-8; {advice[path]}", fatal=True)
        words = [text.split() for text in texts]
        # Two sides that could be read and have words; only such pairs can be repeated or in the wrong language.
        if len(words) == 2 and all(words):
            for side, what in languages.faults(words[0], words[1]):
                findings.add(files[side], number, what)
            yield pair_hash(words[0], words[1])
        else:
            # A hash of its own, because blank lines that come again are no repeated pairs.
            yield pair_hash([str(number)], [str(files.src), ""])
        for path, text in zip(files, texts if len(texts) == 2 else [], strict=False):
            for what in _line_faults(text, advice[path]):
                findings.add(path, number, what)


def _line_faults(text: str, advice: str) -> Iterator[str]:
    """The findings in a line by itself; ``advice`` says how its file would be converted to UTF-8."""
    if not text.split():
        yield "blank"
    elif len(text.split()) > Cleaning.max_length:
        yield f"more than {Cleaning.max_length} words"
    if "\0" in text and "utf-16" in advice:  # Latin letters in UTF-16 are UTF-8 as well, with a zero beside each
        yield f"control characters; {advice}"
    elif CONTROL.search(text):
        yield "control characters"


class _Languages:
    """A judge of the language of a line, by the words of the text itself: most of it must be right.

    A line of the other language is rarer than one of its own, so that counting the words of the first pairs by side
    gives two vocabularies good enough to tell the languages apart, whatever they are.
    """

    def __init__(self, train: Files, src: str, tgt: str) -> None:
        self._names = src, tgt
        self._counts = [_count(path) for path in train]
        self._totals = [sum(counts.values()) or 1 for counts in self._counts]

    def faults(self, src: list[str], tgt: list[str]) -> Iterator[tuple[int, str]]:
        """The faults of a pair: sides, 0 or 1, and what is wrong with them."""
        # A single word may well be a name that is the same in both languages.
        if src == tgt and len(src) > 1:
            yield 1, "the same as its source"
            return
        for side, words in enumerate((src, tgt)):
            # Tried first, because it needs no sample: even a text that is all wrong shows it.
            if wrong_script(words, self._names[side]):
                yield side, f"letters that {self._names[side]} is not written in"
            elif self._evidence(words, side) < -_SURE:
                yield side, f"looks like {self._names[1 - side]}, not {self._names[side]}"
        short, long = sorted((len(src), len(tgt)))
        if long > Cleaning.max_ratio * short:
            yield int(len(tgt) == long), f"more than {Cleaning.max_ratio:g} times as long as the other side"

    def _evidence(self, words: list[str], side: int) -> float:
        """The evidence for the side's language in a line: the mean log-ratio of its words' frequencies."""
        ratios = []
        for word in map(str.lower, words):
            # Half a count more, because a word may never have been seen on one side.
            own, other = (self._counts[s][word] for s in (side, 1 - side))
            if own + other >= _KNOWN:
                ratios.append(
                    math.log((own + 0.5) / self._totals[side]) - math.log((other + 0.5) / self._totals[1 - side])
                )
        return sum(ratios) / len(ratios) if len(ratios) > 2 else 0.0  # one or two words may be names


def _count(path: Path) -> Counter[str]:
    """The count of each word, lower-cased, in the first lines of a file."""
    # Lines that are no UTF-8 have findings of their own and must not end the search here.
    lines = islice(raw_lines(path), _SAMPLE)
    return Counter(word for line in lines for word in line.decode(errors="ignore").lower().split())


def examine_round_trip(folder: Path) -> list[Finding]:
    """Findings about a data folder's tokens: languages whose text does not come back as it was written."""
    trips = read_json(folder / "manifest.json", "make the folder with nmtkit prep").get("round_trip", {})
    prep = load_prep(folder)
    return [
        Finding(
            folder / "prep.yaml",
            f"only {trip['same'] / trip['lines']:.1%} of {language}'s lines detokenise exactly: "
            f"{describe_loss(trip)}; nmtkit prep --tokenizer reversible loses nothing",
        )
        for language, trip in zip((prep.src.language, prep.tgt.language), trips.values(), strict=False)
        if trip["same"] < ENOUGH * trip["lines"]
    ]


def examine_ids(folder: Path) -> list[Finding]:
    """Findings about what the vocabularies of a data folder leave out, by split and side; mostly unknown lines.

    Raises UserError for a folder whose ids do not belong to its text and vocabularies.
    """
    findings = []
    for split in SPLITS:
        if not (folder / f"{split}.src.ids").exists():
            continue
        corpus = Corpus.open(folder, split)
        for side in SIDES:
            sentence = corpus.src if side == "src" else corpus.tgt
            mostly = Finding(folder / f"{split}.{side}", "more than half of the words are unknown")
            tokens = unknown = 0
            # Sentence by sentence, so that memory does not grow with the corpus.
            for number in range(len(corpus)):
                ids = sentence(number)
                missing = int((ids == UNK).sum())
                tokens, unknown = tokens + len(ids), unknown + missing
                if 2 * missing > len(ids):
                    mostly.add(number + 1)
            if unknown > _MANY_UNKNOWN * tokens:
                what = f"{unknown / tokens:.1%} of the {tokens:,} tokens are unknown words; a larger vocabulary, or BPE"
                findings.append(Finding(folder / f"{split}.{side}", what))
            if mostly.count:
                findings.append(mostly)
    return findings
