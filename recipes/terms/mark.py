"""Mark terms of a lexicon of ``nmtkit align`` in text, so that a model learns to copy given translations.

mark.py draw LEXICON SRC TGT FOLDER        200 terms and up to 500 lines with terms: FOLDER/{in.src,in.tgt}, one.tsv
                                           (the most frequent translation), forms.tsv (all frequent ones)
mark.py train KIND SHARE LEXICON SRC TGT   the training text with one or two terms marked in a SHARE of the lines;
                                           their translations are in the lexicon and the reference
mark.py apply KIND TERMS SRC               a text with all terms of a file marked

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
LETTERS = 4  # minimum length of a term
SHARE = 0.1  # minimum share of the links of a term for a translation
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
    """The words of a lexicon with the translations that are long and frequent enough, most frequent first."""
    entries = defaultdict[str, list[Entry]](list)
    for line in lines(path):
        source, target, share, links = line.split("\t")
        words = source.isalpha() and target.isalpha()
        if words and len(source) >= LETTERS and float(share) >= SHARE:
            entries[source].append(Entry(target, float(share), int(links)))
    return entries


def draw(path: str, src: str, tgt: str, folder: str) -> None:
    """Sample terms with at least 20 links, 40 % of them to one translation, and lines that have them; write both."""
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
    """Print the training text with random terms marked."""
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
    """The forms of each term in a file."""
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
