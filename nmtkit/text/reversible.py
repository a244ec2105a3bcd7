"""Reversible tokenization: words and punctuation marks as tokens, which become the same text again in every language.

A joiner, U+FFED, says on which side a token was written without a space, as in the OpenNMT Tokenizer: ``Hello, world!``
is ``Hello ￭, world ￭!``. The punctuation carries it, so that a word is the same token wherever it stands. What stands
between two letters and could be one itself stays in its word (``don't``, ``k+naya``, ``3.5``): in many languages the
apostrophe, the saltillo or ``+`` is a letter.
"""

from collections.abc import Iterable
from itertools import pairwise

import regex

JOINER = "\uffed"
_REPLACEMENT = "\u25a0"  # a square as well, for a joiner in the text itself

# Han, kana and bopomofo, which are written without spaces: every character is a word.
_CHARACTERS = (
    r"\u2e80-\u2fff\u3005-\u3007\u3021-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U00020000-\U0003ffff"
)
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}\p{{Cf}}_]--[{_CHARACTERS}]]"
_INSIDE = "['’‘´`·.,:+&/@#*^~=‐‑-]"  # part of a word between two letters
_WORD = rf"(?:[{_CHARACTERS}]\p{{M}}*|{_LETTER}+(?:{_INSIDE}{_LETTER}+)*)"
# A token of its own: a word, an @ (BPE's own mark is made of two) or the same punctuation mark several times.
_TOKEN = regex.compile(rf"(?P<word>{_WORD})|@|(?P<mark>.)(?P=mark)*", regex.VERSION1 | regex.DOTALL)
_JOINED = regex.compile(f" ?{JOINER} ?")


def tokenize(line: str) -> list[str]:
    """The tokens of a line, none of which has white space."""
    tokens: list[str] = []
    for chunk in line.replace(JOINER, _REPLACEMENT).split():
        # Most chunks are words of letters alone, which is quick to see; Han characters may be among these.
        if chunk.isascii() and chunk.isalnum():
            tokens.append(chunk)
        else:
            tokens += _marked([(match[0], match["word"] is not None) for match in _TOKEN.finditer(chunk)])
    return tokens


def _marked(parts: list[tuple[str, bool]]) -> list[str]:
    """The parts of a text without spaces with joiners between each two: parts, each with whether it is a word."""
    tokens = [text for text, _ in parts]
    before_word = True  # no word yet: an opening bracket belongs to what follows it
    for i, ((_, word), (_, next_word)) in enumerate(pairwise(parts)):
        before_word &= not word
        if before_word or (next_word and not word):
            tokens[i] += JOINER
        else:
            tokens[i + 1] = JOINER + tokens[i + 1]
    return tokens


def join(tokens: Iterable[str]) -> str:
    """The text of the tokens."""
    return str(_JOINED.sub("", " ".join(tokens))).strip()
