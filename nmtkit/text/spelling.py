"""Signs that a text is not written like the training text: another orthography, another apostrophe, capital letters."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

import regex

from nmtkit.lines import decode_line, raw_lines
from nmtkit.text.processed import APOSTROPHES, substitution

_READ, _SAMPLE = 1_000_000, 10_000  # lines at the beginning of a text, and those of them that are examined
_LEAST = 100  # a text with fewer lines is not judged
# A difference: a letter in this share of one text's lines that is so many times rarer among the letters of the other.
# Texts of other domains in one language (news, captions, the Bible, everyday sentences) do not differ so.
_MANY, _RARER, _RARER_CAPITALS = 0.3, 50, 20
_SHOWN = 5  # letters
_CAPITALS, _INNER = "capital letters", "capital letters within sentences"
_CAPITAL = {_CAPITALS: regex.compile(r"\p{Lu}"), _INNER: regex.compile(r"(?<=[\p{Ll},;] |\p{L})\p{Lu}")}
# A letter, but none of a script with so many that one may belong to a topic; apostrophes only after a letter.
_SYLLABLES = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Hangul}\p{Ethi}\p{Cans}\p{Cherokee}\p{Yi}\p{Vai}"
_LETTER = regex.compile(rf"(?V1)[[\p{{L}}\p{{M}}]--[{_SYLLABLES}]]|(?<=\p{{L}})['’‘´`]")


class _Letters(NamedTuple):
    """Letters, lower-cased, and capitals as one: the share of lines with each, and its share of all letters."""

    lines: dict[str, float]
    rates: dict[str, float]


def differences(
    paths: Sequence[Path], train: Path, capitals: bool = True, apostrophes: bool = True
) -> Iterator[tuple[Path, str]]:
    """Descriptions, with remedies, of how texts are written differently from the training text.

    capitals, apostrophes: whether differences in these matter.
    """
    if not paths or (there := _letters(train)) is None:
        return
    for path in paths:
        if here := _letters(path):
            yield from ((path, what) for what in _differences(here, there, train, capitals, apostrophes))


def _differences(here: _Letters, there: _Letters, train: Path, capitals: bool, apostrophes: bool) -> Iterator[str]:
    """How a text is written differently, of whose letters these are."""
    found = [each for each in {**here.lines, **there.lines} if _differ(each, here, there)]
    found.sort(key=lambda each: (-max(here.lines.get(each, 0), there.lines.get(each, 0)), each))
    capital = [each for each in _CAPITAL if each in found][:1]
    found = [each for each in found if each not in _CAPITAL]
    if capital and capitals:
        remedy = "prep's truecase (as the training text writes words within sentences) or lowercase makes them alike"
        yield f"{_describe(capital, here, there, train)}; {remedy}"
    ours, theirs = (max(APOSTROPHES, key=lambda each: letters.lines.get(each, 0)) for letters in (here, there))
    if ours != theirs and theirs in found:
        found = [each for each in found if each not in APOSTROPHES]
        if apostrophes:
            remedy = f"replace {theirs} in the training text, for example with: {substitution(theirs, ours)}"
            yield f"{_describe([ours, theirs], here, there, train)}; {remedy}"
    if found:
        yield f"{_describe(found[:_SHOWN], here, there, train)}; convert one of them to the orthography of the other"


def _letters(path: Path) -> _Letters | None:
    """The letters of a sample of lines of a text; None if it is too short."""
    step = -(-sum(1 for _ in islice(raw_lines(path), _READ)) // _SAMPLE) or 1
    lines, letters, number = Counter[str](), Counter[str](), 0
    for number, raw in enumerate(islice(raw_lines(path), 0, _READ, step), 1):
        text = normalize("NFC", decode_line(raw, number))
        found = Counter(_LETTER.findall(text.lower()))
        found.update({each: len(pattern.findall(text)) for each, pattern in _CAPITAL.items()})
        letters.update(found)
        lines.update(dict.fromkeys(+found, 1))
    if number < _LEAST:
        return None
    total = letters.total() - sum(letters[each] for each in _CAPITAL)
    return _Letters(
        {each: times / number for each, times in lines.items()},
        {each: times / max(total, 1) for each, times in letters.items()},
    )


def _differ(letter: str, here: _Letters, there: _Letters) -> bool:
    """Whether a letter is frequent in one text and rare in the other."""
    less, more = sorted((here, there), key=lambda letters: letters.rates.get(letter, 0))
    rarer = _RARER_CAPITALS if letter in _CAPITAL else _RARER
    return more.lines.get(letter, 0) >= _MANY and more.rates[letter] > rarer * less.rates.get(letter, 0)


def _describe(found: list[str], here: _Letters, there: _Letters, train: Path) -> str:
    """The shares of lines with each letter in a text and in the training text."""
    shares = (
        f"{each}{f' (U+{ord(each):04X})' if len(each) == 1 else ''} in {here.lines.get(each, 0):.0%} "
        f"of the lines instead of {there.lines.get(each, 0):.0%}"
        for each in found
    )
    return f"not written like {train}: {', '.join(shares)}"
