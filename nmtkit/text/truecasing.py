"""Truecasing as in Moses: the first word of a sentence gets its most frequent case."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.text.casing import capitalised, lower
from nmtkit.text.reversible import JOINER

_SENTENCE_END = frozenset(".:?!")
_BEFORE_SENTENCE = frozenset([*"([\"'", "&apos;", "&quot;", "&#91;", "&#93;"])  # skipped before its first word


class Truecaser:
    """Changes the first word of a sentence to its most frequent case."""

    def __init__(self, best: dict[str, str], known: set[str], language: str = "en") -> None:
        self.best = best  # lower-cased word: its most frequent form
        self.known = known  # all other forms inside sentences
        self._language = language

    @classmethod
    def load(cls, path: Path, language: str) -> "Truecaser":
        """The truecaser of a file with lines such as ``the (90/100) The (10)``. Raises UserError for any other line."""
        best, known = {}, set()
        for number, line in enumerate(read_lines(path), 1):
            forms = line.split()[::2]
            if not forms or len(line.split()) % 2:
                raise UserError(f"{path}:{number}: expected 'word (count/total) other-form (count)', found {line!r}")
            best[lower(forms[0], language)] = forms[0]
            known.update(forms[1:])
        return cls(best, known, language)

    def apply(self, words: list[str]) -> list[str]:
        """A sentence truecased like Moses' truecase.perl: inside the sentence, known forms are unchanged."""
        return [
            self.best.get(lower(word, self._language), word) if first or word not in self.known else word
            for word, first in zip(words, sentence_starts(words), strict=True)
        ]


def detruecased(words: Sequence[str], language: str) -> list[str]:
    """The words with a capital wherever a sentence may begin, as in Moses' detruecase.perl."""
    starts = zip(words, sentence_starts(words), strict=True)
    return [capitalised(word, language) if first else word for word, first in starts]


def sentence_starts(words: Sequence[str]) -> list[bool]:
    """For each word, whether it may begin a sentence, as in Moses' truecase.perl."""
    starts, first = [], True
    for word in words:
        starts.append(first)
        mark = word.strip(JOINER)
        first = mark in _SENTENCE_END or (first and mark in _BEFORE_SENTENCE)
    return starts


def count_cases(sentences: Iterable[list[str]]) -> Counter[str]:
    """Counts of word forms, except at the start of a sentence."""
    from sacremoses import MosesTruecaser  # imported when needed, because it takes 0.4 s

    truecaser = MosesTruecaser()
    plain = ([word.strip(JOINER) for word in words] for words in sentences)
    return Counter(form for words in plain for _, form, _ in truecaser.learn_truecase_weights(words))


def learn_truecaser(forms: Counter[str], language: str) -> str:
    """The text of a truecasing model."""
    by_word: dict[str, list[tuple[str, int]]] = {}
    for form, count in sorted(forms.items(), key=lambda item: (-item[1], item[0])):
        by_word.setdefault(lower(form, language), []).append((form, count))
    lines = []
    for (best, most), *others in by_word.values():
        total = most + sum(count for _, count in others)
        lines.append(" ".join([f"{best} ({most}/{total})", *(f"{form} ({count})" for form, count in others)]) + "\n")
    return "".join(lines)
