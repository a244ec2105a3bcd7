"""Limits on clients, so that none of them blocks the others."""

from dataclasses import dataclass

from nmtkit.options import Option, option

# Fixed limits. Characters are Unicode code points.
LINE = 20_000  # characters of a line or sentence
ATTENTION = 20_000  # characters of a text with attention weights, whose size is quadratic
LENGTH, MORE = 4, 100  # of max_len_a and max_len_b
TERMS = 20_000  # characters of the terms of a request
FILE = 20 << 20  # bytes of a document with its form
DOCUMENTS = 20  # that are served or wait at a time
MARKS = 2_000  # pieces of markup in a paragraph of a document
FILES = 200 << 20  # bytes of translated documents that wait for their download
WAITING = 1_800.0  # seconds that they wait
QUEUE = 4_000_000  # characters in the queue; beyond that, requests get a 503
TRANSFER = 20.0  # seconds to send a request, and to read each part of the answer
KEEP_ALIVE = 5  # seconds that an idle connection stays open
CONNECTIONS = 1_000  # open at the same time

LIMITS = "Limits"  # of the help


# fmt: off
@dataclass(frozen=True)
class Limits:
    """Limits that an administrator can set."""

    characters: int = option(1_000_000, Option(
        "Maximum characters of a text, times the number of translations of each sentence.", LIMITS,
        names="--limit-characters", at_least=1))
    lines: int = option(10_000, Option(
        "Maximum lines or sentences of a text.", LIMITS, names="--limit-lines", at_least=1))
    beam: int = option(20, Option(
        "Maximum beam size, n-best list length and number of MBR samples that a client may request.", LIMITS,
        names="--limit-beam", at_least=1))
    timeout: float = option(600.0, Option(
        "Seconds after which a request without an answer fails (504).", LIMITS, at_least=0.001))
    # fmt: on

    @property
    def body(self) -> int:
        """The maximum size of a request in bytes: JSON may escape a character as six."""
        return 100_000 + 6 * self.characters
