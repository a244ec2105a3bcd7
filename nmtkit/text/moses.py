"""Moses' tokenisation and normalisation rules from sacremoses, with faster versions of its slow parts."""

import re
from typing import Any

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from nmtkit.text.scripts import base_language


def has_moses_rules(language: str) -> bool:
    """Whether sacremoses has abbreviations of the language; if not, it uses English ones and splits at apostrophes."""
    return base_language(language) in NonbreakingPrefixes().available_langs.values()


def normalizations(language: str) -> list[tuple[re.Pattern[str], str]]:
    """The substitutions of sacremoses, compiled; two are rewritten to take linear time."""
    # The first replaces single spaces with themselves; the second is quadratic in the length of a run of full stops.
    faster = {" +": "  +", r'(\.+)"(\s*[^<])': r'(?:(?<!\.)|(?<=[^.]\.))(\.+)"(\s*[^<])'}
    rules = MosesPunctNormalizer(language).substitutions
    return [(re.compile(faster.get(pattern, pattern)), replacement) for pattern, replacement in rules]


def make_tokenizer(language: str) -> Any:
    """The tokenizer of sacremoses, whose sets of 50,000 letters are built once instead of at every full stop."""
    tokenizer = MosesTokenizer(language)
    letters = frozenset(tokenizer.IsAlpha)
    tokenizer.islower = frozenset(tokenizer.IsLower).issuperset
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    return tokenizer
