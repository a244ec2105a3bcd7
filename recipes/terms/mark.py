"""Mark terms in text: "A dog runs." becomes "A dog [chien] runs." (Dinu et al. 2019: the translation is appended).

mark.py LEXICON train SRC TGT > marked     pairs of the lexicon that are in both sides, in half of the sentences
mark.py LEXICON apply TERMS SRC > marked   the terms of a file (source, tab, translation) in every sentence
"""

import random
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

WORD = re.compile(r"\w+")
MOST = 2  # terms that are marked in a sentence of the training text


def main(lexicon: str, mode: str, first: str, second: str) -> None:
    draw = random.Random(1)
    if mode == "train":
        forms = defaultdict[str, set[str]](set)
        for line in Path(lexicon).read_text().splitlines():
            source, target, probability, count = line.split("\t")
            words = source.isalpha() and target.isalpha() and len(source) > 3
            if words and float(probability) >= 0.1 and int(count) > 4:
                forms[source].add(target)
        for source, target in zip(lines(first), lines(second), strict=True):
            in_target = WORD.findall(target)
            pairs = {word: [form for form in in_target if form in forms[word]] for word in WORD.findall(source)}
            found = [(word, of_it[0]) for word, of_it in pairs.items() if of_it]
            chosen = draw.sample(found, min(len(found), draw.randint(1, MOST))) if draw.random() < 0.5 else []
            print(marked(source, dict(chosen)))
    else:
        terms = {source: target.split("|")[0] for source, target in (line.split("\t") for line in lines(first))}
        for source in lines(second):
            print(marked(source, terms))


def marked(text: str, terms: Mapping[str, str]) -> str:
    """The text with the translation of each term after it."""
    return WORD.sub(lambda word: f"{word[0]} [{terms[word[0]]}]" if word[0] in terms else word[0], text)


def lines(path: str) -> Sequence[str]:
    return Path(path).read_text().split("\n")[:-1]


main(*sys.argv[1:])
