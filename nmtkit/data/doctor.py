"""``nmtkit doctor``: checks of a parallel text before training.

Texts are read a few times as streams; memory holds the development and test sets and the most frequent words.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from pathlib import Path
from unicodedata import normalize

import numpy as np

from nmtkit.data.corpus import Corpus
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError, counted
from nmtkit.folders import SIDES, SPLITS, TextFiles
from nmtkit.lines import CARRIAGE_RETURN, at_line, conversion, parse_line, raw_lines, rows, texts_of
from nmtkit.text.aligned import MISALIGNED_REMEDY, misaligned
from nmtkit.text.hashes import pair_hash, repeated
from nmtkit.text.manifest import read_json
from nmtkit.text.pipeline import CONTROL, INVISIBLE
from nmtkit.text.processed import processing
from nmtkit.text.raw import NO_WORDS, Files, has_words, pairs_of
from nmtkit.text.round_trip import ENOUGH, describe_loss
from nmtkit.text.rules import characters
from nmtkit.text.scripts import WITHOUT_SPACES, base_language, wrong_script
from nmtkit.text.settings import Cleaning, load_prep, restored
from nmtkit.text.spelling import differences
from nmtkit.text.tables import columns_of, odd_rows

_FIRST_LINES = 5  # line numbers per finding
_SAMPLE = 100_000  # pairs from which the words of each language are counted
_KNOWN = 5  # minimum count of a word or character to be evidence
_SURE = 1.0  # threshold of the mean log-ratio of word frequencies
_FREQUENT = 0.01  # share of a file's lines that a frequent character is in
_MOST_UNSEEN = 5  # characters per file, because a text in another script has many
_MANY_UNKNOWN = 0.05  # of a split's tokens
_NO_TEST = "no pair of the test set has words on both sides"
_NOTHING = "nothing to train on: no pair has words on both sides and no control characters"


@dataclass
class Finding:
    """A kind of fault in a file, with the first line numbers. fatal: prep would reject the file."""

    path: Path
    what: str
    fatal: bool = False
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < _FIRST_LINES:
            self.lines.append(line)

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.path}: {self.what}"
        more, lines = ", ..." if self.count > len(self.lines) else "", sorted(self.lines)
        such = f" ({self.count:,} such lines: {', '.join(map(str, lines))}{more})" if self.count > 1 else ""
        return f"{at_line(self.path, lines[0])}: {self.what}{such}"


class _Findings(dict[tuple[Path, str], Finding]):
    """Findings by file and kind, in order of first occurrence."""

    def add(self, path: Path, line: int, what: str, fatal: bool = False) -> None:
        self.setdefault((path, what), Finding(path, what, fatal)).add(line)


def examine_text(raw: Mapping[str, Files], src: str, tgt: str) -> list[Finding]:
    """Check raw text in the languages ``src`` and ``tgt``; text that prep would reject is a fatal finding.

    raw: the files of train and, if given, dev and test. Raises UserError for files that cannot be read.
    """
    findings = _Findings()
    texts = {split: files.texts for split, files in raw.items()}
    sound = {split: [_examine_tables(text, src, tgt, findings) for text in texts[split]] for split in texts}
    raw = {split: files for split, files in raw.items() if all(sound[split])}
    if "train" not in raw:
        return list(findings.values())
    for text in (text for split in raw for text in texts[split]):
        if lines := misaligned(*text):
            findings[text.src, lines] = Finding(text.src, f"{lines}; {MISALIGNED_REMEDY}")
        for path, language in zip(text, (src, tgt), strict=True):
            if found := processing(path, language):
                findings[path, found[1]] = Finding(path, found[1])
    languages = _Languages(raw["train"], src, tgt)
    heldout: dict[bytes, tuple[Path, int]] = {}
    for split in SPLITS[1:]:
        if split in raw:
            for text in texts[split]:
                for number, hashed in enumerate(_examine_pairs(text, languages, findings), 1):
                    heldout.setdefault(hashed, (text.src, number))
            for path, train in zip(raw[split], raw["train"], strict=True):
                _examine_characters(path, train, findings)
    for train, *sets in zip(*(raw[split] for split in SPLITS if split in raw), strict=True):
        findings |= {(path, what): Finding(path, what) for path, what in differences(sets, train)}
    if "test" in raw and not has_words(raw["test"]):
        findings[raw["test"].src, _NO_TEST] = Finding(raw["test"].src, _NO_TEST)
    if "dev" in raw and not has_words(raw["dev"]):
        findings[raw["dev"].src, NO_WORDS] = Finding(raw["dev"].src, NO_WORDS, fatal=True)
    if not any(a.split() and b.split() and not CONTROL.search(a + b) for a, b in pairs_of(raw["train"])):
        findings[raw["train"].src, _NOTHING] = Finding(raw["train"].src, _NOTHING, fatal=True)
    # The hashes of training pairs may not fit into memory, so they go to a file.
    with tempfile.TemporaryDirectory() as folder:
        hashes = {text.src: Path(folder, str(number)) for number, text in enumerate(texts["train"])}
        for text in texts["train"]:
            with open(hashes[text.src], "wb") as file:
                for hashed in _examine_pairs(text, languages, findings):
                    file.write(hashed)
                    if hashed in heldout:
                        findings.add(*heldout.pop(hashed), f"the pair is also in {raw['train'].src}")
        for path, marks in zip(hashes, repeated([*hashes.values()]), strict=True):
            for number in np.flatnonzero(marks).tolist():
                findings.add(path, number + 1, "the same pair as on an earlier line")
    return list(findings.values())


def _examine_tables(files: Files, src: str, tgt: str, findings: _Findings) -> bool:
    """Report odd lines of tables; True if every line has the columns of both sides."""
    sound = True
    for file, columns in columns_of(zip((src, tgt), files, strict=True)).items():
        advice = conversion(next(raw_lines(file), b""))
        if "utf-16" in advice:  # in which no row has the right columns
            findings.add(file, 1, f"not UTF-8; {advice}", fatal=True)
            sound = False
            continue
        for _, number, what in odd_rows(file, columns, None):
            findings.add(file, number, what)
        least = max(columns.values())
        for number, cells in enumerate(rows(file), 1):
            if cells and len(cells) < least:
                findings.add(file, number, f"has {counted(len(cells), 'column')}, not {least}", fatal=True)
                sound = False
    return sound


def _examine_pairs(files: Files, languages: "_Languages", findings: _Findings) -> Iterator[bytes]:
    """Report the faults of each pair and yield its hash, which is unique for an unusable pair."""
    ended = set[Path]()
    advice = {path: conversion(next(raw_lines(path), b"")) for path in files}
    for number, pair in enumerate(zip_longest(*map(raw_lines, files)), 1):
        texts = []
        for path, raw in zip(files, pair, strict=True):
            if raw is None:
                if path not in ended:
                    findings.add(path, number, "the text ends before this line; the other side has more", fatal=True)
                ended.add(path)
                continue
            try:
                texts.append(parse_line(raw, path, number))
            except UserError:
                findings.add(path, number, f"not UTF-8; {advice[path]}", fatal=True)
        words = [text.split() for text in texts]
        if len(words) == 2 and all(words):
            for side, what in languages.faults(words[0], words[1]):
                findings.add(files[side], number, what)
            yield pair_hash(words[0], words[1])
        else:
            # Blank pairs are not duplicates of each other.
            yield pair_hash([str(number)], [str(files.src), ""])
        for path, text in zip(files, texts if len(texts) == 2 else [], strict=False):
            for what in _line_faults(text, advice[path]):
                findings.add(path, number, what)


def _examine_characters(path: Path, train: Path, findings: _Findings) -> None:
    """Report frequent characters that the training text lacks, such as another apostrophe."""
    # prep converts all text to one normal form, without invisible characters.
    lines = [
        (text, number, set(normalize("NFC", INVISIBLE.sub("", line.decode(errors="ignore")).strip())))
        for text in texts_of(path)
        for number, line in enumerate(raw_lines(text), 1)
    ]
    counts = Counter(chain.from_iterable(line for *_, line in lines))
    unseen = {character for character, found in counts.items() if found >= max(_KNOWN, _FREQUENT * len(lines))}
    for raw in raw_lines(train):
        if not unseen:
            return
        unseen.difference_update(normalize("NFC", INVISIBLE.sub("", raw.decode(errors="ignore"))))
    for character in sorted(unseen, key=lambda character: (-counts[character], character))[:_MOST_UNSEEN]:
        for text, number, line in lines:
            if character in line:
                findings.add(text, number, f"{character!r} (U+{ord(character):04X}) does not occur in {train}")


def _line_faults(text: str, advice: str) -> Iterator[str]:
    """The faults of a single line; ``advice``: how to convert its file to UTF-8."""
    if "\r" in text.strip("\r"):
        yield CARRIAGE_RETURN
    if not text.split():
        yield "blank"
    elif len(text.split()) > Cleaning.max_length:
        yield f"more than {Cleaning.max_length} words"
    if "\0" in text and "utf-16" in advice:  # Latin text in UTF-16 is valid UTF-8 with zeros
        yield f"control characters; {advice}"
    elif CONTROL.search(text):
        yield "control characters"
    elif restored(text) != text:
        remedy = "convert the original with: iconv -f cp1252 -t utf-8"
        yield f"characters that prep restores: Windows-1252 read as Latin-1; {remedy}"


class _Languages:
    """Detects lines in the wrong language from word counts of the text itself, assuming that most lines are right."""

    def __init__(self, train: Files, src: str, tgt: str) -> None:
        self._names = src, tgt
        self._length = characters if any(base_language(name) in WITHOUT_SPACES for name in self._names) else len
        self._counts = [_count(path) for path in train]
        self._totals = [sum(counts.values()) or 1 for counts in self._counts]

    def faults(self, src: list[str], tgt: list[str]) -> Iterator[tuple[int, str]]:
        """The faults of a pair, each with its side, 0 or 1."""
        # A single word may be a name.
        if src == tgt and len(src) > 1:
            yield 1, "the same as its source"
            return
        for side, words in enumerate((src, tgt)):
            if wrong_script(" ".join(words), self._names[side]):
                yield side, f"not in the script of {self._names[side]}"
            elif self._evidence(words, side) < -_SURE:
                yield side, f"looks like {self._names[1 - side]}, not {self._names[side]}"
        lengths = self._length(src), self._length(tgt)
        short, long = sorted(lengths)
        if long > Cleaning.max_ratio * short:
            yield lengths.index(long), f"more than {Cleaning.max_ratio:g} times as long as the other side"

    def _evidence(self, words: list[str], side: int) -> float:
        """Evidence for the side's language: the mean log-ratio of the words' frequencies on both sides."""
        ratios = []
        for word in map(str.lower, words):
            # Add-half smoothing, because a word may be unseen on one side.
            own, other = (self._counts[s][word] for s in (side, 1 - side))
            if own + other >= _KNOWN:
                ratios.append(
                    math.log((own + 0.5) / self._totals[side]) - math.log((other + 0.5) / self._totals[1 - side])
                )
        return sum(ratios) / len(ratios) if len(ratios) > 2 else 0.0  # one or two words may be names


def _count(path: Path) -> Counter[str]:
    """Counts of lower-cased words in the first lines of a file."""
    lines = islice(raw_lines(path), _SAMPLE)
    return Counter(word for line in lines for word in line.decode(errors="ignore").lower().split())


def examine_round_trip(folder: Path) -> list[Finding]:
    """Languages of a data folder whose text does not detokenise exactly."""
    trips = read_json(folder / "manifest.json", "make the folder with nmtkit prep").get("round_trip", {})
    return [
        Finding(
            folder / "prep.yaml",
            f"only {trip['same'] / trip['lines']:.1%} of {language}'s lines detokenise exactly: "
            f"{describe_loss(trip)}; nmtkit prep is lossless without its options for tokenisation",
        )
        for language, trip in zip(load_prep(folder).languages, trips.values(), strict=False)
        if trip["same"] < ENOUGH * trip["lines"]
    ]


def examine_ids(folder: Path) -> list[Finding]:
    """Splits with many unknown words, and lines with mostly unknown words.

    Raises UserError if the folder's ids do not match its text and vocabularies.
    """
    findings = []
    remedies = {
        name: "words; use more words, or BPE"
        if side.segmentation == "words"
        else "subwords; use fewer merges or pieces, a larger vocabulary, or training text with these characters"
        for name, side in load_prep(folder).sides.items()
    }
    # The id of the first word; smaller ones in a text are unknown words, which ``unkpos`` marks with many symbols.
    first = {side: Vocabulary.load(TextFiles(folder).vocabulary(side)).symbols for side in SIDES}
    for split in SPLITS:
        if not (folder / f"{split}.src.ids").exists():
            continue
        corpus = Corpus.open(folder, split)
        for side, sentence in zip(SIDES, (corpus.src, corpus.tgt), strict=True):
            mostly = Finding(folder / f"{split}.{side}", "more than half of the words are unknown")
            tokens = unknown = 0
            for number in range(len(corpus)):
                ids = sentence(number)
                missing = int((ids < first[side]).sum())
                tokens, unknown = tokens + len(ids), unknown + missing
                if 2 * missing > len(ids):
                    mostly.add(number + 1)
            if unknown > _MANY_UNKNOWN * tokens:
                what = f"{unknown / tokens:.1%} of the {tokens:,} tokens are unknown {remedies[side]}"
                findings.append(Finding(folder / f"{split}.{side}", what))
            if mostly.count:
                findings.append(mostly)
    return findings
