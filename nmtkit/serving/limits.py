"""Limits: how much a server accepts from a client, and how long it works for one, so that none blocks the others."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Characters are Unicode code points; each line or sentence counts one for its end."""

    body: int = 4_000_000  # bytes of a request
    characters: int = 1_000_000  # of the text of a request, times the number of translations of each sentence
    lines: int = 10_000  # of a request
    line: int = 20_000  # characters of a line or sentence, which is searched as a whole while others wait
    attention: int = 20_000  # characters, counted likewise, of a request for attention weights, which are a square
    queue: int = 4_000_000  # characters that wait to be searched; a request that comes to a full queue gets a 503
    beam: int = 20  # hypotheses, so also translations of each sentence, that a client may ask for
    length: int = 4  # times the source words, and then 100 words, that a translation may have if a client asks for more
    wait: float = 60.0  # seconds until the search for a request begins; then it gets a 504
    search: float = 600.0  # seconds from then on; then it gets a 504, too
    transfer: float = 20.0  # seconds in which a client has to send its request, and to read each part of the answer
    keep_alive: int = 5  # seconds for which a connection without a request stays open
    connections: int = 1_000  # at a time

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{field.name}: {getattr(self, field.name)} is not above 0")
