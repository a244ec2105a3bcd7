"""The settings of a data folder, prep.yaml: what decides how raw text becomes tokens and back."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nmtkit.config import build, load_yaml
from nmtkit.errors import UserError
from nmtkit.folders import TextFiles

Drop = Literal["identical", "script", "overlap", "duplicate"]
# reversible: words and punctuation marks with joiners, which become the same text again (reversible.py).
# moses: Moses' rules. characters: every Chinese or Japanese character is a word, and the rest is as with moses.
# none: the words are already separated by spaces.
Tokenizer = Literal["reversible", "moses", "characters", "none"]
MOSES: tuple[Tokenizer, ...] = ("moses", "characters")  # those that apply Moses' rules
Segmentation = Literal["bpe", "sentencepiece", "words"]


@dataclass(frozen=True)
class Side:
    """The settings by which the text of one language becomes tokens.

    Defaults are what an old prep.yaml means that lacks a key; nmtkit prep writes every key, and has its own defaults.
    """

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
        if self.tokenizer not in MOSES and (self.aggressive_hyphens or self.protected or self.escape):
            raise ValueError(
                "`aggressive_hyphens`, `protect` and `escape` are options of the Moses tokenizer, and `tokenizer` is "
                f"{self.tokenizer}; add `tokenizer` moses"
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
    merges: int | None = 10_000  # of BPE; None: as many as suit the number of words, see learning.py
    pieces: int = 8_000  # of SentencePiece
    joint: bool = True  # learn BPE or SentencePiece on both sides together
    cleaning: Cleaning = field(default_factory=Cleaning)

    def __post_init__(self) -> None:
        if self.merges is not None and self.merges < 1:
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
