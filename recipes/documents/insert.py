"""Insert placeholders into a parallel text: in some pairs, one or two replace words that translate each other.

insert.py LEXICON SHARE SRC TGT OUT_SRC OUT_TGT     LEXICON: from nmtkit align; SHARE: of pairs with placeholders
"""

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

FORMS = (
    "{name}", "%s", "%d", "%1$s", "%(count)d", "{{ user.name }}", "{0}", "%@", "${file}", "%{host}", '<x id="1"/>',
    "&nbsp;", "https://example.org/a?b=1&c=2", "info@example.org", "%n", "%1", "%2$d", "%.2f", "{0:.1f}", "%lu",
)  # fmt: skip
WORD = re.compile(r"\w+")


def main(lexicon: str, share: float, src: str, tgt: str, out_src: str, out_tgt: str) -> None:
    """Write both sides with placeholders."""
    draw = random.Random(1)
    first = dict[str, str]()
    for source, target, part, _ in (line.split("\t") for line in lines(lexicon)):
        if source.isalpha() and target.isalpha() and float(part) >= 0.4:
            first.setdefault(source, target)
    written = list[tuple[str, str]]()
    for source, target in zip(lines(src), lines(tgt), strict=True):
        links = [
            word for word in set(WORD.findall(source)) if alone(word, source) and alone(first.get(word, ""), target)
        ]
        chosen = draw.sample(sorted(links), min(len(links), draw.randint(1, 2))) if draw.random() < share else []
        forms = dict(zip(chosen, draw.sample(FORMS, len(chosen)), strict=True))
        of_target = {first[word]: form for word, form in forms.items()}
        if len(of_target) < len(forms):  # two words with the same translation
            forms, of_target = {}, {}
        written.append((WORD.sub(filled(forms), source), WORD.sub(filled(of_target), target)))
    for path, texts in zip((out_src, out_tgt), zip(*written, strict=True), strict=True):
        Path(path).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def alone(word: str, text: str) -> bool:
    """Whether a text has a word exactly once."""
    return WORD.findall(text).count(word) == 1


def filled(forms: dict[str, str]) -> Callable[[re.Match[str]], str]:
    """The replacement of a matched word."""
    return lambda word: forms.get(word[0], word[0])


def lines(path: str) -> list[str]:
    """The lines of a file."""
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
