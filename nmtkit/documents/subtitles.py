"""Subtitles (srt, vtt): a sentence that runs over several cues is translated whole, and divided among them again."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import srt
import webvtt

from nmtkit.documents.places import Places, divided, joined, tagged, untagged
from nmtkit.documents.segment import Mark, Segment
from nmtkit.documents.text import decoded, encoded
from nmtkit.errors import UserError

_PAUSE = 2.0  # seconds between two cues of a sentence, at most
_CUES = 4  # of a sentence, at most: some songs and some languages have no full stops
_END = re.compile(r"""[.!?…。！？:♪♫\])](?:["'»”’)]|</[a-z]+>)*$""")
_NEW = re.compile(r"(?:<[bi]>)*[♪♫\[(]|<v")  # a song, a sound, or another speaker
_DASH = re.compile(r"\s*[-–—]\s*")


class _Cue(NamedTuple):
    """A cue, or one speaker's line of it."""

    text: str
    lines: int
    start: float  # seconds
    end: float
    put: Callable[[str], None]
    spoken: bool = False  # a line after a dash, which begins what someone says


class _Break(NamedTuple):
    """The place in a text where the next cue begins."""

    number: int


def read_srt(data: bytes) -> Places:
    """Subtitles of SubRip. Raises UserError if they are none, or a part of the file is no cue."""
    text = decoded(data)
    try:
        cues = list(srt.parse(text))
    except (srt.SRTParseError, ValueError, OverflowError) as error:
        raise UserError(f"is no srt: {' '.join(str(error).split())[:200]}") from None
    end = "\r\n" if "\r\n" in text else "\n"
    places = Places(lambda: encoded(srt.compose(cues, reindex=False, strict=False, eol=end), data))
    lines = [
        _speakers(cue.content, cue.start.total_seconds(), cue.end.total_seconds(), partial(setattr, cue, "content"))
        for cue in cues
    ]
    _add(places, [line for of_cue in lines for line in of_cue])
    return places


def read_vtt(data: bytes) -> Places:
    """Subtitles of the web. Raises UserError if they are none, or a part of the file is no cue."""
    try:
        file = webvtt.WebVTT.from_string(decoded(data), strict=True)
    except (webvtt.errors.MalformedFileError, webvtt.errors.MalformedCaptionError, ValueError) as error:
        raise UserError(f"is no vtt: {' '.join(str(error).split())[:200]}") from None
    places = Places(lambda: encoded(file.content, data))
    lines = [
        _speakers(
            "\n".join(cue.lines),
            cue.start_time.in_milliseconds() / 1e3,
            cue.end_time.in_milliseconds() / 1e3,
            partial(_put_lines, cue),
        )
        for cue in file.captions
    ]
    _add(places, [line for of_cue in lines for line in of_cue])
    return places


def _put_lines(cue: webvtt.Caption, content: str) -> None:
    cue.lines = content.split("\n")


def _speakers(content: str, start: float, end: float, put: Callable[[str], None]) -> list[_Cue]:
    """A cue or, where each of its lines begins with a dash, its lines without that."""
    lines = [line for line in content.split("\n") if line.strip()]
    dashes = [match for match in map(_DASH.match, lines) if match]
    if not lines or len(dashes) < len(lines):
        return [_Cue(" ".join(lines), max(1, len(lines)), start, end, put)]

    def put_line(number: int, line: str) -> None:
        lines[number] = dashes[number][0] + line
        put("\n".join(lines))

    return [
        _Cue(line[dash.end() :], 1, start, end, partial(put_line, number), True)
        for number, (line, dash) in enumerate(zip(lines, dashes, strict=True))
    ]


def _add(places: Places, cues: Sequence[_Cue]) -> None:
    """Add cues, those of a sentence as one segment."""
    sentence = list[_Cue]()
    for cue in cues:
        if sentence and (
            len(sentence) == _CUES
            or cue.start - sentence[-1].end > _PAUSE
            or _END.search(sentence[-1].text.strip())
            or cue.spoken
            or _NEW.match(cue.text)
        ):
            _add_sentence(places, sentence)
            sentence = []
        sentence.append(cue)
    _add_sentence(places, sentence)


def _add_sentence(places: Places, cues: Sequence[_Cue]) -> None:
    """Add the cues of a sentence."""
    parts = list[Segment]()
    for number, cue in enumerate(cues):
        if number:
            parts.append(Segment(" ", (Mark(1, 1, _Break(number), False),)))
        parts.append(tagged(cue.text))
    places.add(_merged(joined(parts)), lambda translated: _put_sentence(cues, translated))


def _merged(segment: Segment) -> Segment:
    """A segment with one element where two alike have only white space between them, as lines in italics do."""
    marks = list[Mark]()
    for mark in segment.marks:
        last = marks[-1] if marks else None
        if last and last.element == mark.element and not segment.text[last.end : mark.start].strip():
            marks[-1] = last._replace(end=mark.end)
        else:
            marks.append(mark)
    return Segment(segment.text, tuple(marks), segment.keep)


def _put_sentence(cues: Sequence[_Cue], translated: Segment) -> None:
    """Divide a translation among its cues where their words went or, if one got none, by their lengths."""
    breaks = sorted(mark.start for mark in translated.marks if isinstance(mark.element, _Break))
    text = translated.text
    ends = [0, *breaks, len(text)]
    if len(ends) <= len(cues) or not all(text[start:end].strip() for start, end in itertools.pairwise(ends)):
        ends = [0, *_cuts(text, [len(cue.text) for cue in cues]), len(text)]
    cuts = list[int]()
    for cue, (start, end) in zip(cues, itertools.pairwise(ends), strict=True):
        cuts += [*(start + cut for cut in _cuts(text[start:end], [1] * cue.lines)), end]
    marks = tuple(mark for mark in translated.marks if not isinstance(mark.element, _Break))
    lines = iter(divided(replace(translated, marks=marks), cuts[:-1]))
    for cue in cues:
        cue.put("\n".join(untagged(line) for line in itertools.islice(lines, cue.lines)).replace("-->", "→"))


def _cuts(text: str, weights: Sequence[int]) -> list[int]:
    """Where to cut a text into parts, at least a word each, whose lengths are about in proportion to ``weights``."""
    words = [match.start() for match in re.finditer(r"(?<=\s)\S", text)] or list(range(1, len(text)))
    cuts, done, first = list[int](), 0, 0
    for number, weight in enumerate(weights[:-1], 1):
        done += weight
        wanted = len(text) * done / max(1, sum(weights))
        last = max(first + 1, len(words) - (len(weights) - 1 - number))  # leaves a word for each part that follows
        place = min(range(first, min(last, len(words))), key=lambda i: abs(words[i] - wanted), default=None)
        cuts.append(len(text) if place is None else words[place])
        first = len(words) if place is None else place + 1
    return cuts
