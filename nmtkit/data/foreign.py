"""Vocabulary files of other toolkits, as word lists in the order of ids, without special symbols.

fairseq's dict.txt has a word and its count per line, OpenNMT's file the same with a tab, OpenNMT-tf's and JoeyNMT's a
word per line. Marian's .yml and Nematus' and Sockeye's .json map words to ids.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from nmtkit.errors import UserError
from nmtkit.lines import read_lines

# fairseq pads its vocabulary with madeupwords.
_SYMBOL = re.compile(r"<s>|</s>|<unk>|<pad>|<blank>|<bos>|<eos>|<EOS>|<GO>|<mask>|madeupword[0-9]{4}")
_NEMATUS = ("eos", "UNK")  # symbols if their ids are 0 and 1, else words
_FLAG = "#fairseq:overwrite"  # at the end of a line that replaces an earlier one


def read_words(path: Path) -> list[str]:
    """The words of a vocabulary file by id, without symbols. Raises UserError if it is invalid or has duplicates."""
    numbered = path.suffix in (".json", ".yml", ".yaml")
    words = dict[str, None]()
    for number, word in numbered_words(path) if numbered else _listed_words(path):
        if _SYMBOL.fullmatch(word) or (numbered and number < 2 and word in _NEMATUS):
            continue
        if word.split() != [word]:
            raise UserError(f"{path}: {word!r} contains white space, so it is no token; remove it from the vocabulary")
        if word in words:
            raise UserError(f"{path}: has the word {word!r} twice; remove one of them")
        words[word] = None
    if not words:
        raise UserError(f"{path}: has no words; give a vocabulary of fairseq, OpenNMT, JoeyNMT, Marian or Nematus")
    return list(words)


def _listed_words(path: Path) -> list[tuple[int, str]]:
    """Line number and word of a file with one word, or a word and its count, per line."""
    counted, entries = None, list[tuple[int, str]]()
    for number, line in enumerate(read_lines(path), 1):
        # Not ``split()``: words may contain other white space.
        fields = re.split("[ \t]", line.removesuffix(f" {_FLAG}"))
        has_count = len(fields) == 2 and bool(re.fullmatch("-?[0-9]+", fields[1]))
        if counted is None:  # decided by the first line
            counted = has_count
        if len(fields) != 1 + counted or has_count != counted or not fields[0]:
            kind = "a word and a count" if counted else "a word"
            raise UserError(f"{path}:{number}: expected {kind}, found {line!r}")
        if line.endswith(f" {_FLAG}"):
            entries = [entry for entry in entries if entry[1] != fields[0]]
        entries.append((number, fields[0]))
    return entries


def numbered_words(path: Path) -> Iterator[tuple[int, str]]:
    """Ids and words of a JSON or YAML file ``word: id``, in the order of ids. Raises UserError for any other file."""
    try:
        text = "\n".join(read_lines(path))
        # BaseLoader keeps everything as text: "no" and "1" are words.
        values: Any = json.loads(text) if path.suffix == ".json" else yaml.load(text, yaml.BaseLoader)  # noqa: S506
        entries = sorted((int(str(number)), word) for word, number in values.items())
    except (ValueError, OverflowError, TypeError, AttributeError, RecursionError, yaml.YAMLError):
        raise UserError(f"{path}: expected a map of words to ids, as Marian and Nematus write it") from None
    yield from entries
