"""The settings of a data folder, prep.yaml: what decides how raw text becomes tokens and back."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nmtkit.config import build, load_yaml
from nmtkit.errors import UserError

SideName = Literal["src", "tgt"]
SIDES: tuple[SideName, ...] = ("src", "tgt")
SPLITS: tuple[Literal["train", "dev", "test"], ...] = ("train", "dev", "test")
Drop = Literal["identical", "script", "overlap", "duplicate"]
# characters: every Chinese or Japanese one is a word, and the rest is as with moses.
# none: the words are already separated by spaces.
Tokenizer = Literal["moses", "characters", "none"]
Segmentation = Literal["bpe", "sentencepiece", "words"]


@dataclass(frozen=True)
class TextFiles:
    """The places of the files by which text becomes numbers and back, in a data folder and in a model's alike."""

    folder: Path

    @property
    def settings(self) -> Path:
        """The settings that ``nmtkit prep`` was called with, as YAML."""
        return self.folder / "prep.yaml"

    def merges(self, side: SideName) -> Path:
        """The merges of BPE, in subword-nmt's format; not there when a side is split into words."""
        return self.folder / f"bpe.{side}"

    def sentencepieces(self, side: SideName) -> Path:
        """The unigram model of SentencePiece; not there unless a side is split by it."""
        return self.folder / f"sentencepiece.{side}"

    def truecasing(self, side: SideName) -> Path:
        """The usual case of each word, in Moses' format; not there unless a side is truecased."""
        return self.folder / f"truecase.{side}"

    def vocabulary(self, side: SideName) -> Path:
        """The words of a side by number."""
        return self.folder / f"vocab.{side}"

    @property
    def lexicon(self) -> Path:
        """Translations of single words, of ``nmtkit align``; not there unless that was run."""
        return self.folder / "lexicon.tsv"

    def learnt(self, side: SideName) -> tuple[Path, ...]:
        """What ``nmtkit prep`` learns from the text of a side, there or not."""
        return self.merges(side), self.sentencepieces(side), self.truecasing(side)

    def prepared(self) -> Iterator[Path]:
        """The files that ``nmtkit prep`` makes, there or not."""
        yield self.settings
        yield from map(self.merges, SIDES)
        yield from map(self.sentencepieces, SIDES)
        yield from map(self.truecasing, SIDES)

    def all(self) -> Iterator[Path]:
        """All of them, there or not."""
        yield from self.prepared()
        yield from map(self.vocabulary, SIDES)
        yield self.lexicon


# What ``nmtkit align`` makes; it is of one text, so that ``prep`` takes it away.
ALIGN_FILES = ("dev.align", TextFiles(Path()).lexicon.name, "train.align")


@dataclass(frozen=True)
class Side:
    """The settings by which the text of one language becomes tokens."""

    language: str  # as in ISO 639-1: en, de, zh
    normalize: bool = True  # punctuation, as Moses does
    command: str | None = None  # a program that reads lines before the tokenizer does: a segmenter
    tokenizer: Tokenizer = "moses"
    aggressive_hyphens: bool = False  # "well-known" is "well @-@ known", as with Moses' -a
    protected: tuple[str, ...] = ()  # regular expressions: what they match stays as it is, as with Moses' -protected
    escape: bool = False  # &apos; and the like, as Moses writes unless it is told -no-escape
    lowercase: bool = False
    truecase: bool = False
    segmentation: Segmentation = "bpe"

    def __post_init__(self) -> None:
        if self.lowercase and self.truecase:
            raise ValueError("`lowercase` and `truecase` exclude each other")
        if self.tokenizer == "none" and (self.aggressive_hyphens or self.protected or self.escape):
            raise ValueError(
                "`aggressive_hyphens`, `protect` and `escape` are for a tokenizer, and `tokenizer` is none"
            )
        for pattern in self.protected:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"`protect`: {pattern!r} is not a regular expression: {error}") from None


@dataclass(frozen=True)
class Cleaning:
    """The settings of cleaning. Lengths are in words before BPE."""

    max_length: int = 250  # 0: no limit
    max_ratio: float = 9.0  # longer side to shorter side, as Moses' clean-corpus-n; 0: no limit
    drop: tuple[Drop, ...] = ()  # rules that are not always on

    def __post_init__(self) -> None:
        if self.max_length < 0:
            raise ValueError(f"`max_length` must be 0 or more, not {self.max_length}")
        if self.max_ratio != 0 and self.max_ratio < 1:
            raise ValueError(f"`max_ratio` must be 0 or at least 1, not {self.max_ratio}")


@dataclass(frozen=True)
class Prep:
    """Everything that decides what ``nmtkit prep`` makes of a text; the content of prep.yaml."""

    src: Side
    tgt: Side
    merges: int = 10_000  # of BPE
    pieces: int = 8_000  # of SentencePiece
    joint: bool = True  # learn BPE or SentencePiece on both sides together
    cleaning: Cleaning = field(default_factory=Cleaning)

    def __post_init__(self) -> None:
        if self.merges < 1:
            raise ValueError(f"merges must be at least 1, not {self.merges}")
        if self.pieces < 1:
            raise ValueError(f"pieces must be at least 1, not {self.pieces}")


@dataclass(frozen=True)
class Development:
    """The settings of a development set beyond two files."""

    references: tuple[Path, ...] = ()  # other translations of its source, which BLEU counts, too
    size: int | None = None  # pairs to draw from the training text, which has no others then
    seed: int = 1  # of this drawing


TWO_FILES = Development()


def load_prep(folder: Path) -> Prep:
    """The settings of a data or model folder. Raises UserError where there are none, or some that cannot be."""
    path = TextFiles(folder).settings
    if not path.is_file():
        raise UserError(f"{path}: not there; make the folder with nmtkit prep")
    return build(Prep, load_yaml(path), str(path))
