"""Mark terms in text, so that a model learns to copy a translation that is given to it.

mark.py train KIND SHARE LEXICON SRC TGT > marked   one or two terms in a SHARE of the sentences; their translations by
                                                    the lexicon of nmtkit align must be in the reference
mark.py apply KIND TERMS SRC > marked               every term of a file (source, tab, translation)

KIND: append ("A dog [chien] runs.") or replace ("A chien runs.").
"""

import random
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

WORD = re.compile(r"\w+")
KINDS = {"append": "{source} [{target}]", "replace": "{target}"}
LENGTH, PROBABILITY, COUNT = 4, 0.1, 5  # at least, of a term of the training text: letters; P(target | source); links


def train(kind: str, share: str, lexicon: str, src: str, tgt: str) -> None:
    """Print the training text with marks at random."""
    draw = random.Random(1)
    forms = defaultdict[str, set[str]](set)
    for line in lines(lexicon):
        source, target, probability, count = line.split("\t")
        words = source.isalpha() and target.isalpha() and len(source) >= LENGTH
        if words and float(probability) >= PROBABILITY and int(count) >= COUNT:
            forms[source].add(target)
    for source, target in zip(lines(src), lines(tgt), strict=True):
        reference = WORD.findall(target)
        of_word = {word: [form for form in reference if form in forms[word]] for word in WORD.findall(source)}
        found = [(word, those[0]) for word, those in of_word.items() if those]
        chosen = draw.sample(found, min(len(found), draw.randint(1, 2))) if draw.random() < float(share) else []
        print(marked(kind, source, dict(chosen)))


def apply(kind: str, terms: str, src: str) -> None:
    """Print the text with all of its terms marked with their first translations."""
    pairs = (line.split("\t") for line in lines(terms))
    first = {source: target.split("|")[0] for source, target in pairs}
    for source in lines(src):
        print(marked(kind, source, first))


def marked(kind: str, text: str, terms: Mapping[str, str]) -> str:
    """The text with each term followed or replaced by its translation."""

    def mark(word: re.Match[str]) -> str:
        target = terms.get(word[0])
        return word[0] if target is None else KINDS[kind].format(source=word[0], target=target)

    return WORD.sub(mark, text)


def lines(path: str) -> list[str]:
    """The lines of a file."""
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


if __name__ == "__main__":
    {"train": train, "apply": apply}[sys.argv[1]](*sys.argv[2:])
