"""Vocabularies: the words that a model knows, and their ids."""

import hashlib
import heapq
import re
import sys
from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, read_lines
from nmtkit.symbols import SPELLINGS, UNK, UNKPOS

ALL_SYMBOLS = frozenset((*SPELLINGS, *UNKPOS))


class Vocabulary:
    """Words by id: the four symbols, then words by descending frequency. Its size counts every row, symbols included.

    The vocabulary of an annotated target text (``annotated``) has the sixteen symbols of ``UNKPOS`` after the four.

    On disk a row is ``word<TAB>count``, and line n has the id n - 1. A word of a text that is spelled like a
    symbol is unknown: text cannot contain ``</s>``.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int]) -> None:
        assert tuple(words[: len(SPELLINGS)]) == SPELLINGS
        assert len(words) == len(counts)
        self.words = list(words)
        self.counts = list(counts)  # in the training text; 0 for the symbols
        self.annotated = UNKPOS[0] in words
        self.symbols = len(SPELLINGS) + (len(UNKPOS) if self.annotated else 0)  # rows of them
        assert not self.annotated or tuple(words[len(SPELLINGS) : self.symbols]) == UNKPOS
        # Symbols have no entry: a word of a text that is spelled like one is unknown.
        self._ids = {word: id for id, word in enumerate(words) if id >= self.symbols}

    @classmethod
    def choose(
        cls, counts: Iterable[tuple[str, int]], size: int | None, min_count: int, annotated: bool = False
    ) -> "Vocabulary":
        """The most frequent words, at most ``size`` rows with the symbols, that occur ``min_count`` times or more.

        Ties go by the alphabet, so that a text has one vocabulary. No more words are held in memory than it has.
        """
        symbols = (*SPELLINGS, *UNKPOS) if annotated else SPELLINGS
        # Words spelled like symbols get no row of their own: whoever wrote "</s>" did not mean the end of the sentence.
        enough = ((word, n) for word, n in counts if n >= min_count and word not in ALL_SYMBOLS)
        limit = sys.maxsize if size is None else size - len(symbols)
        frequent = heapq.nsmallest(limit, enough, key=lambda item: (-item[1], item[0]))
        return cls([*symbols, *(word for word, _ in frequent)], [0] * len(symbols) + [n for _, n in frequent])

    @classmethod
    def take(
        cls, words: Sequence[str], counts: Iterable[tuple[str, int]], size: int | None, annotated: bool = False
    ) -> "Vocabulary":
        """The words of a list in its order, at most ``size`` rows with the symbols, with their counts in the text."""
        symbols = (*SPELLINGS, *UNKPOS) if annotated else SPELLINGS
        kept = [word for word in words if word not in ALL_SYMBOLS][: None if size is None else size - len(symbols)]
        in_text = dict.fromkeys(kept, 0)
        # In the order of the list: updating a dictionary moves no key.
        in_text |= {word: n for word, n in counts if word in in_text}
        return cls([*symbols, *kept], [*(0 for _ in symbols), *in_text.values()])

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """The vocabulary in a file. Raises UserError naming file and line for anything that ``save`` does not write."""
        if not path.exists():  # it may be a pipe
            raise UserError(f"{path}: not found; make it with nmtkit vocab")
        words: list[str] = []
        counts: list[int] = []
        seen: dict[str, int] = {}
        for number, line in enumerate(read_lines(path), 1):
            word, tab, count = line.partition("\t")
            if not tab or word.split() != [word] or not re.fullmatch("[0-9]{1,18}", count):
                raise UserError(f"{path}:{number}: expected a word, a tab and a count, found {line!r}")
            if number <= len(SPELLINGS) and word != SPELLINGS[number - 1]:
                raise UserError(f"{path}:{number}: expected the symbol {SPELLINGS[number - 1]}, found {word!r}")
            if word in seen:
                raise UserError(f"{path}:{number}: the word {word!r} is in line {seen[word]} already")
            seen[word] = number
            words.append(word)
            counts.append(int(count))
        if len(words) < len(SPELLINGS):
            raise UserError(f"{path}: ends before the last of the symbols {' '.join(SPELLINGS)}")
        if not set(UNKPOS).isdisjoint(seen) and tuple(words[len(SPELLINGS) :][: len(UNKPOS)]) != UNKPOS:
            raise UserError(f"{path}: the symbols {UNKPOS[0]} to {UNKPOS[-1]} must be its lines 5 to 20, or not there")
        return cls(words, counts)

    def save(self, path: Path) -> None:
        """Write what ``load`` reads."""
        with atomic_write(path) as file:
            file.writelines(f"{word}\t{count}\n" for word, count in zip(self.words, self.counts, strict=True))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def known(self) -> Set[str]:
        """Every word that is not unknown."""
        return self._ids.keys()

    @cached_property
    def capitals(self) -> bool:
        """True if the text's sentences begin with a capital: then its ten most frequent words often have one, too."""
        common = [word for word in self.words[self.symbols :] if word[0].islower()][:10]
        count = dict(zip(self.words, self.counts, strict=True))
        # In text that is lower-cased or truecased nearly none has; in text as it is written about a tenth of them.
        large, small = (sum(count.get(word, 0) for word in words) for words in (map(str.capitalize, common), common))
        return 20 * large > small

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens, UNK for words that have none. No sentence marks are added."""
        return [self._ids.get(token, UNK) for token in tokens]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words that have these ids, symbols as they are spelled."""
        return [self.words[id] for id in ids]

    @property
    def fingerprint(self) -> str:
        """A hash that two vocabularies share if and only if every word has the same id in both, whatever the counts."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()
