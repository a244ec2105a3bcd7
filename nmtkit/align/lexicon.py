"""A bilingual lexicon of single words, counted from alignment links (Luong et al. 2015).

A line is ``source<TAB>target<TAB>probability<TAB>count``: the number of links between the two words, and its share of
all links of the source word.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.writing import atomic_write

WordPair = tuple[str, str]

TRANSLATIONS = 20  # per source word in memory (K' in the shortlists of Jean et al. 2015)


def write_lexicon(path: Path, counts: Counter[WordPair], threshold: int) -> int:
    """Write the pairs with more than ``threshold`` links, best first for each word; return their number."""
    # Totals count all links, so that probabilities do not depend on the threshold.
    totals: Counter[str] = Counter()
    for (src, _), count in counts.items():
        totals[src] += count
    frequent = [(src, tgt, count) for (src, tgt), count in counts.items() if count > threshold]
    frequent.sort(key=lambda entry: (entry[0], -entry[2], entry[1]))
    with atomic_write(path) as file:
        file.writelines(f"{src}\t{tgt}\t{count / totals[src]:.6g}\t{count}\n" for src, tgt, count in frequent)
    return len(frequent)


def load_translations(path: Path, most: int) -> dict[str, dict[str, float]]:
    """The ``most`` best translations of each source word and their probabilities. Raises UserError for bad lines."""
    entries: dict[str, list[tuple[float, str]]] = {}
    for number, line in enumerate(read_lines(path), 1):
        try:
            src, tgt, probability, count = line.split("\t")
            # Each side is one word, neither empty nor with white space.
            if [src, tgt] != f"{src} {tgt}".split() or not 0 < float(probability) <= 1 or int(count) < 1:
                raise ValueError
        except ValueError:
            expected = "expected source word, target word, probability and count, separated by tabs"
            raise UserError(f"{path}:{number}: {expected}; found {line!r}") from None
        entries.setdefault(src, []).append((float(probability), tgt))
    return {
        src: {tgt: probability for probability, tgt in heapq.nlargest(most, translations, key=itemgetter(0))}
        for src, translations in entries.items()
    }


class Lexicon:
    """Translations of single words with probabilities, best first; ``read`` loads them at first use."""

    def __init__(self, name: str, read: Callable[[], Mapping[str, Mapping[str, float]]]) -> None:
        self.name, self._read = name, read

    @classmethod
    def load(cls, path: Path) -> "Lexicon":
        """The lexicon of a file, read at first use by ``load_translations``."""
        return cls(str(path), partial(load_translations, path, TRANSLATIONS))

    @cached_property
    def translations(self) -> Mapping[str, Mapping[str, float]]:
        """The translations of each word with their probabilities, best first."""
        return self._read()

    @cached_property
    def best(self) -> Mapping[str, str]:
        """The most probable translation of each word."""
        return {word: next(iter(translations)) for word, translations in self.translations.items()}


NO_LEXICON = Lexicon("no lexicon", dict)
