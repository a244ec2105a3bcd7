"""The settings of a data folder (prep.yaml): tokenisation, truecasing, segmentation and cleaning."""

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from nmtkit.config import build, load_yaml, require_counts
from nmtkit.errors import UserError
from nmtkit.folders import SideName, TextFiles, check_regular
from nmtkit.text.scripts import CHARACTERS, SYLLABLES, WITHOUT_SPACES, base_language

Drop = Literal["identical", "script", "overlap", "duplicate"]
# reversible: words and punctuation marks with joiners (reversible.py). moses: Moses' rules. characters: Moses' rules,
# with every Chinese or Japanese character as a word. none: words are already separated by spaces.
Tokenizer = Literal["reversible", "moses", "characters", "none"]
MOSES: tuple[Tokenizer, ...] = ("moses", "characters")  # based on Moses' rules
Segmentation = Literal["bpe", "sentencepiece", "words"]


@dataclass(frozen=True)
class Side:
    """The preprocessing of one side. Defaults are for old prep.yaml files; nmtkit prep has its own."""

    language: str  # as in ISO 639-1: en, de, zh
    form: Literal["NFC", "NFD"] | None = None  # Unicode's normal form that text is converted to
    normalize: bool = True  # punctuation, as Moses does
    command: str | None = None  # a segmenter that is run before the tokenizer
    tokenizer: Tokenizer = "moses"
    aggressive_hyphens: bool = False  # "well-known" is "well @-@ known", as with Moses' -a
    protected: tuple[str, ...] = ()  # regular expressions whose matches are not tokenised, as with Moses' -protected
    escape: bool = False  # to &apos; etc., as Moses does without -no-escape
    lowercase: bool = False
    truecase: bool = False
    segmentation: Segmentation = "bpe"

    def __post_init__(self) -> None:
        if self.lowercase and self.truecase:
            raise ValueError("`lowercase` and `truecase` cannot be combined")
        if self.tokenizer not in MOSES and (self.aggressive_hyphens or self.protected or self.escape):
            options = "`aggressive_hyphens`, `protect` and `escape`"
            raise ValueError(f"{options} are options of `tokenizer` moses or characters, not {self.tokenizer}")
        for pattern in self.protected:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"`protect`: {pattern!r} is not a regular expression: {error}") from None

    @property
    def case(self) -> str:
        """The language whose casing rules apply; "", Unicode's default, except with the default tokenizer.

        Moses' scripts, and so the systems of papers, know no exceptions.
        """
        return self.language if self.tokenizer == "reversible" else ""

    @cached_property
    def finds_words(self) -> bool:
        """Whether the tokens before segmentation are words, characters or syllables, so that lengths can be compared.

        Text in a language without spaces between words may be separated before prep, but not for SentencePiece.
        """
        language = base_language(self.language)
        if language not in WITHOUT_SPACES or self.command is not None:
            return True
        if self.tokenizer == "none":
            return self.segmentation != "sentencepiece"
        return self.tokenizer != "moses" and language in (*CHARACTERS, *SYLLABLES)


@dataclass(frozen=True)
class Cleaning:
    """Cleaning of training text. Lengths are in words, before segmentation into subwords."""

    max_length: int = 250  # 0: no limit
    max_ratio: float = 9.0  # longer side to shorter side, as Moses' clean-corpus-n; 0: no limit
    drop: tuple[Drop, ...] = ()  # optional rules

    def __post_init__(self) -> None:
        if self.max_length < 0:
            raise ValueError(f"`max_length` must be 0 or more, not {self.max_length}")
        if self.max_ratio != 0 and self.max_ratio < 1:
            raise ValueError(f"`max_ratio` must be 0 or at least 1, not {self.max_ratio}")


@dataclass(frozen=True)
class Prep:
    """All settings of ``nmtkit prep``; the content of prep.yaml."""

    src: Side
    tgt: Side
    merges: int | None = 10_000  # of BPE; None: chosen by the number of words, see learning.py
    pieces: int = 8_000  # of SentencePiece
    joint: bool = True  # one subword model for both sides
    mask: bool = False  # placeholders of the training text, see placeholders.py
    cleaning: Cleaning = field(default_factory=Cleaning)

    def __post_init__(self) -> None:
        require_counts(1, self, "merges", "pieces")

    @property
    def sides(self) -> dict[SideName, Side]:
        """The preprocessing of both sides."""
        return {"src": self.src, "tgt": self.tgt}

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.src.language, self.tgt.language


@dataclass(frozen=True)
class SetOptions:
    """Options of the development and test sets."""

    references: tuple[Path, ...] = ()  # further references of the development set, for BLEU
    dev_size: int | None = None  # pairs to sample from the training text, if there is no development set
    test_size: int | None = None  # the same for the test set
    seed: int = 1  # of these samples

    @property
    def sizes(self) -> dict[str, int]:
        """The number of pairs of each sampled set."""
        return {split: size for split, size in (("dev", self.dev_size), ("test", self.test_size)) if size}


AS_GIVEN = SetOptions()

# Quotation marks, dashes and some letters of Windows-1252, by the control character with the same byte in Latin-1.
_WINDOWS = {
    byte: character
    for byte in range(0x80, 0xA0)
    if byte != 0x85 and (character := bytes([byte]).decode("cp1252", errors="ignore"))
}


def in_form(side: Side, text: str) -> str:
    """A text in the Unicode normal form of a side, with ``restored`` characters."""
    return restored(text) if side.form is None else unicodedata.normalize(side.form, restored(text))


def restored(text: str) -> str:
    """A text with the characters of Windows-1252 instead of the control characters that they become read as Latin-1.

    The line break U+0085 stays. Browsers, too, read Latin-1 as Windows-1252 (WHATWG, Encoding Standard).
    """
    return text if text.isprintable() else text.translate(_WINDOWS)


def load_prep(folder: Path) -> Prep:
    """The settings of a data or model folder. Raises UserError if they are missing or invalid."""
    check_regular(folder)
    path = TextFiles(folder).settings
    if not path.is_file():
        raise UserError(f"{path}: not found; make the folder with nmtkit prep")
    return build(Prep, load_yaml(path), str(path))


def preparation(folder: Path, side: SideName) -> tuple[Side, tuple[bytes, ...]]:
    """The settings and learned models of a folder that determine the tokens of a side, to compare two folders."""
    prep, learnt = load_prep(folder), TextFiles(folder).learnt(side)
    return prep.sides[side], tuple(path.read_bytes() for path in learnt if path.is_file())
