"""Plain text (txt): each line is a paragraph."""

from functools import partial

from nmtkit.documents.places import Places
from nmtkit.documents.text import decoded, encoded


def read_txt(data: bytes) -> Places:
    """Read plain text, in which well-formed tags are markup."""
    whole = [decoded(data)]
    places = Places(lambda: encoded(whole[0], data))
    places.add_string(whole[0], partial(whole.__setitem__, 0))
    return places
