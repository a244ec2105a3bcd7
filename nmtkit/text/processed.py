"""Signs that a text is already tokenised, segmented into subwords, or escaped as in HTML."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import Literal

from nmtkit.lines import decode_line, raw_lines

_EXAMINED = 10_000  # lines at the beginning of a text
_AFTER_SPACE, _AFTER_WORD = re.compile(r"\s[,.](?!\S)"), re.compile(r"\w[,.](?!\S)")
_TOKENIZED = (
    "looks tokenised: commas and full stops follow a space; a model of tokenised text translates plain text badly; "
    "detokenise it first, for example with sacremoses -l {} detokenize"
)
_SEGMENTED = "looks segmented into subwords, with {} in many lines; join them first, for example with {}"
_ESCAPED = (
    "has HTML entities such as {}; decode them first, for example with "
    "python3 -c 'import html, sys; sys.stdout.writelines(map(html.unescape, sys.stdin))'"
)
_ENTITY = re.compile("&(?:amp|quot|apos|lt|gt|nbsp|#[0-9]+);")
_SPLIT = "has apostrophes between spaces, as in {!r}; join the words, for example with: {}"
APOSTROPHES = "'’‘´`ʼʻꞌ"
_APART, _WITHIN = (re.compile(rf"(?<=[^\W\d_]){gap}([{APOSTROPHES}]){gap}(?=[^\W\d_])") for gap in (" ", ""))
_JOINED_BY = {"@@ ": "sed 's/@@ //g'", "▁": "sed 's/ //g; s/▁/ /g; s/^ //'"}  # BPE and SentencePiece


def is_tokenized(lines: Sequence[str]) -> bool:
    """Whether most commas and full stops at the ends of words follow a space, and more than one in a hundred lines."""
    after_space, after_word = (sum(len(mark.findall(line)) for line in lines) for mark in (_AFTER_SPACE, _AFTER_WORD))
    return after_space > max(after_word, len(lines) // 100)


def segmented(lines: Sequence[str]) -> str | None:
    """A description, with the remedy, of text that is segmented into subwords; None for other text."""
    for mark, command in _JOINED_BY.items():
        if 10 * sum(mark in line for line in lines) > len(lines):
            return _SEGMENTED.format(mark.strip(), command)
    return None


def split_at_apostrophes(lines: Sequence[str]) -> str | None:
    """A description, with the remedy, of text most of whose apostrophes within words are between spaces, or None."""
    apart = [found for line in lines for found in _APART.finditer(line)]
    if len(apart) <= max(sum(len(_WITHIN.findall(line)) for line in lines), len(lines) // 100):
        return None
    [(mark, _)] = Counter(found[1] for found in apart).most_common(1)
    first = next(found for found in apart if found[1] == mark)
    before, after = first.string[: first.start()].split()[-1], first.string[first.end() :].split()[0]
    return _SPLIT.format(before + first[0] + after, substitution(first[0], mark))


def substitution(old: str, new: str) -> str:
    """A shell command that replaces ``old`` in text, neither of which is special in sed."""
    return f'sed "s/{old}/{new}/g"'.replace("`", "\\`")


def processing(path: Path, language: str) -> tuple[Literal["words", "subwords", "entities", "apostrophes"], str] | None:
    """How the beginning of a text has already been processed, if it has, and a description with the remedy."""
    lines = [*map(decode_line, islice(raw_lines(path), _EXAMINED), count(1))]
    if what := segmented(lines):
        return "subwords", what
    if is_tokenized(lines):
        return "words", _TOKENIZED.format(language)
    if what := split_at_apostrophes(lines):
        return "apostrophes", what
    entities = [found[0] for line in lines if (found := _ENTITY.search(line))]
    return ("entities", _ESCAPED.format(entities[0])) if 100 * len(entities) > len(lines) else None
