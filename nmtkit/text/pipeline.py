"""The text pipeline of one side: raw text to tokens and back.

Tokens contain no white space of any kind, so a line of tokens joined by single spaces is always one line.
"""

import os
import re
from collections.abc import Set
from pathlib import Path
from re import Match
from typing import Any

from nmtkit.errors import UserError
from nmtkit.folders import SideName, TextFiles
from nmtkit.text import reversible
from nmtkit.text.bpe import Segmenter
from nmtkit.text.casing import lower
from nmtkit.text.command import Command
from nmtkit.text.scripts import CHARACTERS, INDOCHINESE, WIDE, base_language
from nmtkit.text.sentencepieces import MARK, SentencePieces
from nmtkit.text.settings import MOSES, Side, in_form, load_prep, restored
from nmtkit.text.truecasing import Truecaser, detruecased
from nmtkit.writing import copy_file

# Invisible characters that are not white space to str.split, and are not ``restored``.
CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f\x81\x8d\x8f\x90\x9d]")

RUN_COMMANDS = "NMTKIT_RUN_COMMANDS"

# Invisible characters within words: soft hyphens, word joiners and zero-width spaces say where a line may be broken,
# byte order marks nothing. Zero-width spaces may also separate words, in scripts that are written without spaces.
INVISIBLE = re.compile(f"[\u00ad\u2060\ufeff]|(?<![{INDOCHINESE}{WIDE}])\u200b(?![{INDOCHINESE}{WIDE}])")
_LINE_BREAKS = re.compile("[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CHARACTER = re.compile(f"([{WIDE}])")
_AROUND_CHARACTERS = re.compile(f"(?<=[{WIDE}]) | (?=[{WIDE}])")
_PLACE = "THISISPROTECTED"  # placeholder for protected text, the same as in Moses


class TextPipeline:
    """Raw lines to tokens and back, with the settings of prep.yaml. ``load`` reads it from a data or model folder."""

    def __init__(
        self, side: Side, truecaser: Truecaser | None = None, segmenter: Segmenter | SentencePieces | None = None
    ) -> None:
        language = base_language(side.language)
        self.side = side
        self.truecaser = truecaser
        self.segmenter = segmenter
        self._command = Command(side.command) if side.command else None
        self._normalizations = list[tuple[re.Pattern[str], str]]()
        self._tokenizer: Any = None
        self._detokenizer: Any = None
        if side.normalize or side.tokenizer in MOSES:
            from sacremoses import MosesDetokenizer  # imported when needed, because it takes 0.4 s

            from nmtkit.text import moses

            self._normalizations = moses.normalizations(language) if side.normalize else []
            if side.tokenizer in MOSES:
                self._tokenizer, self._detokenizer = moses.make_tokenizer(language), MosesDetokenizer(language)
        self._protected = [re.compile(pattern) for pattern in side.protected]

    @classmethod
    def load(cls, folder: Path, side: SideName, trusted: bool = False, known: Set[str] | None = None) -> "TextPipeline":
        """The pipeline of a data or model folder. Raises UserError if prep.yaml or a file that it needs is missing.

        known: the words of a model's vocabulary, into which BPE splits words if possible; None: any.
        A command in prep.yaml runs only if the folder is ``trusted`` or NMTKIT_RUN_COMMANDS=1 is set: in a downloaded
        folder it could be any program.
        """
        prep, files = load_prep(folder), TextFiles(folder)
        settings = prep.sides[side]
        if settings.command and not trusted and os.environ.get(RUN_COMMANDS) != "1":
            remedy = f"if you trust this command, set {RUN_COMMANDS}=1 in the environment"
            raise UserError(f"{files.settings}: would run {settings.command!r}; {remedy}")
        segmenter: Segmenter | SentencePieces | None = None
        if settings.segmentation == "bpe":
            segmenter = Segmenter.load(files.merges(side), known)
        elif settings.segmentation == "sentencepiece":
            segmenter = SentencePieces.load(files.sentencepieces(side))
        truecaser = Truecaser.load(files.truecasing(side), settings.case) if settings.truecase else None
        return cls(settings, truecaser, segmenter)

    def tokens(self, line: str) -> list[str]:
        """The tokens of a raw line, unknown words included; [] for a blank line."""
        return self.encode(self.surface_words(line))

    def encode(self, words: list[str]) -> list[str]:
        """The tokens of surface words: lower-cased if set, truecased and segmented."""
        return self.segment(self.truecase(self._lowercase(words)))

    def tokenize(self, line: str) -> list[str]:
        """The words of a raw line, lower-cased if set, but neither truecased nor segmented."""
        return self._lowercase(self.surface_words(line))

    def _lowercase(self, words: list[str]) -> list[str]:
        return [lower(word, self.side.case) for word in words] if self.side.lowercase else words

    def surface_words(self, line: str) -> list[str]:
        """The words of a raw line before lower-casing, truecasing and segmentation."""
        line = in_form(self.side, one_line(line))
        if self._normalizations:
            line += "\n"  # matched by some rules
            for pattern, replacement in self._normalizations:
                line = pattern.sub(replacement, line)
            line = line.removesuffix("\n")
        if self._command is not None and line.strip():
            line = self._command.answer(line)
        if self._tokenizer is not None:
            return self._moses(line)
        return reversible.tokenize(line) if self.side.tokenizer == "reversible" else line.split()

    def _moses(self, line: str) -> list[str]:
        """Words tokenised by Moses' rules, except protected text."""
        kept = []
        # A line that contains the placeholder has no protected text.
        if self._protected and _PLACE not in line:
            end = 0
            parts = []
            # The first of overlapping matches wins; empty ones (\d*) are skipped.
            for match in sorted((m for p in self._protected for m in p.finditer(line) if m[0]), key=Match.start):
                if match.start() >= end:
                    parts.append(line[end : match.start()])
                    kept.append(match[0])
                    end = match.end()
            line = f" {_PLACE} ".join([*parts, line[end:]])
        if self.side.tokenizer == "characters":
            line = _CHARACTER.sub(r" \1 ", line)
        words: list[str] = self._tokenizer.tokenize(
            line, aggressive_dash_splits=self.side.aggressive_hyphens, escape=self.side.escape
        )
        if kept:
            texts = iter(self._tokenizer.escape_xml(text) if self.side.escape else text for text in kept)
            words = [part for word in words for part in (next(texts).split() if word == _PLACE else [word])]
        return words

    def truecase(self, words: list[str]) -> list[str]:
        """The words with their usual case, if there is a truecasing model."""
        return words if self.truecaser is None else self.truecaser.apply(words)

    def segment(self, words: list[str]) -> list[str]:
        """The subwords of the words, if there is a BPE or SentencePiece model."""
        return words if self.segmenter is None else self.segmenter.apply(words)

    def words(self, tokens: list[str]) -> list[str]:
        """The words of the subwords; tokenised BLEU is computed on these."""
        return tokens if self.segmenter is None else self.segmenter.join(tokens)

    def word_numbers(self, tokens: list[str]) -> list[int]:
        """The index of the word that each token belongs to, from 0."""
        return [*range(len(tokens))] if self.segmenter is None else self.segmenter.numbers(tokens)

    def following(self, before: list[str], tokens: list[str]) -> list[str]:
        """The tokens of a text after those of another one: in Chinese and Japanese, there is no space between them."""
        unspaced = before and tokens and base_language(self.side.language) in CHARACTERS
        if not unspaced or not _CHARACTER.search(letters(before[-1])[-1:] + letters(tokens[0])[:1]):
            return tokens
        first, pieces = tokens[0].removeprefix(MARK), isinstance(self.segmenter, SentencePieces)
        if self.side.tokenizer == "reversible":
            return [MARK * pieces + reversible.JOINER + first, *tokens[1:]]
        return [first, *tokens[1:]] if pieces else tokens

    def text(self, tokens: list[str]) -> str:
        """Detokenised text: subwords joined, truecasing undone, punctuation attached, without control characters."""
        text = self._detokenized(self.words(tokens))
        return text if text.isprintable() else CONTROL.sub("", restored(text))

    def _detokenized(self, words: list[str]) -> str:
        if self.truecaser is not None:
            words = detruecased(words, self.side.case)
        if self._detokenizer is None:
            return reversible.join(words) if self.side.tokenizer == "reversible" else " ".join(words)
        try:
            text = str(self._detokenizer.detokenize(words, unescape=self.side.escape))
        except TypeError:  # sacremoses 0.2 fails on Czech "x' - li"
            text = " ".join(words)
        return _AROUND_CHARACTERS.sub("", text) if self.side.tokenizer == "characters" else text


def one_line(text: str) -> str:
    """The ``restored`` text with spaces for line breaks, and without control characters and invisible characters."""
    if text.isprintable():  # a fast test for most lines
        return text
    return INVISIBLE.sub("", CONTROL.sub("", _LINE_BREAKS.sub(" ", restored(text))))


def letters(token: str) -> str:
    """A token without the marks of BPE, SentencePiece and the reversible tokenizer."""
    return token.removesuffix("@@").removeprefix(MARK).strip(reversible.JOINER)


def is_subword(token: str) -> bool:
    """Whether a token has the mark of BPE or SentencePiece; a mark alone is not a subword."""
    return letters(token) not in (token.strip(reversible.JOINER), "")


def copy_prep(source: Path, target: Path) -> None:
    """Copy prep.yaml and the learned models (BPE, SentencePiece, truecasing) of one folder to another."""
    for path in TextFiles(source).prepared():
        if path.is_file():
            copy_file(path, target / path.name)
        else:
            (target / path.name).unlink(missing_ok=True)
