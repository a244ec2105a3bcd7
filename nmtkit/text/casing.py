"""Upper and lower case in the languages where they differ from Unicode's default."""

from nmtkit.text.scripts import base_language

_WITH_CAPITAL_NOUNS = frozenset(("bar", "de", "frr", "gsw", "ksh", "lb", "nds", "pdc", "pfl", "stq"))
_DOTLESS = frozenset(("az", "azj", "crh", "gag", "tr"))  # i and İ are a pair of letters, and ı and I


def lower(text: str, language: str) -> str:
    """The text in lower case."""
    if ("I" in text or "İ" in text) and base_language(language) in _DOTLESS:  # the fast tests first
        text = text.replace("I\u0307", "i").replace("İ", "i").replace("I", "ı")
    return text.lower()


def capitalised(word: str, language: str) -> str:
    """The word with a capital as its first letter; a ligature becomes "Fi", and a Georgian letter stays as it is."""
    if word[:1] == "i" and base_language(language) in _DOTLESS:
        return "İ" + word[1:]
    return word[:1].title() + word[1:]


def is_capitalised(word: str) -> bool:
    """Whether a word begins with a capital; common Cherokee letters are upper case in Unicode, but not capitals."""
    return word[:1].isupper() and word[0] != word[0].casefold()


def capitalises_nouns(language: str) -> bool:
    """Whether the language writes every noun with a capital, as German does, so that a capital does not tell a name."""
    return base_language(language) in _WITH_CAPITAL_NOUNS
