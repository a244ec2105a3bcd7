"""Unknown words and names: how translations render them.

A lost name is the error that readers forgive least, and names are the first words that a vocabulary lacks.
"""

import re
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from nmtkit.align.posunk import UNKNOWN
from nmtkit.text.truecasing import sentence_starts

_SYMBOL = re.compile("|".join(map(re.escape, sorted(UNKNOWN))))


class Names(NamedTuple):
    """How many names a text has that a translation should keep, and how many of these it keeps."""

    total: int
    kept: int


class UnknownWords(NamedTuple):
    """How the unknown words of a system's translations were replaced. None: not known, as for a file."""

    translated: int | None  # by the lexicon
    copied: int | None
    left: int  # as they were


def names(words: Sequence[str], common: Container[str]) -> Counter[str]:
    """The names of a sentence: words with a capital, but where a sentence begins only if they are not ``common``.

    A surface rule, without linguistic knowledge: acronyms are names, and so is every German noun. It is meant for
    words that stand in the reference in the same spelling, which German nouns and the English *I* hardly do. common:
    words that have no capital in the middle of a sentence, and have one only because a sentence begins with them.
    """
    starts = sentence_starts(words)
    return Counter(
        word
        for word, start in zip(words, starts, strict=True)
        if word[0].isupper() and not (start and word.lower() in common)
    )


def names_kept(
    sources: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    translations: Sequence[Sequence[str]],
    but: Container[str],
) -> Names:
    """The names of the sources that stand in a reference, and how many of them stand in the translations, too.

    All are lists of words of each sentence. A name that occurs several times in a sentence counts as often as it stands
    both in the source and in that reference that has it most often. Names in ``but`` are left out. Common words are
    those that stand somewhere in these sources and references without a capital.
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
    """The number of unknown words that stand in lines of text as ``<unk>`` or ``<unkpos_d>``."""
    return sum(len(_SYMBOL.findall(line)) for line in lines)
