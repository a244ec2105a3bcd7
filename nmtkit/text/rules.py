"""Rules for leaving pairs out of the training text."""

from functools import lru_cache

from nmtkit.text.hashes import pair_hash
from nmtkit.text.pipeline import CONTROL, TextPipeline
from nmtkit.text.placeholders import masked
from nmtkit.text.scripts import wrong_script
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


def rules_of(cleaning: Cleaning) -> list[str]:
    """The active rules in order."""
    return [rule for rule in RULES if rule in ALWAYS or rule in cleaning.drop]


def describe_rule(rule: str, cleaning: Cleaning) -> str:
    """A description of the pairs that a rule leaves out."""
    return RULES[rule].format(max_length=cleaning.max_length, max_ratio=cleaning.max_ratio)


def tokenized(prep: Prep, src: str, tgt: str) -> tuple[list[str], list[str]]:
    """The words of a pair, with placeholders masked if set."""
    if prep.mask:
        src, tgt = masked(src, tgt)
    return _tokenizer(prep.src).tokenize(src), _tokenizer(prep.tgt).tokenize(tgt)


_tokenizer = lru_cache(maxsize=2)(TextPipeline)  # cached per process


def broken_rule(line: str, src: list[str], tgt: list[str], prep: Prep, heldout: frozenset[bytes]) -> str | None:
    """The first rule other than "duplicate" that a pair breaks, or None.

    line: the raw text of both sides; src, tgt: the words; heldout: hashes of the development and test pairs.
    """
    cleaning = prep.cleaning
    if not line.isprintable() and CONTROL.search(line):
        return "control"
    if not (src and tgt):
        return "empty"
    sides = (src, prep.src.finds_words), (tgt, prep.tgt.finds_words)
    if cleaning.max_length and any(found and len(words) > cleaning.max_length for words, found in sides):
        return "long"
    # The number of words if both sides have words, else that of characters.
    count = len if sides[0][1] and sides[1][1] else characters
    short, long = sorted((count(src), count(tgt)))
    if cleaning.max_ratio and long > cleaning.max_ratio * short:
        return "ratio"
    if "identical" in cleaning.drop and src == tgt:
        return "identical"
    if "script" in cleaning.drop and (
        wrong_script(" ".join(src), prep.src.language) or wrong_script(" ".join(tgt), prep.tgt.language)
    ):
        return "script"
    if "overlap" in cleaning.drop and pair_hash(src, tgt) in heldout:
        return "overlap"
    return None


def characters(words: list[str]) -> int:
    """The number of characters of a sentence."""
    return sum(map(len, words))
