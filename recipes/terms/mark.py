"""Terms of a lexicon of ``nmtkit align``, marked in text, so that a model learns to copy the translation it is given.

mark.py draw LEXICON SRC TGT FOLDER        200 terms and up to 500 lines that have some: FOLDER/{in.src,in.tgt},
                                           one.tsv (the most frequent translation), forms.tsv (all frequent ones)
mark.py train KIND SHARE LEXICON SRC TGT   the training text with one or two terms marked in a SHARE of the lines;
                                           the lexicon and the reference have their translations
mark.py apply KIND TERMS SRC               a text with every term of a file marked

KIND: append ("A dog [chien] runs.") or replace ("A chien runs.").
"""

import itertools
import random
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

WORD = re.compile(r"\w+")
KINDS = {"append": "{source} [{target}]", "replace": "{target}"}
LETTERS = 4  # of a term, at least
SHARE = 0.1  # of the links of a term: a translation has at least as many
TERMS, LINES = 200, 500
FUNCTION_WORDS = frozenset(
    "about above across against along another away back because being behind between both down during each from front "
    "having inside into near next off other outside over people person several some someone something that their them "
    "there they this through under upon what which while with around".split()
)


class Entry(NamedTuple):
    """A translation of a word in the lexicon."""

    target: str
    share: float  # of the word's links
    links: int


def lexicon(path: str) -> dict[str, list[Entry]]:
    """The words of a lexicon with their translations that are long and frequent enough, the most frequent first."""
    entries = defaultdict[str, list[Entry]](list)
    for line in lines(path):
        source, target, share, links = line.split("\t")
        words = source.isalpha() and target.isalpha()
        if words and len(source) >= LETTERS and float(share) >= SHARE:
            entries[source].append(Entry(target, float(share), int(links)))
    return entries


def draw(path: str, src: str, tgt: str, folder: str) -> None:
    """Write terms whose most frequent translation has 40 % of 20 links or more, and the lines that have them."""
    known = {
        word: [entry.target for entry in entries]
        for word, entries in lexicon(path).items()
        if word.islower() and word not in FUNCTION_WORDS and entries[0].share >= 0.4 and entries[0].links >= 20
    }
    words = random.Random(1).sample(sorted(known), min(TERMS, len(known)))
    pairs = [pair for pair in zip(lines(src), lines(tgt), strict=True) if set(WORD.findall(pair[0])) & set(words)][
        :LINES
    ]
    write(Path(folder, "in.src"), [source for source, _ in pairs])
    write(Path(folder, "in.tgt"), [target for _, target in pairs])
    write(Path(folder, "one.tsv"), [f"{word}\t{known[word][0]}" for word in sorted(words)])
    write(Path(folder, "forms.tsv"), [f"{word}\t{'|'.join(known[word])}" for word in sorted(words)])


def train(kind: str, share: str, path: str, src: str, tgt: str) -> None:
    """Print the training text with marks at random."""
    at_random = random.Random(1)
    forms = {word: {entry.target for entry in entries} for word, entries in lexicon(path).items()}
    for source, target in zip(lines(src), lines(tgt), strict=True):
        links = itertools.product(WORD.findall(source), reversed(WORD.findall(target)))
        found = {word: form for word, form in links if form in forms.get(word, ())}
        chosen = at_random.sample(sorted(found), min(len(found), at_random.randint(1, 2)))
        print(marked(kind, source, {word: found[word] for word in chosen} if at_random.random() < float(share) else {}))


def apply(kind: str, terms: str, src: str) -> None:
    """Print a text with all of its terms marked."""
    for source in lines(src):
        print(marked(kind, source, {word: forms[0] for word, forms in read_terms(terms).items()}))


def read_terms(path: str) -> dict[str, list[str]]:
    """The forms of each term of a file."""
    return {source: target.split("|") for source, target in (line.split("\t") for line in lines(path))}


def marked(kind: str, text: str, terms: Mapping[str, str]) -> str:
    """The text with each term followed or replaced by its translation."""

    def mark(word: re.Match[str]) -> str:
        return KINDS[kind].format(source=word[0], target=terms[word[0]]) if word[0] in terms else word[0]

    return WORD.sub(mark, text)


def lines(path: str) -> list[str]:
    """The lines of a file."""
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def write(path: Path, texts: list[str]) -> None:
    """Write lines to a file."""
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    {"draw": draw, "train": train, "apply": apply}[sys.argv[1]](*sys.argv[2:])
