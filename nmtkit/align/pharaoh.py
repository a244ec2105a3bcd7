"""Word alignments in Pharaoh format: one line per sentence pair with links ``source-target``, from 0 ("0-0 1-2").

Their quality is measured against a manual gold standard (Och & Ney 2003).
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nmtkit.errors import UserError
from nmtkit.lines import read_lines

Link = tuple[int, int]  # source word, target word

# At most nine digits: Python refuses to parse numbers of thousands of digits.
_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_GOLD_LINK = re.compile(r"([0-9]{1,9})[-p]([0-9]{1,9})")


class Gold(NamedTuple):
    """The gold links of a sentence pair. Sure links are also possible ones."""

    sure: set[Link]
    possible: set[Link]


def format_links(links: Iterable[Link]) -> str:
    """The links of a sentence pair as a line."""
    return " ".join(f"{src}-{tgt}" for src, tgt in links)


def parse_links(line: str, path: Path | str, number: int) -> list[Link]:
    """The links of line ``number`` of ``path``. Raises UserError for invalid ones."""
    return _parsed(_LINK, line.split(), path, number, "links such as 0-0 1-2, counted from 0")


def _parsed(link: re.Pattern[str], texts: list[str], path: Path | str, number: int, expected: str) -> list[Link]:
    """The links in ``texts``. Raises UserError for invalid ones."""
    links = []
    for text in texts:
        match = link.fullmatch(text)
        if not match:
            raise UserError(f"{path}:{number}: expected {expected}; found {text!r}")
        links.append((int(match[1]), int(match[2])))
    return links


def check_links(links: Iterable[Link], src: int, tgt: int, path: Path | str, number: int) -> None:
    """Raise UserError for a link outside a sentence pair of ``src`` and ``tgt`` words."""
    for s, t in links:
        if s >= src or t >= tgt:
            link = f"the link {s}-{t} is outside its pair of {src} and {tgt} words"
            raise UserError(f"{path}:{number}: {link}; align the same words, and count from 0")


def read_alignment(path: Path) -> Iterator[list[Link]]:
    """The links of each sentence pair. Raises UserError for an invalid line."""
    for number, line in enumerate(read_lines(path), 1):
        yield parse_links(line, path, number)


def read_gold(path: Path) -> Iterator[Gold]:
    """The gold links of each pair: ``1-2`` is sure, ``1p2`` possible. Raises UserError for an invalid line."""
    for number, line in enumerate(read_lines(path), 1):
        texts = line.split()
        links = _parsed(_GOLD_LINK, texts, path, number, "sure links like 1-2, possible ones like 1p2")
        yield Gold({link for link, text in zip(links, texts, strict=True) if "-" in text}, set(links))


class Quality(NamedTuple):
    """Figures over all sentence pairs; A: alignment links, S: sure gold links, P: possible ones, which include S."""

    precision: float  # |A & P| / |A|
    recall: float  # |A & S| / |S|
    aer: float  # alignment error rate, 1 - (|A & S| + |A & P|) / (|A| + |S|)


def measure(alignments: Iterable[Iterable[Link]], golds: Iterable[Gold]) -> Quality:
    """The quality of alignments against as many gold ones; precision is 0 without links."""
    # Summed over the whole set; a mean over sentences would overweight short ones.
    links = sure = right_sure = right_possible = 0
    for alignment, gold in zip(map(set, alignments), golds, strict=True):
        links += len(alignment)
        sure += len(gold.sure)
        right_sure += len(alignment & gold.sure)
        right_possible += len(alignment & gold.possible)
    return Quality(
        right_possible / max(1, links),
        right_sure / max(1, sure),
        1 - (right_sure + right_possible) / max(1, links + sure),
    )
