"""manifest.json: the files of a data folder with checksums, their sources, and the pairs left out."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError, counted
from nmtkit.folders import SIDES, SPLITS, SetName, TextFiles, check_regular
from nmtkit.lines import file_of, noun_of, numbers_in_texts, raw_lines
from nmtkit.text.round_trip import describe_loss
from nmtkit.text.rules import describe_rule
from nmtkit.text.sentencepieces import package
from nmtkit.text.settings import Prep

DATA_FILES = (
    *(path.name for path in TextFiles(Path()).prepared()),
    *(f"{split}.{side}" for split in SPLITS for side in SIDES),
    *(f"{split}.raw.{side}" for split in SPLITS[1:] for side in SIDES),
    "manifest.json",
)
_REFERENCE = re.compile(r"dev\.raw\.tgt[1-9][0-9]*")


def is_data_file(name: str) -> bool:
    """True if ``nmtkit prep`` may write a file of this name into a data folder."""
    return name in DATA_FILES or bool(_REFERENCE.fullmatch(name))


@dataclass(frozen=True)
class PrepReport:
    """The result of ``prepare``; ``str`` gives the printed report."""

    folder: Path
    prep: Prep
    manifest: dict[str, Any]

    def __str__(self) -> str:
        lines = [f"{self.folder}: {' to '.join(self.prep.languages)}, {self._units()}"]
        path = self.manifest["raw"]["train"][0]
        for split, pairs in self.manifest["pairs"].items():
            src, tgt = (self.manifest["files"][f"{split}.{side}"] for side in SIDES)
            kept = (f"{src['lines']:,} of " if split == "train" else "") + counted(pairs, "pair")
            lines.append(f"  {split:<5} {kept}, {src['tokens']:,} + {tgt['tokens']:,} tokens")
            if split == "train":
                for rule, entry in self.manifest["cleaning"].items():
                    if entry["count"]:
                        reason = describe_rule(rule, self.prep.cleaning)
                        lines.append(f"    left out {entry['count']:,} for {reason}: {line_numbers(entry, path)}")
        for language, trip in zip(self.prep.languages, self.manifest["round_trip"].values(), strict=True):
            loss = "" if trip["line"] is None else f"; {describe_loss(trip)}"
            same = f"{trip['same']:,} of {trip['lines']:,} sampled lines detokenise exactly"
            lines.append(f"  {language}: {same}{loss}")
        return "\n".join(lines)

    __repr__ = __str__

    def _units(self) -> str:
        """A description of the tokens: words, BPE or SentencePiece."""
        if self.prep.tgt.segmentation == "sentencepiece":
            return f"{'joint ' if self.prep.joint else ''}SentencePiece of at most {self.prep.pieces:,} pieces"
        merges = [
            f"{sum(not line.startswith(b'#version:') for line in raw_lines(path)):,}"
            for path in map(TextFiles(self.folder).merges, SIDES)
            if path.name in self.manifest["files"]
        ]
        if not merges:
            return "words"
        return f"joint BPE of {merges[0]} merges" if self.prep.joint else f"BPE of {' + '.join(merges)} merges"


def line_numbers(rule: Mapping[str, Any], path: Path | str) -> str:
    """The first lines of ``path`` left out by a rule, from its entry in the manifest: "lines 3, 14, 15, 92, 65, ...".

    Those of a translation memory are units, those of CSV rows, and those of a folder are in its files: "train/a.en:
    lines 3, 14; train/b.tmx: unit 15, ...".
    """
    shown = rule["lines"][:5]
    more = ", ..." if rule["count"] > len(shown) else ""
    if not file_of(path)[0].is_dir():
        return _numbered(path, shown, rule["count"]) + more
    texts = numbers_in_texts(path, shown).items()
    return "; ".join(f"{file_of(text)[0]}: {_numbered(text, each, len(each))}" for text, each in texts) + more


def _numbered(path: Path | str, numbers: Sequence[int], count: int) -> str:
    """Lines, rows or units of a text, of ``count`` altogether, as "lines 3, 14"."""
    file, side = file_of(path)
    noun = "line" if side is None else noun_of(file)
    return f"{noun}{'s' if count > 1 else ''} {', '.join(map(str, numbers))}"


def versions(prep: Prep) -> dict[str, str]:
    """The versions of the packages that tokenise and segment."""
    packages = ["sacremoses", "subword-nmt"]
    if "sentencepiece" in (prep.src.segmentation, prep.tgt.segmentation):
        packages.append(package().__name__)  # an optional dependency
    return {name: version(name) for name in packages}


def describe_file(path: Path) -> dict[str, Any]:
    """The entry of a file in the manifest: lines, tokens and SHA-256."""
    lines = tokens = 0
    digest = hashlib.sha256()
    for line in raw_lines(path):
        lines += 1
        tokens += len(line.split())
        digest.update(line)
    return {"lines": lines, "tokens": tokens, "sha256": digest.hexdigest()}


def verify(folder: Path) -> str:
    """Check every file of a data folder against its manifest. Raises UserError for the first that differs."""
    files = read_manifest(folder)
    for name, expected in files.items():
        check_there(folder / name)
        actual = describe_file(folder / name)
        if actual != expected:
            raise UserError(
                f"{folder / name}: changed since prep wrote it: {actual['lines']:,} lines with SHA-256 "
                f"{actual['sha256'][:12]}..., not {expected['lines']:,} with {expected['sha256'][:12]}...; "
                "make the folder again with nmtkit prep"
            )
    return f"{folder}: all {len(files)} files are as prep wrote them"


def check_there(path: Path) -> None:
    """Raise UserError if a file of the manifest does not exist."""
    if not path.is_file():
        raise UserError(f"{path}: in the manifest, but missing; make the folder again with nmtkit prep")


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of all files in the manifest, by name. Raises UserError if there is no valid manifest."""
    check_regular(folder)
    path, remedy = folder / "manifest.json", "make the folder with nmtkit prep"
    files = read_json(path, remedy).get("files")
    # Checks only the keys that are used, because later versions may write more.
    if not isinstance(files, dict) or not all(
        isinstance(entry, dict) and isinstance(entry.get("lines"), int) and isinstance(entry.get("sha256"), str)
        for entry in files.values()
    ):
        raise UserError(f"{path}: damaged; {remedy}")
    return files


def reference_files(folder: Path, split: SetName) -> list[Path]:
    """The raw references of a set: SPLIT.raw.tgt, then SPLIT.raw.tgt1, SPLIT.raw.tgt2, ..."""
    first = folder / f"{split}.raw.tgt"
    others = (first.with_name(f"{first.name}{number}") for number in count(1))
    return [first, *takewhile(Path.is_file, others)]


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a JSON file. Raises UserError with ``remedy`` if there is none."""
    if not path.is_file():
        raise UserError(f"{path}: not found; {remedy}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # invalid UTF-8 or JSON, or too deeply nested
        values = None
    if not isinstance(values, dict):
        raise UserError(f"{path}: damaged; {remedy}")
    return values
