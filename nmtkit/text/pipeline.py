"""Raw text to the tokens that a model sees, and back, for one side of a language pair.

Tokens never contain white space of any kind, so that a line of tokens joined by single spaces is one line
wherever it is read.
"""

import os
import re
from pathlib import Path
from re import Match
from typing import Any

from sacremoses import MosesDetokenizer, MosesDetruecaser

from nmtkit.errors import UserError
from nmtkit.folders import SIDES, SideName, TextFiles
from nmtkit.lines import copy_file
from nmtkit.text import reversible
from nmtkit.text.bpe import Segmenter
from nmtkit.text.command import Command
from nmtkit.text.moses import make_tokenizer, moses_language, normalizations
from nmtkit.text.sentencepieces import MARK, SentencePieces
from nmtkit.text.settings import MOSES, Side, load_prep
from nmtkit.text.truecasing import Truecaser

# A tab, a line separator and their like are white space to Python's split; these are not, and nobody can see them.
CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")

RUN_COMMANDS = "NMTKIT_RUN_COMMANDS"

_LINE_BREAKS = re.compile("[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Han, kana, bopomofo, and the punctuation and full-width forms that go with them.
_WIDE = "\u2e80-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_CHARACTER = re.compile(f"([{_WIDE}])")
_AROUND_CHARACTERS = re.compile(f"(?<=[{_WIDE}]) | (?=[{_WIDE}])")
_PLACE = "THISISPROTECTED"  # stands for what is protected while Moses' rules look at the rest; their own word for it


class TextPipeline:
    """Raw lines to tokens and back, as prep.yaml says. ``load`` it from a data or model folder."""

    def __init__(
        self, side: Side, truecaser: Truecaser | None = None, segmenter: Segmenter | SentencePieces | None = None
    ) -> None:
        language = moses_language(side.language)
        self.side = side
        self.truecaser = truecaser
        self.segmenter = segmenter
        self._command = Command(side.command) if side.command else None
        self._normalizations = normalizations(language) if side.normalize else []
        self._tokenizer = make_tokenizer(language) if side.tokenizer in MOSES else None
        self._detokenizer = MosesDetokenizer(language) if side.tokenizer in MOSES else None
        self._protected = [re.compile(pattern) for pattern in side.protected]
        self._detruecaser = MosesDetruecaser()

    @classmethod
    def load(cls, folder: Path, side: SideName, trusted: bool = False) -> "TextPipeline":
        """The pipeline of a folder.

        Raises UserError for one without prep.yaml, or without a file that prep.yaml asks for. A command in prep.yaml is
        run only if the folder is ``trusted`` or the environment says so: a folder that comes from elsewhere could name
        any program.
        """
        prep, files = load_prep(folder), TextFiles(folder)
        settings = prep.src if side == "src" else prep.tgt
        if settings.command and not trusted and os.environ.get(RUN_COMMANDS) != "1":
            raise UserError(
                f"{files.settings}: wants to run {settings.command!r}; "
                f"if that is yours, say so with {RUN_COMMANDS}=1 in the environment"
            )
        segmenter: Segmenter | SentencePieces | None = None
        if settings.segmentation == "bpe":
            segmenter = Segmenter.load(files.merges(side))
        elif settings.segmentation == "sentencepiece":
            segmenter = SentencePieces.load(files.sentencepieces(side))
        truecaser = Truecaser.load(files.truecasing(side)) if settings.truecase else None
        return cls(settings, truecaser, segmenter)

    def tokens(self, line: str) -> list[str]:
        """The tokens of a raw line, words that the model does not know included. A blank line gives []."""
        return self.read(self.written(line))

    def read(self, written: list[str]) -> list[str]:
        """The tokens of the words that ``written`` gives."""
        return self.segment(self.truecase(self._lowercase(written)))

    def tokenize(self, line: str) -> list[str]:
        """The words of a raw line, lower-cased if the settings say so, but neither truecased nor split."""
        return self._lowercase(self.written(line))

    def _lowercase(self, words: list[str]) -> list[str]:
        """The words in lower case, if the settings say so."""
        return [word.lower() for word in words] if self.side.lowercase else words

    def written(self, line: str) -> list[str]:
        """The words of a raw line in the user's own spelling: before lower-casing, truecasing and BPE."""
        if not line.isprintable():  # most lines are, and that is quick to see
            # Line breaks within a line become spaces, so that words stay apart; what nobody can see goes.
            line = CONTROL.sub("", _LINE_BREAKS.sub(" ", line)).replace("\ufeff", "")
        if self._normalizations:
            line += "\n"  # which Moses' rules see
            for pattern, replacement in self._normalizations:
                line = pattern.sub(replacement, line)
            line = line.removesuffix("\n")
        # A blank line has no words to be found.
        if self._command is not None and line.strip():
            line = self._command.answer(line)
        if self._tokenizer is not None:
            return self._moses(self._tokenizer, line)
        return reversible.tokenize(line) if self.side.tokenizer == "reversible" else line.split()

    def _moses(self, tokenizer: Any, line: str) -> list[str]:
        """Words by Moses' rules, around what is protected."""
        kept = []
        # In a text that has the placeholder itself, nothing is protected: one could not be told from the other.
        if self._protected and _PLACE not in line:
            end = 0
            parts = []
            # Of two matches that overlap, the first is protected, or that of the first expression. An empty one, as \d*
            # has everywhere, would only cut the word in which it stands.
            for match in sorted((m for p in self._protected for m in p.finditer(line) if m[0]), key=Match.start):
                if match.start() >= end:
                    parts.append(line[end : match.start()])
                    kept.append(match[0])
                    end = match.end()
            line = f" {_PLACE} ".join([*parts, line[end:]])
        if self.side.tokenizer == "characters":
            # Spaces around every character make it a word for Moses' rules.
            line = _CHARACTER.sub(r" \1 ", line)
        words: list[str] = tokenizer.tokenize(
            line, aggressive_dash_splits=self.side.aggressive_hyphens, escape=self.side.escape
        )
        if kept:
            # Placeholders come back in the order of what they stand for.
            texts = iter(tokenizer.escape_xml(text) if self.side.escape else text for text in kept)
            words = [part for word in words for part in (next(texts).split() if word == _PLACE else [word])]
        return words

    def truecase(self, words: list[str]) -> list[str]:
        """The words with the case that they usually have, if there is a truecasing model."""
        return words if self.truecaser is None else self.truecaser.apply(words)

    def segment(self, words: list[str]) -> list[str]:
        """The pieces that BPE or SentencePiece splits the words into, if one of them does."""
        return words if self.segmenter is None else self.segmenter.apply(words)

    def words(self, tokens: list[str]) -> list[str]:
        """The words that the tokens are pieces of: what tokenised BLEU is counted on."""
        return tokens if self.segmenter is None else self.segmenter.join(tokens)

    def word_numbers(self, tokens: list[str]) -> list[int]:
        """The number of the word to which each token belongs, counted from 0."""
        return [*range(len(tokens))] if self.segmenter is None else self.segmenter.numbers(tokens)

    def text(self, tokens: list[str]) -> str:
        """Plain text for a reader: words joined, truecasing undone, punctuation back at its words."""
        words = self.words(tokens)
        if self.truecaser is not None:
            words = self._detruecaser.detruecase(" ".join(words))
        if self._detokenizer is None:
            return reversible.join(words) if self.side.tokenizer == "reversible" else " ".join(words)
        try:
            text = str(self._detokenizer.detokenize(words, unescape=self.side.escape))
        except TypeError:  # sacremoses 0.2 fails on Czech "x' - li"; a line is never lost
            text = " ".join(words)
        return _AROUND_CHARACTERS.sub("", text) if self.side.tokenizer == "characters" else text


def letters(token: str) -> str:
    """A token without the marks of BPE, SentencePiece and the reversible tokenizer."""
    return token.removesuffix("@@").removeprefix(MARK).strip(reversible.JOINER)


def copy_learnt(source: Path, target: Path) -> None:
    """Give a folder what another has learnt from its text: merges, SentencePiece's and truecasing models."""
    for side in SIDES:
        for path in TextFiles(source).learnt(side):
            if path.is_file():
                copy_file(path, target / path.name)


def copy_prep(data_folder: Path, model_folder: Path) -> None:
    """Give a model folder the settings, and what was learnt from the text, that it needs to read raw text by itself."""
    for source, copy in zip(TextFiles(data_folder).prepared(), TextFiles(model_folder).prepared(), strict=True):
        if source.is_file():
            copy_file(source, copy)
        else:
            copy.unlink(missing_ok=True)
