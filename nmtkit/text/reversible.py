"""Reversible tokenisation: words and punctuation marks as tokens that detokenise exactly, in every language.

The joiner U+FFED marks the side of a token without a space, as in the OpenNMT Tokenizer: ``Hello, world!`` becomes
``Hello ￭, world ￭!``. Joiners are on punctuation, so that a word is the same token everywhere. Some characters between
two letters stay in the word (``don't``, ``k+naya``, ``3.5``): in many languages the apostrophe, the saltillo or ``+``
is a letter.
"""

from collections.abc import Iterable
from itertools import pairwise

import regex

JOINER = "\uffed"
_REPLACEMENT = "\u25a0"  # another square, for joiners in the text itself

# Han, kana and bopomofo: every character is a token.
_CHARACTERS = (
    r"\u2e80-\u2fff\u3005-\u3007\u3021-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U00020000-\U0003ffff"
)
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}\p{{Cf}}_]--[{_CHARACTERS}]]"
_INSIDE = "['’‘´`·.,:+&/@#*^~=‐‑-]"  # part of the word between two letters
_WORD = rf"(?:[{_CHARACTERS}]\p{{M}}*|{_LETTER}+(?:{_INSIDE}{_LETTER}+)*)"
# A token: a word, a single @ (because @@ is BPE's mark) or a run of one punctuation mark. Without a limit, regex has no
# memory for runs of several million.
_TOKEN = regex.compile(rf"(?P<word>{_WORD})|@|(?P<mark>.)(?P=mark){{0,1000000}}", regex.VERSION1 | regex.DOTALL)
_JOINED = regex.compile(f" ?{JOINER} ?")


def tokenize(line: str) -> list[str]:
    """The tokens of a line; no token contains white space."""
    tokens: list[str] = []
    for chunk in line.replace(JOINER, _REPLACEMENT).split():
        if chunk.isascii() and chunk.isalnum():
            tokens.append(chunk)
        else:
            tokens += _marked([(match[0], match["word"] is not None) for match in _TOKEN.finditer(chunk)])
    return tokens


def _marked(parts: list[tuple[str, bool]]) -> list[str]:
    """The tokens, with joiners, of a text without spaces; ``parts``: each with True if it is a word."""
    tokens = [text for text, _ in parts]
    before_word = True  # punctuation before the first word has its joiner on the right
    for i, ((_, word), (_, next_word)) in enumerate(pairwise(parts)):
        before_word &= not word
        if before_word or (next_word and not word):
            tokens[i] += JOINER
        else:
            tokens[i + 1] = JOINER + tokens[i + 1]
    return tokens


def join(tokens: Iterable[str]) -> str:
    """The detokenised text."""
    return str(_JOINED.sub("", " ".join(tokens))).strip()
