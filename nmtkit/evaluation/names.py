"""Counts of names and unknown words in translations.

Names are often out of vocabulary, and readers notice when a translation loses one.
"""

import re
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from nmtkit.align.posunk import UNKNOWN
from nmtkit.text.casing import is_capitalised
from nmtkit.text.truecasing import sentence_starts

_SYMBOL = re.compile("|".join(map(re.escape, sorted(UNKNOWN))))


class Names(NamedTuple):
    """The number of names that translations should keep, and the number that they keep."""

    total: int
    kept: int


def names(words: Sequence[str], common: Container[str]) -> Counter[str]:
    """The names of a sentence: its capitalised words, except ``common`` words that begin a sentence.

    This simple rule also counts acronyms and every German noun; ``names_kept`` then requires that the reference has the
    same spelling, which excludes most German nouns and the English *I*. common: words that occur in lower case.
    """
    starts = sentence_starts(words)
    return Counter(
        word
        for word, start in zip(words, starts, strict=True)
        if is_capitalised(word) and not (start and word.lower() in common)
    )


def names_kept(
    sources: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    translations: Sequence[Sequence[str]],
    but: Container[str],
) -> Names:
    """The number of names of the sources that also occur in a reference, and how many of these the translations keep.

    All texts are lists of words, one per sentence. A name counts as often as both the source and some reference of the
    sentence have it. Names in ``but`` are not counted. Common words are those that occur in lower case anywhere in the
    sources or references.
    """
    common = {word for text in (sources, *references) for words in text for word in words if word[0].islower()}
    total = kept = 0
    for source, translation, *refs in zip(sources, translations, *references, strict=True):
        here = names(source, common)
        for name, times in here.items():
            due = min(times, max(ref.count(name) for ref in refs)) if name not in but else 0
            total += due
            kept += min(due, translation.count(name))
    return Names(total, kept)


def count_symbols(lines: Sequence[str]) -> int:
    """The number of symbols ``<unk>`` and ``<unkpos_d>`` in lines of text."""
    return sum(len(_SYMBOL.findall(line)) for line in lines)
