"""How much of a text survives tokenisation and detokenisation."""

from collections.abc import Iterable, Mapping
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from nmtkit.lines import parse_line, raw_lines
from nmtkit.text.casing import lower
from nmtkit.text.pipeline import INVISIBLE, TextPipeline
from nmtkit.text.settings import in_form

SAMPLE = 1_000  # lines
_BEFORE, _AFTER = 30, 30  # characters shown around a difference
_READ = 100_000  # lines at the beginning of a text over which the sample is spread
ENOUGH = 0.99  # warn if fewer lines are unchanged


class RoundTrip(NamedTuple):
    """How many lines of a sample are the same after tokenisation and detokenisation, except for white space."""

    lines: int
    same: int
    line: str | None  # the first changed line
    becomes: str | None  # the same, detokenised


def sample(path: Path, lines: int) -> Iterable[str]:
    """Up to 1,000 lines of a raw text of ``lines`` lines."""
    read = min(lines, _READ)
    step = -(-read // SAMPLE) or 1
    for number, raw in enumerate(islice(raw_lines(path), 0, read, step)):
        yield parse_line(raw, path, 1 + number * step)


def round_trip(pipeline: TextPipeline, lines: Iterable[str]) -> RoundTrip:
    """Tokenise and detokenise lines, and compare them in the normal form of the side, lower-cased if the side is."""
    side, total, changed = pipeline.side, 0, list[tuple[str, str]]()
    for line in lines:
        total += 1
        written = in_form(side, INVISIBLE.sub("", line))
        if side.lowercase:
            written = lower(written, side.case)
        back = pipeline.text(pipeline.tokens(line))
        if written.split() != back.split():
            changed.append((line, back))
    return RoundTrip(total, total - len(changed), *(changed[0] if changed else (None, None)))


def describe_loss(trip: Mapping[str, Any]) -> str:
    """The first changed line of ``RoundTrip._asdict()`` around the difference."""
    line, becomes = (" ".join(trip[name].split()) for name in ("line", "becomes"))
    same = next((i for i, (a, b) in enumerate(zip_longest(line, becomes)) if a != b), 0)
    start = max(0, same - _BEFORE)
    if start and line[start - 1] != " ":  # begins with a whole word, if there is one
        start = line.find(" ", start, same) + 1 or start
    return f"{line[start : same + _AFTER]!r} becomes {becomes[start : same + _AFTER]!r}"
