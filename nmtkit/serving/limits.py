"""Limits on clients, so that none of them blocks the others."""

from dataclasses import dataclass

# Fixed limits. Characters are Unicode code points.
LINE = 20_000  # characters of a line or sentence
ATTENTION = 20_000  # characters of a text with attention weights, whose size is quadratic
LENGTH = 4  # of max_len_a
QUEUE = 4_000_000  # characters in the queue; beyond that, requests get a 503
TRANSFER = 20.0  # seconds to send a request, and to read each part of the answer
KEEP_ALIVE = 5  # seconds that an idle connection stays open
CONNECTIONS = 1_000  # open at the same time


@dataclass(frozen=True)
class Limits:
    """Limits that an administrator can set."""

    characters: int = 1_000_000  # of a request's text, times the size of n-best lists
    lines: int = 10_000  # lines or sentences of a request
    beam: int = 20  # beam size and n-best size
    timeout: float = 600.0  # seconds from a request to its answer; then it gets a 504

    @property
    def body(self) -> int:
        """The maximum size of a request in bytes: JSON may escape a character as six."""
        return 100_000 + 6 * self.characters
