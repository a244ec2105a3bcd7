"""Limits: how much a server accepts and how long it works for a client, so that no client blocks the others."""

from dataclasses import dataclass

# These protect the server whatever is asked of it. Characters are Unicode code points.
LINE = 20_000  # characters of a line or sentence, which is searched as a whole while others wait
ATTENTION = 20_000  # characters of a text for attention weights, whose size is quadratic
LENGTH = 4  # the largest max_len_a that a client may ask for
QUEUE = 4_000_000  # characters in the queue; a request beyond that gets a 503
TRANSFER = 20.0  # seconds in which a client has to send its request, and to read each part of the answer
KEEP_ALIVE = 5  # seconds for which an idle connection stays open
CONNECTIONS = 1_000  # open at the same time


@dataclass(frozen=True)
class Limits:
    """The limits that an administrator sets."""

    characters: int = 1_000_000  # of the text of a request, times the number of translations of each sentence
    lines: int = 10_000  # lines or sentences of a request
    beam: int = 20  # the largest beam, and the longest n-best list, that a client may ask for
    timeout: float = 600.0  # seconds from a request to its answer; then it gets a 504

    @property
    def body(self) -> int:
        """The bytes of a request: JSON may escape a character as six."""
        return 100_000 + 6 * self.characters
