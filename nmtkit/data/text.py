"""Raw text to the tokens that a model sees, and back, for one side of a language pair.

Tokens never contain white space of any kind, so that a line of tokens joined by single spaces is one line
wherever it is read. Special characters are not escaped as Moses would (``&apos;``): ``less`` shows plain text.
"""

import contextlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from sacremoses import MosesDetokenizer, MosesDetruecaser, MosesPunctNormalizer, MosesTokenizer, MosesTruecaser
from sacremoses.corpus import NonbreakingPrefixes
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from nmtkit.data.command import Command
from nmtkit.data.settings import PREP_FILES, Side, load_prep
from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, read_lines

# A tab, a line separator and their like are white space to Python's split; these are not, and nobody can see them.
CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")

RUN_COMMANDS = "NMTKIT_RUN_COMMANDS"

_LINE_BREAKS = re.compile("[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Han, kana, bopomofo, and the punctuation and full-width forms that go with them.
_WIDE = "\u2e80-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_CHARACTER = re.compile(f"([{_WIDE}])")
_AROUND_CHARACTERS = re.compile(f"(?<=[{_WIDE}]) | (?=[{_WIDE}])")
_PLACE = "THISISPROTECTED"  # stands for what is protected while Moses' rules look at the rest; their own word for it
_JOINED = "@@"  # ends every piece of a word but the last
_CACHED_WORDS = 200_000  # a hundred megabytes


class TextPipeline:
    """Raw lines to tokens and back, as prep.yaml says. ``load`` it from a data or model folder."""

    def __init__(self, side: Side, truecaser: "Truecaser | None" = None, segmenter: "Segmenter | None" = None) -> None:
        language = moses_language(side.language)
        self.side = side
        self.truecaser = truecaser
        self.segmenter = segmenter
        self._command = Command(side.command) if side.command else None
        self._normalizations = _normalizations(language) if side.normalize else []
        self._tokenizer = _tokenizer(language) if side.tokenizer != "none" else None
        self._detokenizer = MosesDetokenizer(language) if side.tokenizer != "none" else None
        protected = "|".join(f"(?:{pattern})" for pattern in side.protected)
        self._protected = re.compile(protected) if protected else None
        self._detruecaser = MosesDetruecaser()

    @classmethod
    def load(cls, folder: Path, side: Literal["src", "tgt"], trusted: bool = False) -> "TextPipeline":
        """Raises UserError for a folder without prep.yaml, or without a file that prep.yaml asks for.

        A command in prep.yaml is run only if the folder is ``trusted`` or the environment says so: a folder that comes
        from elsewhere could name any program.
        """
        prep = load_prep(folder)
        settings = prep.src if side == "src" else prep.tgt
        if settings.command and not trusted and os.environ.get(RUN_COMMANDS) != "1":
            raise UserError(
                f"{folder}/prep.yaml: wants to run {settings.command!r}; "
                f"if that is yours, say so with {RUN_COMMANDS}=1 in the environment"
            )
        return cls(
            settings,
            Truecaser.load(folder / f"truecase.{side}") if settings.truecase else None,
            Segmenter.load(folder / f"bpe.{side}") if settings.segmentation == "bpe" else None,
        )

    def tokens(self, line: str) -> list[str]:
        """What the model sees of a raw line (words it does not know included). A blank line gives []."""
        return self.segment(self.truecase(self.tokenize(line)))

    def tokenize(self, line: str) -> list[str]:
        words = self.written(line)
        return [word.lower() for word in words] if self.side.lowercase else words

    def written(self, line: str) -> list[str]:
        """The words of a raw line in the user's own spelling: before lower-casing, truecasing and BPE."""
        if not line.isprintable():
            line = CONTROL.sub("", _LINE_BREAKS.sub(" ", line)).replace("\ufeff", "")
        if self._normalizations:
            line += "\n"  # which Moses' rules see
            for pattern, replacement in self._normalizations:
                line = pattern.sub(replacement, line)
            line = line.removesuffix("\n")
        if self._command is not None and line.strip():
            line = self._command.answer(line)
        return line.split() if self._tokenizer is None else self._moses(self._tokenizer, line)

    def _moses(self, tokenizer: Any, line: str) -> list[str]:
        kept = []
        if self._protected is not None and _PLACE not in line:
            kept = [match[0] for match in self._protected.finditer(line)]
            line = self._protected.sub(f" {_PLACE} ", line)
        if self.side.tokenizer == "characters":
            line = _CHARACTER.sub(r" \1 ", line)
        words: list[str] = tokenizer.tokenize(
            line, aggressive_dash_splits=self.side.aggressive_hyphens, escape=self.side.escape
        )
        if kept:
            texts = iter(tokenizer.escape_xml(text) if self.side.escape else text for text in kept)
            words = [part for word in words for part in (next(texts).split() if word == _PLACE else [word])]
        return words

    def truecase(self, words: list[str]) -> list[str]:
        return words if self.truecaser is None else self.truecaser.apply(words)

    def segment(self, words: list[str]) -> list[str]:
        return words if self.segmenter is None else self.segmenter.apply(words)

    def words(self, tokens: list[str]) -> list[str]:
        """The tokens with BPE undone: what tokenised BLEU is counted on."""
        return tokens if self.segmenter is None else join_pieces(tokens)

    def text(self, tokens: list[str]) -> str:
        """Plain text for a reader: BPE and truecasing undone, punctuation back at its words."""
        words = self.words(tokens)
        if self.truecaser is not None:
            words = self._detruecaser.detruecase(" ".join(words))
        if self._detokenizer is None:
            return " ".join(words)
        try:
            text = str(self._detokenizer.detokenize(words, unescape=self.side.escape))
        except TypeError:  # sacremoses 0.2 fails on Czech "x' - li"; a line is never lost
            text = " ".join(words)
        return _AROUND_CHARACTERS.sub("", text) if self.side.tokenizer == "characters" else text


def copy_prep(data_folder: Path, model_folder: Path) -> None:
    """Give a model folder the settings, merges and truecasing models that it needs to read raw text by itself."""
    for name in PREP_FILES:
        if (data_folder / name).is_file():
            with atomic_write(model_folder / name, "wb") as file:
                file.write((data_folder / name).read_bytes())
        else:
            (model_folder / name).unlink(missing_ok=True)


def moses_language(language: str) -> str:
    """The code by which sacremoses knows a language: pt for pt-BR."""
    return re.split("[-_]", language)[0].lower()


def has_moses_rules(language: str) -> bool:
    """Whether sacremoses knows the abbreviations of a language; if not, it takes the English ones."""
    return moses_language(language) in NonbreakingPrefixes().available_langs.values()


def _normalizations(language: str) -> list[tuple[re.Pattern[str], str]]:
    """sacremoses' rules, compiled, and two of them written so that their cost is linear; they replace the same."""
    faster = {" +": "  +", r'(\.+)"(\s*[^<])': r'(?:(?<!\.)|(?<=[^.]\.))(\.+)"(\s*[^<])'}
    rules = MosesPunctNormalizer(language).substitutions
    return [(re.compile(faster.get(pattern, pattern)), replacement) for pattern, replacement in rules]


def _tokenizer(language: str) -> Any:
    """sacremoses' tokenizer without the sets of 50,000 letters that it builds anew for every full stop."""
    tokenizer = MosesTokenizer(language)
    letters = frozenset(tokenizer.IsAlpha)
    tokenizer.islower = frozenset(tokenizer.IsLower).issuperset
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    return tokenizer


class Truecaser:
    """Gives the first word of a sentence the case it usually has; the model is a text file, as Moses writes it."""

    def __init__(self, best: dict[str, str], known: set[str]) -> None:
        self.best = best  # lower-cased word: its most frequent form
        self.known = known  # every other form seen inside a sentence

    @classmethod
    def load(cls, path: Path) -> "Truecaser":
        """Reads lines ``the (90/100) The (10)``. Raises UserError for any other."""
        best, known = {}, set()
        for number, line in enumerate(read_lines(path), 1):
            forms = line.split()[::2]
            if not forms or len(line.split()) % 2:
                raise UserError(f"{path}:{number}: expected 'word (count/total) other-form (count)', found {line!r}")
            best[forms[0].lower()] = forms[0]
            known.update(forms[1:])
        return cls(best, known)

    def apply(self, words: list[str]) -> list[str]:
        """As Moses' truecase.perl: known forms stay as they are inside a sentence."""
        result = []
        first = True
        for word in words:
            if first or word not in self.known:
                word = self.best.get(word.lower(), word)
            result.append(word)
            first = word in _SENTENCE_END or (first and word in _BEFORE_SENTENCE)
        return result


_SENTENCE_END = frozenset(".:?!")
_BEFORE_SENTENCE = frozenset("([\"'")


def count_cases(sentences: Iterable[list[str]]) -> Counter[str]:
    """How often each form of a word occurs where its case says something: not at the start of a sentence."""
    truecaser = MosesTruecaser()
    return Counter(form for words in sentences for _, form, _ in truecaser.learn_truecase_weights(words))


def learn_truecaser(forms: Counter[str]) -> str:
    """The text of a truecasing model."""
    by_word: dict[str, list[tuple[str, int]]] = {}
    for form, count in sorted(forms.items(), key=lambda item: (-item[1], item[0])):
        by_word.setdefault(form.lower(), []).append((form, count))
    return "".join(_truecase_line(forms_of_word) for forms_of_word in by_word.values())


def _truecase_line(forms: Sequence[tuple[str, int]]) -> str:
    (best, count), *others = forms
    total = sum(count for _, count in forms)
    return " ".join([f"{best} ({count}/{total})", *(f"{form} ({count})" for form, count in others)]) + "\n"


class Segmenter:
    """Splits words by BPE merges exactly as subword-nmt does, and so that joining them is exact."""

    def __init__(self, merges: str) -> None:
        self._bpe = BPE(io.StringIO(merges, newline="\n"))
        self._pieces: dict[str, list[str]] = {}

    @classmethod
    def load(cls, path: Path) -> "Segmenter":
        """Reads merges as subword-nmt writes them. Raises UserError for another version, or a line that is not two
        symbols."""
        lines = list(read_lines(path))
        versioned = bool(lines) and lines[0].startswith("#version:")
        if versioned and lines[0].split(" ") not in (["#version:", "0.1"], ["#version:", "0.2"]):
            raise UserError(f"{path}:1: {lines[0]!r} is not a version that subword-nmt reads; it reads 0.1 and 0.2")
        merges = lines[1:] if versioned else lines
        for number, line in enumerate(merges, len(lines) - len(merges) + 1):
            if len(line.strip(" ").split(" ")) != 2:
                raise UserError(f"{path}:{number}: expected two symbols to merge, found {line!r}")
        if not merges:
            raise UserError(f"{path}: has no merges; make it with nmtkit prep")
        return cls("\n".join(lines))

    def apply(self, words: Iterable[str]) -> list[str]:
        if len(self._pieces) > _CACHED_WORDS:
            self._pieces.clear()
            self._bpe.cache.clear()
        return [piece for word in words for piece in self._pieces.get(word) or self._split(word)]

    def _split(self, word: str) -> list[str]:
        pieces: list[str] = self._bpe.segment_tokens([word])
        if pieces[-1].endswith(_JOINED):  # the text's own @@: cut before its last @, or joining would take it for ours
            pieces[-1:] = [pieces[-1][:-1] + _JOINED, pieces[-1][-1]]
        self._pieces[word] = pieces
        return pieces


def join_pieces(pieces: Iterable[str]) -> list[str]:
    """The words that were split into ``pieces``; one that a translation leaves unfinished ends where it ends."""
    words, word = [], ""
    for piece in pieces:
        if piece.endswith(_JOINED):
            word += piece.removesuffix(_JOINED)
        else:
            words.append(word + piece)
            word = ""
    return [*words, word] if word else words


def learn_merges(counts: Counter[str], merges: int) -> str:
    """BPE merges, learnt from how often each word occurs, in subword-nmt's format.

    There are fewer than ``merges`` when no pair of symbols is left that occurs twice. Raises UserError for none at all.
    """
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"{word} {count}" for word, count in ordered if len(word) > 1]
    output = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):  # it shows a progress bar and its reason to stop
        if lines:
            learn_bpe(lines, output, merges, is_dict=True)
    if output.getvalue().count("\n") < 2:  # the first line is a version
        raise UserError("too little text to learn BPE from: no two letters follow each other twice; use --words")
    return output.getvalue()
