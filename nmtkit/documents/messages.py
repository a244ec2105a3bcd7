"""ICU messages with plural or select forms, such as ``{n, plural, one {# dog} other {# dogs}}``, are not translated.

A translation needs its language's own forms, which may be more or fewer, and each form would be a sentence by itself.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from nmtkit.errors import counted

log = logging.getLogger(__name__)
T = TypeVar("T")

_FORMS = re.compile(r"\{\s*[^\s{},]+\s*,\s*(?:plural|select|selectordinal|choice)\s*,")  # choice is Java's


def without_forms(strings: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """The strings, each with its place, except messages with forms; warns of these once."""
    left = 0
    for string, place in strings:
        if _FORMS.search(string):
            left += 1
        else:
            yield string, place
    if left:
        log.warning(f"{counted(left, 'ICU message')} with plural or select forms left untranslated")
