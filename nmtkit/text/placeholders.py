"""Placeholders in program strings, URLs and other text to be copied, and their masks in training text."""

import re
from collections import Counter, defaultdict

from nmtkit.text.scripts import WIDE

# Chinese and Japanese letters touch addresses without being part of them; in a URL they are, from a separator on up to
# white space or the next ASCII character.
_NARROW = f"(?![{WIDE}])"
_WIDE_NAME = rf"(?<=[/=#?&_-])(?:(?=[{WIDE}])\w)+(?=[\s!-~]|$)"
# Format strings of programs, markup, web and e-mail addresses.
_PATTERNS = (
    r"\$t\([^()]*\)",  # $t(key) of i18next, another string
    r"\{\{[^{}]*\}\}",  # {{ x }}
    r"[$%#]?\{[^{}]*\}",  # {name}, ${name}, %{name}, {0:.2f}
    r"%(?:\(\w+\))?(?:\d+\$)?[-+#0]*(?:\d+|\*)?(?:\.\d+)?(?:hh?|ll?|[jztL])?[@diouxXeEfFgGcrsaA]",  # %1$s, %(count)d
    r"%(?:%|L?\d+|n\b)",  # %%, and %1 and %n of Qt
    r"</?[A-Za-z][^<>]*>",  # <x id="1"/>
    r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);",  # &nbsp;
    rf"(?:(?:https?|ftp)://|www\.)(?:{_NARROW}[^\s<>\"{{}}]|{_WIDE_NAME}|\{{[^{{}}]*\}})*(?<=[\w/}};=])",
    rf"(?<!{_NARROW}[\w.+-])(?:{_NARROW}[\w.+-])+@(?:{_NARROW}[\w-])+(?:\.(?:{_NARROW}[\w-])+)+",
)
PLACEHOLDERS = re.compile("|".join(_PATTERNS))
# Letters without case, which no tokenizer, lower-casing or truecasing changes.
MASKS = tuple(f"ǁ{number}ǁ" for number in range(1, 10))
MASK = re.compile("ǁ[1-9]ǁ")
# Outside words; adjacent placeholders are one.
_SEPARATE = re.compile(rf"(?<!{_NARROW}\w)(?:{PLACEHOLDERS.pattern})+(?!{_NARROW}\w)")
_BESIDE_MASK = re.compile(rf"(?<=\w)(?={MASK.pattern})|(?<={MASK.pattern})(?=\w)")


def masked(src: str, tgt: str) -> tuple[str, str]:
    """A training pair with ``MASKS`` for the first nine placeholders that both sides have equally often.

    A mask is a word of its own, so spaces separate it from Chinese and Japanese letters.
    """
    found = _SEPARATE.findall(src)
    if not found:
        return src, tgt
    often, in_target = Counter(found), Counter(_SEPARATE.findall(tgt))
    of_text = defaultdict[str, list[str]](list)
    for text, mask in zip((text for text in found if often[text] == in_target[text]), MASKS, strict=False):
        of_text[text].append(mask)

    def with_masks(line: str) -> str:
        left = {text: iter(masks) for text, masks in of_text.items()}
        line = _SEPARATE.sub(lambda match: next(left[match[0]], match[0]) if match[0] in left else match[0], line)
        return _BESIDE_MASK.sub(" ", line)

    return with_masks(src), with_masks(tgt)
