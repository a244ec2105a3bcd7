"""How much of a text comes back as it was written after it has become tokens."""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nmtkit.lines import parse_line, raw_lines
from nmtkit.text.pipeline import TextPipeline

SAMPLE = 1_000  # lines
_BEFORE, _AFTER = 30, 30  # characters of a line that are shown around a difference
_READ = 100_000  # the first lines of a text, among which the sample is spread
ENOUGH = 0.99  # of the lines; what loses more is worth a warning


class RoundTrip(NamedTuple):
    """The lines of a sample that are the same, white space apart, after they have become tokens and text again."""

    lines: int
    same: int
    line: str | None  # the first that is not, and what it becomes
    becomes: str | None


def sample(path: Path, lines: int) -> Iterable[str]:
    """Up to 1,000 lines of a raw text that has so many lines."""
    read = min(lines, _READ)
    step = -(-read // SAMPLE) or 1
    for number, raw in enumerate(islice(raw_lines(path), 0, read, step)):
        yield parse_line(raw, path, 1 + number * step)


def round_trip(pipeline: TextPipeline, lines: Iterable[str]) -> RoundTrip:
    """What becomes of lines of raw text; a side that is lower-cased is compared in lower case."""
    total = same = 0
    first: tuple[str, str] | tuple[None, None] = None, None
    for line in lines:
        written = line.lower() if pipeline.side.lowercase else line
        back = pipeline.text(pipeline.tokens(line))
        total += 1
        if written.split() == back.split():
            same += 1
        elif first[0] is None:
            first = line, back
    return RoundTrip(total, same, *first)


def describe_loss(trip: Mapping[str, Any]) -> str:
    """The first line of ``RoundTrip._asdict()`` that does not come back, around the place where it differs."""
    line, becomes = (" ".join(trip[name].split()) for name in ("line", "becomes"))
    same = next(
        (i for i, (a, b) in enumerate(zip(line, becomes, strict=False)) if a != b), min(len(line), len(becomes))
    )
    start = max(0, same - _BEFORE)
    return f"{line[start : same + _AFTER]!r} becomes {becomes[start : same + _AFTER]!r}"
