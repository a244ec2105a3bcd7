"""Vocabulary files of nmtkit and other toolkits, as word lists in the order of ids, without special symbols.

fairseq's dict.txt has a word and its count per line, OpenNMT's file the same with a tab, SentencePiece's .vocab a score
instead of the count, OpenNMT-tf's and JoeyNMT's a word per line. Marian's .yml and Nematus' and Sockeye's .json map
words to ids. SentencePiece's model is Marian's .spm.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from nmtkit.errors import UserError
from nmtkit.lines import read_lines
from nmtkit.symbols import SPELLINGS
from nmtkit.text.sentencepieces import SentencePieces

# fairseq pads its vocabulary with madeupwords.
_SYMBOL = re.compile(r"<s>|</s>|<unk>|<pad>|<blank>|<bos>|<eos>|<EOS>|<GO>|<mask>|madeupword[0-9]{4}")
_NEMATUS = ("eos", "UNK")  # symbols if their ids are 0 and 1, else words
_NUMBERED = (".json", ".yml", ".yaml")
_NUMBER = re.compile("-?[0-9]+([.][0-9]+)?(e-?[0-9]+)?")  # a count or a score
# Line breaks of YAML 1.1, which Marian's YAML has within words, and private characters instead of them.
_BREAKS, _PRIVATE = "\x85\u2028\u2029", "\U0010fffb\U0010fffc\U0010fffd"
_FLAG = "#fairseq:overwrite"  # at the end of a line that replaces an earlier one


def read_words(path: Path) -> list[str]:
    """The words of a vocabulary file by id, without symbols. Raises UserError if it is invalid or has duplicates."""
    every, words = entries(path), dict[str, None]()
    own = tuple(word for _, word in every[: len(SPELLINGS)]) == SPELLINGS  # a vocabulary of nmtkit
    for number, word in every:
        nematus = path.suffix in _NUMBERED and number < 2 and word in _NEMATUS
        if word in SPELLINGS or (not own and (_SYMBOL.fullmatch(word) or nematus)):
            continue
        if word.split() != [word]:
            raise UserError(f"{path}: {word!r} contains white space, so it is not a token; remove this entry")
        if word in words:
            raise UserError(f"{path}: has the word {word!r} twice; remove one of them")
        words[word] = None
    if not words:
        raise UserError(f"{path}: has no words; give a vocabulary of fairseq, OpenNMT, JoeyNMT, Marian or Nematus")
    return list(words)


def entries(path: Path) -> list[tuple[int, str]]:
    """Ids and words of a vocabulary file, in the order of ids. Raises UserError for any other file."""
    if path.suffix in (".spm", ".model"):
        return list(enumerate(SentencePieces.load(path).pieces))
    return _numbered_words(path) if path.suffix in _NUMBERED else list(enumerate(_listed_words(path)))


def check_encodable(path: Path, words: Iterable[tuple[int, str]]) -> None:
    """Raise UserError for a word that UTF-8 cannot encode; ``words``: with their ids."""
    for number, word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise UserError(f"{path}: the word with the id {number}, {word!r}, has half a surrogate pair; correct it")


def _listed_words(path: Path) -> list[str]:
    """The words of a file with one word, or a word and its count or score, per line."""
    counted, words = None, list[str]()
    for number, line in enumerate(read_lines(path), 1):
        # Not ``split()``: words may contain other white space.
        fields = re.split("[ \t]", line.removesuffix(f" {_FLAG}"))
        has_count = len(fields) == 2 and bool(_NUMBER.fullmatch(fields[1]))
        if counted is None:  # decided by the first line
            counted = has_count
        if len(fields) != 1 + counted or has_count != counted or not fields[0]:
            kind = "a word and a count" if counted else "a word"
            raise UserError(f"{path}:{number}: expected {kind}, found {line!r}")
        if line.endswith(f" {_FLAG}"):
            words = [word for word in words if word != fields[0]]
        words.append(fields[0])
    return words


def _numbered_words(path: Path) -> list[tuple[int, str]]:
    """Ids and words of a JSON or YAML file ``word: id``, in the order of ids. Raises UserError for any other file."""
    expected = "expected a map of words to ids, as Marian and Nematus write it"
    try:
        text = "\n".join(read_lines(path))
        values: Any = json.loads(text) if path.suffix == ".json" else _parsed(text)
        found = sorted((int(str(number)), word) for word, number in values.items())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise UserError(f"{path}:{line}: {expected}") from None
    except (ValueError, OverflowError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path}: {expected}") from None
    check_encodable(path, found)
    return found


def _parsed(text: str) -> Any:
    """The value of a YAML text, in which every scalar is text: "no" and "1" are words."""
    values = yaml.load(text.translate(str.maketrans(_BREAKS, _PRIVATE)), yaml.BaseLoader)  # noqa: S506
    back = str.maketrans(_PRIVATE, _BREAKS)
    return {_paired(word.translate(back)): number for word, number in values.items()}


def _paired(word: str) -> str:
    """A word in which surrogate pairs, as JSON escapes them, are characters."""
    return word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
