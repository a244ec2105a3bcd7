"""Combine several languages in one text: the language's name before each source line, short pairs joined by 2 or 3.

together.py OUT SHARE LANGUAGE...     reads LANGUAGE/train.{es,LANGUAGE}; writes OUT/{train,dev}.{es,all}, and the same
                                      for each language, OUT/LANGUAGE.{train,dev}.{es,all}; SHARE: the ratio of joined
                                      pairs to the others; 200 pairs of each language are for development
"""

import random
import sys
from pathlib import Path

DEV = 200  # pairs of a language, at most a tenth of them
Pair = tuple[str, str]


def main(out: str, share: float, languages: list[str]) -> None:
    """Write all sets in random order."""
    draw = random.Random(1)
    train, dev = list[Pair](), list[Pair]()
    for language in languages:
        sides = (lines(Path(language, f"train.{side}")) for side in ("es", language))
        pairs = [pair for pair in zip(*sides, strict=True) if pair[0].strip() and pair[1].strip()]
        draw.shuffle(pairs)
        held = min(DEV, len(pairs) // 10)
        own = pairs[held:]
        joined = [join(draw.choices(own, k=draw.choice([2, 2, 3]))) for _ in range(round(share * len(own)))]
        for name, to, chosen in (("train", train, own + joined), ("dev", dev, pairs[:held])):
            named = [(f"{language} {source}", target) for source, target in chosen]
            write(Path(out, f"{language}.{name}"), named)
            to += named
    draw.shuffle(train)
    write(Path(out, "train"), train)
    write(Path(out, "dev"), dev)  # last, because it marks a complete folder


def write(path: Path, pairs: list[Pair]) -> None:
    """Write pairs to PATH.es and PATH.all."""
    for side, texts in zip(("es", "all"), zip(*pairs, strict=True), strict=True):
        Path(f"{path}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def join(pairs: list[Pair]) -> Pair:
    """Several pairs concatenated to one."""
    return " ".join(source for source, _ in pairs), " ".join(target for _, target in pairs)


def lines(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
