"""Translations of single words, counted from alignment links (Luong et al. 2015).

A line of the file is ``source<TAB>target<TAB>probability<TAB>count``: how often the two words are linked, and what
share that is of all links of the source word.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path

from nmtkit.align.pharaoh import Link
from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, read_lines

WordPair = tuple[str, str]


def count_links(src: Sequence[str], tgt: Sequence[str], links: Iterable[Link]) -> Counter[WordPair]:
    """Count how often each source word of a sentence pair is linked to each target word."""
    return Counter((src[s], tgt[t]) for s, t in links)


def write_lexicon(path: Path, counts: Counter[WordPair], threshold: int) -> int:
    """Write the pairs that are linked more than ``threshold`` times, a word's best first; return how many they are."""
    # Over all links, those of rare pairs too: the probability must not depend on the threshold.
    totals: Counter[str] = Counter()
    for (src, _), count in counts.items():
        totals[src] += count
    frequent = [(src, tgt, count) for (src, tgt), count in counts.items() if count > threshold]
    # By word, then count, then alphabet: the file is the same in every run, and can be read with ``less``.
    frequent.sort(key=lambda entry: (entry[0], -entry[2], entry[1]))
    with atomic_write(path) as file:
        file.writelines(f"{src}\t{tgt}\t{count / totals[src]:.6g}\t{count}\n" for src, tgt, count in frequent)
    return len(frequent)


def load_lexicon(path: Path) -> dict[str, str]:
    """The most probable translation of each source word. Raises UserError for a line that is none."""
    return {src: best[0] for src, best in load_translations(path, 1).items()}


def load_translations(path: Path, most: int) -> dict[str, list[str]]:
    """The ``most`` most probable translations of each source word, best first. Raises UserError for a line that is
    none."""
    entries: dict[str, list[tuple[float, str]]] = {}
    for number, line in enumerate(read_lines(path), 1):
        try:
            src, tgt, probability, count = line.split("\t")
            # Neither word may be empty or have white space in it; joined and split they would not be the same two.
            if [src, tgt] != f"{src} {tgt}".split() or not 0 < float(probability) <= 1 or int(count) < 1:
                raise ValueError
        except ValueError:
            raise UserError(
                f"{path}:{number}: expected source word, target word, probability and count with tabs between, "
                f"as nmtkit align writes them; found {line!r}"
            ) from None
        # Sorted here and not trusted to be: a lexicon may have been edited, or be of another tool.
        entries.setdefault(src, []).append((float(probability), tgt))
    return {
        src: [tgt for _, tgt in heapq.nlargest(most, translations, key=itemgetter(0))]
        for src, translations in entries.items()
    }
