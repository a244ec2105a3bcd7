"""Byte-pair encoding (Sennrich et al. 2016) with subword-nmt; subwords join back to the exact words."""

import contextlib
import io
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.text.placeholders import MASK

_JOINED = "@@"  # ends every piece of a word but the last
_CACHED_WORDS = 200_000  # about 100 MB


class Segmenter:
    """Splits words by BPE merges exactly as subword-nmt does; masks of placeholders stay whole.

    known: the subwords of a model's vocabulary; others, which the training text has only as parts of longer ones, are
    split again. None: all.
    """

    def __init__(self, merges: str, known: Set[str] | None = None) -> None:
        self._bpe = BPE(io.StringIO(merges), vocab=known, glossaries=[MASK.pattern])
        self._split = lru_cache(_CACHED_WORDS)(self._segmented)

    @classmethod
    def load(cls, path: Path, known: Set[str] | None = None) -> "Segmenter":
        """The segmenter of a merges file of subword-nmt. Raises UserError if it is invalid."""
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
        return cls("\n".join(lines), known)

    def apply(self, words: Iterable[str]) -> list[str]:
        """The subwords of all words, concatenated; all but the last of a word end in @@."""
        return [piece for word in words for piece in self._split(word)]

    def _segmented(self, word: str) -> list[str]:
        pieces: list[str] = self._bpe.segment_tokens([word])
        self._bpe.cache.clear()  # it would grow without bound
        if pieces[-1].endswith(_JOINED):  # @@ of the text itself: split before its last @ to keep joining exact
            pieces[-1:] = [pieces[-1][:-1] + _JOINED, pieces[-1][-1]]
        return pieces

    @staticmethod
    def join(pieces: Iterable[str]) -> list[str]:
        """Words from subwords; an unfinished word at the end of a translation ends there."""
        words, word = [], ""
        for piece in pieces:
            if piece.endswith(_JOINED):
                word += piece.removesuffix(_JOINED)
            else:
                words.append(word + piece)
                word = ""
        return [*words, word] if word else words

    def numbers(self, pieces: Sequence[str]) -> list[int]:
        """The index of the word that each subword belongs to, from 0."""
        ends = (not piece.endswith(_JOINED) for piece in pieces[:-1])
        return list(accumulate(ends, initial=0)) if pieces else []


def learn_merges(counts: Counter[str], merges: int) -> str:
    """BPE merges learnt from word counts, in subword-nmt's format.

    There are fewer than ``merges`` if no pair of symbols occurs twice any more. Raises UserError if there are none.
    """
    # Sorted, so that the order of the counts does not matter.
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"{word} {count}" for word, count in ordered if len(word) > 1 and not MASK.search(word)]
    output = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):  # hides its progress bar
        if lines:
            learn_bpe(lines, output, merges, is_dict=True)
    if output.getvalue().count("\n") < 2:  # the first line is the version
        raise UserError("too little text to learn BPE: no pair of letters occurs twice; use whole `words`")
    return output.getvalue()
