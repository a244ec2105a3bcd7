"""Vocabularies of other toolkits, as lists of words in the order of their numbers.

fairseq's dict.txt has a word and a count in each line, OpenNMT's too with a tab between; OpenNMT-tf's and JoeyNMT's
have a word; Marian's .yml, Nematus' and Sockeye's .json have each word's number. Their symbols are left out.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from nmtkit.errors import UserError
from nmtkit.lines import read_lines

# fairseq fills its table up with words of the last kind.
_SYMBOL = re.compile(r"<s>|</s>|<unk>|<pad>|<blank>|<bos>|<eos>|<EOS>|<GO>|<mask>|madeupword[0-9]{4}")
_NEMATUS = ("eos", "UNK")  # have the numbers 0 and 1; elsewhere these are words
_FLAG = "#fairseq:overwrite"  # ends lines that come again


def read_words(path: Path) -> list[str]:
    """The words of a vocabulary, first to last, without symbols.

    Raises UserError for a file that is none of the kinds above, and for one that has a word twice.
    """
    numbered = path.suffix in (".json", ".yml", ".yaml")
    words: list[str] = []
    seen = set[str]()
    for number, word in _numbered_words(path) if numbered else _listed_words(path):
        if _SYMBOL.fullmatch(word) or (numbered and number < 2 and word in _NEMATUS):
            continue
        # A token never contains white space (see text.py), so that such a word could never be found in a text.
        if word.split() != [word]:
            raise UserError(f"{path}: {word!r} is not a word, as no text has it; take it out of the vocabulary")
        if word in seen:
            raise UserError(f"{path}: has the word {word!r} twice; take one of them out")
        seen.add(word)
        words.append(word)
    if not words:
        raise UserError(f"{path}: has no words; give a vocabulary of fairseq, OpenNMT, JoeyNMT, Marian or Nematus")
    return words


def _listed_words(path: Path) -> Iterator[tuple[int, str]]:
    """Number of the line, and word, of a file with a word in each line, or with a word and its count."""
    counted = None
    for number, line in enumerate(read_lines(path), 1):
        # Not ``split()``, for which other white space, which may be a part of a word, would be a separator, too.
        fields = re.split("[ \t]", line.removesuffix(f" {_FLAG}"))
        has_count = len(fields) == 2 and bool(re.fullmatch("-?[0-9]+", fields[1]))
        if counted is None:  # the first line says what the others must be
            counted = has_count
        if len(fields) != 1 + counted or has_count != counted or not fields[0]:
            kind = "a word and a count" if counted else "a word"
            raise UserError(f"{path}:{number}: expected {kind}, found {line!r}")
        yield number, fields[0]


def _numbered_words(path: Path) -> Iterator[tuple[int, str]]:
    """Numbers and words of a JSON or YAML file ``word: number``, in the order of the numbers."""
    try:
        text = "\n".join(read_lines(path))
        # The base loader makes text of everything: in others' vocabularies "no" and "1" are words.
        values: Any = json.loads(text) if path.suffix == ".json" else yaml.load(text, yaml.BaseLoader)  # noqa: S506
        entries = sorted((int(number), word) for word, number in values.items())
    except (ValueError, OverflowError, TypeError, AttributeError, RecursionError, yaml.YAMLError):
        raise UserError(f"{path}: expected each word with its number, as Marian and Nematus write them") from None
    yield from entries
