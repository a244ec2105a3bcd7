"""Rules for leaving pairs out of the training text."""

import unicodedata
from functools import cache

from nmtkit.text.hashes import pair_hash
from nmtkit.text.moses import moses_language
from nmtkit.text.pipeline import CONTROL
from nmtkit.text.settings import Cleaning, Prep

# In order of application. The first four are always active; the published systems were trained without the others.
RULES = {
    "control": "control characters",
    "empty": "an empty side",
    "long": "more than {max_length} words",
    "ratio": "one side more than {max_ratio:g} times as long as the other",
    "identical": "identical sides",
    "script": "a side whose letters are mostly not of its language's script",
    "overlap": "being in the development or test set",
    "duplicate": "being duplicates",
}
ALWAYS = tuple(RULES)[:4]

_SCRIPTS = {
    "ar fa ps ug ur": "ARABIC", "be bg kk ky mk mn ru tg uk": "CYRILLIC", "sr": "CYRILLIC LATIN", "el": "GREEK",
    "he yi": "HEBREW", "hi mr ne": "DEVANAGARI", "as bn": "BENGALI", "gu": "GUJARATI", "pa": "GURMUKHI",
    "ta": "TAMIL", "te": "TELUGU", "kn": "KANNADA", "ml": "MALAYALAM", "si": "SINHALA", "th": "THAI", "lo": "LAO",
    "km": "KHMER", "my": "MYANMAR", "ka": "GEORGIAN", "hy": "ARMENIAN", "am ti": "ETHIOPIC", "yue zh": "CJK",
    "ja": "CJK HIRAGANA KATAKANA", "ko": "HANGUL CJK",
}  # fmt: skip
_SCRIPTS_OF = {language: set(scripts.split()) for group, scripts in _SCRIPTS.items() for language in group.split()}


def rules_of(cleaning: Cleaning) -> list[str]:
    """The active rules in order."""
    return [rule for rule in RULES if rule in ALWAYS or rule in cleaning.drop]


def describe_rule(rule: str, cleaning: Cleaning) -> str:
    """A description of the pairs that a rule leaves out."""
    return RULES[rule].format(max_length=cleaning.max_length, max_ratio=cleaning.max_ratio)


def broken_rule(line: str, src: list[str], tgt: list[str], prep: Prep, heldout: frozenset[bytes]) -> str | None:
    """The first rule other than "duplicate" that a pair breaks, or None.

    line: the raw text of both sides; src, tgt: the words; heldout: hashes of the development and test pairs.
    """
    cleaning = prep.cleaning
    if not line.isprintable() and CONTROL.search(line):
        return "control"
    short, long = sorted((len(src), len(tgt)))
    if short == 0:
        return "empty"
    if cleaning.max_length and long > cleaning.max_length:
        return "long"
    if cleaning.max_ratio and long > cleaning.max_ratio * short:
        return "ratio"
    if "identical" in cleaning.drop and src == tgt:
        return "identical"
    if "script" in cleaning.drop and (wrong_script(src, prep.src.language) or wrong_script(tgt, prep.tgt.language)):
        return "script"
    if "overlap" in cleaning.drop and pair_hash(src, tgt) in heldout:
        return "overlap"
    return None


def wrong_script(words: list[str], language: str) -> bool:
    """True if more than half of the letters are in scripts that the language does not use."""
    allowed = _SCRIPTS_OF.get(moses_language(language), {"LATIN"})
    scripts = [script(letter) for letter in "".join(words) if letter.isalpha()]
    return 2 * sum(name not in allowed for name in scripts) > len(scripts)


@cache
def script(letter: str) -> str:
    """The script of a letter, the first word of its Unicode name: LATIN, CYRILLIC, CJK."""
    return unicodedata.name(letter, "").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ").split(" ")[0]
