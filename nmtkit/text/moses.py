"""Moses' rules for a language, as sacremoses has them, made faster where they would be slow."""

import re
from typing import Any

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes


def moses_language(language: str) -> str:
    """The code by which sacremoses knows a language: pt for pt-BR."""
    return re.split("[-_]", language)[0].lower()


def has_moses_rules(language: str) -> bool:
    """True if sacremoses knows the abbreviations of a language; if not, it takes the English ones."""
    return moses_language(language) in NonbreakingPrefixes().available_langs.values()


def normalizations(language: str) -> list[tuple[re.Pattern[str], str]]:
    """sacremoses' rules, compiled, and two of them written so that their cost is linear; they replace the same."""
    # To replace one space by one space is work for nothing; and what begins with any number of full stops is tried
    # anew at each of them, which takes time by the square of their number.
    faster = {" +": "  +", r'(\.+)"(\s*[^<])': r'(?:(?<!\.)|(?<=[^.]\.))(\.+)"(\s*[^<])'}
    rules = MosesPunctNormalizer(language).substitutions
    return [(re.compile(faster.get(pattern, pattern)), replacement) for pattern, replacement in rules]


def make_tokenizer(language: str) -> Any:
    """sacremoses' tokenizer without the sets of 50,000 letters that it builds anew for every full stop."""
    tokenizer = MosesTokenizer(language)
    letters = frozenset(tokenizer.IsAlpha)
    tokenizer.islower = frozenset(tokenizer.IsLower).issuperset
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    return tokenizer
