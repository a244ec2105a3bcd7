"""Vocabularies: words and their ids."""

import hashlib
import re
import sys
from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.symbols import SPELLINGS, UNK, UNKPOS
from nmtkit.text.counts import most_frequent
from nmtkit.writing import atomic_write

ALL_SYMBOLS = frozenset((*SPELLINGS, *UNKPOS))


class Vocabulary:
    """Words by id: the four special symbols, the sixteen of ``UNKPOS`` if it is annotated, then words by frequency.

    On disk a row is ``word<TAB>count``, and line n has the id n - 1. A word of a text that is spelled like a symbol is
    unknown: text cannot contain ``</s>``.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int]) -> None:
        assert tuple(words[: len(SPELLINGS)]) == SPELLINGS
        assert len(words) == len(counts)
        self.words = list(words)
        self.counts = list(counts)  # in the training text; 0 for the symbols
        self.annotated = UNKPOS[0] in words
        self.symbols = len(SPELLINGS) + (len(UNKPOS) if self.annotated else 0)  # their number
        assert not self.annotated or tuple(words[len(SPELLINGS) : self.symbols]) == UNKPOS
        # Without symbols, so that words spelled like them are unknown.
        self._ids = {word: id for id, word in enumerate(words) if id >= self.symbols}

    @classmethod
    def choose(
        cls, counts: Iterable[tuple[str, int]], size: int | None, min_count: int, annotated: bool = False
    ) -> "Vocabulary":
        """The most frequent words with at least ``min_count`` occurrences, at most ``size`` rows with the symbols.

        Ties are in alphabetical order. Memory holds no more words than the result.
        """
        symbols = (*SPELLINGS, *UNKPOS) if annotated else SPELLINGS
        enough = ((word, n) for word, n in counts if n >= min_count and word not in ALL_SYMBOLS)
        frequent = most_frequent(enough, sys.maxsize if size is None else size - len(symbols))
        return cls([*symbols, *(word for word, _ in frequent)], [0] * len(symbols) + [n for _, n in frequent])

    @classmethod
    def take(
        cls, words: Sequence[str], counts: Iterable[tuple[str, int]], size: int | None, annotated: bool = False
    ) -> "Vocabulary":
        """The words of a list in its order, at most ``size`` rows with the symbols, with their counts in the text."""
        symbols = (*SPELLINGS, *UNKPOS) if annotated else SPELLINGS
        kept = [word for word in words if word not in ALL_SYMBOLS][: None if size is None else size - len(symbols)]
        in_text = dict.fromkeys(kept, 0)
        in_text |= {word: n for word, n in counts if word in in_text}
        return cls([*symbols, *kept], [0] * len(symbols) + [*in_text.values()])

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """The vocabulary of a file. Raises UserError with file and line if it is malformed."""
        if not path.exists():  # it may be a pipe
            raise UserError(f"{path}: not found; make it with nmtkit vocab")
        counts: list[int] = []
        lines: dict[str, int] = {}  # of words
        for number, line in enumerate(read_lines(path), 1):
            word, tab, count = line.partition("\t")
            if not tab or word.split() != [word] or not re.fullmatch("[0-9]{1,18}", count):
                raise UserError(f"{path}:{number}: expected a word, a tab and a count, found {line[:80]!r}")
            if number <= len(SPELLINGS) and word != SPELLINGS[number - 1]:
                raise UserError(f"{path}:{number}: expected the symbol {SPELLINGS[number - 1]}, found {word!r}")
            if word in lines:
                raise UserError(f"{path}:{number}: the word {word!r} is already on line {lines[word]}")
            lines[word] = number
            counts.append(int(count))
        words = list(lines)
        if len(words) < len(SPELLINGS):
            raise UserError(f"{path}: ends before the last of the symbols {' '.join(SPELLINGS)}")
        if not lines.keys().isdisjoint(UNKPOS) and tuple(words[len(SPELLINGS) :][: len(UNKPOS)]) != UNKPOS:
            raise UserError(f"{path}: the symbols {UNKPOS[0]} to {UNKPOS[-1]} must be on lines 5 to 20, or absent")
        return cls(words, counts)

    def save(self, path: Path) -> None:
        """Write the file that ``load`` reads."""
        with atomic_write(path) as file:
            file.writelines(f"{word}\t{count}\n" for word, count in zip(self.words, self.counts, strict=True))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def known(self) -> Set[str]:
        """All words but the symbols."""
        return self._ids.keys()

    @cached_property
    def capitals(self) -> bool:
        """True if sentences begin with a capital, judged by the ten most frequent lower-case words."""
        common = [word for word in self.words[self.symbols :] if word[0].islower()][:10]
        count = dict(zip(self.words, self.counts, strict=True))
        # About a tenth of their occurrences are capitalised in raw text, almost none in truecased text.
        large, small = (sum(count.get(word, 0) for word in words) for words in (map(str.capitalize, common), common))
        return 20 * large > small

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens, UNK for unknown ones. No BOS or EOS is added."""
        return [self._ids.get(token, UNK) for token in tokens]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of ids, with the spellings of symbols."""
        return [self.words[id] for id in ids]

    @property
    def fingerprint(self) -> str:
        """A hash of words and ids; counts do not matter."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()
