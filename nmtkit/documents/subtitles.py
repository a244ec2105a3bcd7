"""Subtitles (srt, vtt): a sentence over several cues is translated as one segment and divided among them again."""

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import regex
import webvtt

from nmtkit.documents.places import Places, divided, joined, tagged, untagged
from nmtkit.documents.segment import Mark, Segment
from nmtkit.documents.text import decoded, encoded, line_end, space_between
from nmtkit.errors import UserError
from nmtkit.text.scripts import TERMINAL

_PAUSE = 2.0  # maximum seconds between two cues of a sentence
_CUES = 4  # maximum number of cues of a sentence: some songs and some languages have no full stops
_END = regex.compile(rf"""(?:{TERMINAL}|[:♪♫\])])(?:["'»”’)]|</[a-z]+>)*$""")
_NEW = re.compile(r"(?:<[bi]>)*[♪♫\[(]|<v")  # a song, a sound, or another speaker
# Codes, tags, and what begins a speaker's words: a dash or, unless all is in capitals, a name in capitals.
_SPEAKER = regex.compile(
    r"((?:\{\\[^}]*\})*)((?:<[^/>][^>]*>)*)(\s*[-–—]\s*|\s*\p{Lu}[\p{Lu}\p{M}\d .'’-]*:\s+(?=.*\p{Ll}))?"
)
# The number of a cue, which may be missing, and its times.
_TIME = r"([0-9]{1,4}(?:[,.:，．。：][0-9]{1,4}){2}(?:[,.:，．。：][0-9]{0,9})?)"
_HEAD = re.compile(rf"^[ \t]*(?:-?[0-9.]+\s*\n[ \t]*)?{_TIME} *-[ -] *> *{_TIME}.*$", re.MULTILINE)
_SETTINGS = re.compile(r"(-->[ \t]*[\d:.]+)[ \t].*")


class _Cue(NamedTuple):
    """A cue, or the words of one speaker in it."""

    text: str
    start: float  # seconds
    end: float
    put: Callable[[str], None]
    lines: int = 1
    spoken: bool = False  # whether a speaker's words begin in it


def read_srt(data: bytes) -> Places:
    """Read SubRip subtitles. Raises UserError for anything before the first cue."""
    text = decoded(data)
    if text.startswith("WEBVTT"):
        raise UserError("is not a valid srt file: it is WebVTT; end its name in .vtt")
    end = line_end(text)
    text = text.replace("\r\n", "\n")
    # Not the library srt, which takes cubic time for digits and quadratic time for blank lines.
    heads = list(_HEAD.finditer(text))
    places = [*(head.start() for head in heads), len(text)]
    if before := " ".join(text[: places[0]].split()):
        raise UserError(f"is not a valid srt file: {before[:100]!r} is not a cue")
    pieces, cues = [text[: places[0]]], list[_Cue]()
    for head, (place, following) in zip(heads, itertools.pairwise(places), strict=True):
        start, until = map(_seconds, head.groups())
        content = text[head.end() : following]
        words = content.strip()
        first = content.find(words)
        pieces += [text[place : head.end()] + content[:first], words, content[first + len(words) :]]
        cues.append(_Cue(words, start, until, partial(pieces.__setitem__, len(pieces) - 2)))
    return _places(cues, lambda: encoded("".join(pieces).replace("\n", end), data))


def _seconds(time: str) -> float:
    """The seconds of a time such as 00:01:02,500."""
    hours, minutes, seconds, *milliseconds = map(int, re.findall("[0-9]+", time))
    return hours * 3600 + minutes * 60 + seconds + sum(milliseconds) / 1000


def read_vtt(data: bytes) -> Places:
    """Read WebVTT subtitles. Raises UserError if a part of the file is not a valid cue."""
    text = decoded(data)
    try:
        # Old files have settings of drafts (align:middle), which players ignore; they are kept.
        webvtt.WebVTT.from_string(_SETTINGS.sub(r"\1", text), strict=True)
        file = webvtt.WebVTT.from_string(text)
    except (webvtt.errors.MalformedFileError, webvtt.errors.MalformedCaptionError, ValueError) as error:
        raise UserError(f"is not a valid vtt file: {' '.join(str(error).split())[:200]}") from None
    cues = []
    for cue in file.captions:
        start, end = (time.in_milliseconds() / 1_000 for time in (cue.start_time, cue.end_time))
        cues.append(_Cue(cue.raw_text, start, end, partial(setattr, cue, "text")))
    return _places(cues, lambda: encoded(file.content.replace("\n", line_end(text)), data))


def _speakers(cue: _Cue) -> list[_Cue]:
    """The words of each speaker in a cue; codes before each line and the dash or name before them are copied."""
    turns = list[list[str]]()
    for line in filter(str.strip, cue.text.split("\n")):
        if not turns or _SPEAKER.match(line)[3] or line.startswith("<v"):
            turns.append([])
        turns[-1].append(line)
    written = ["\n".join(lines) for lines in turns]

    def put(number: int, codes: Sequence[str], tags: str, name: str, text: str) -> None:
        end = _SPEAKER.match(text).end(2) if tags else 0
        lines = (text[:end] + name + text[end:]).split("\n")
        before = [*codes[: len(lines) - 1], "".join(codes[len(lines) - 1 :])]
        written[number] = "\n".join(map("".join, zip(before, lines, strict=True)))
        cue.put("\n".join(written))

    found = list[_Cue]()
    for number, lines in enumerate(turns):
        codes = [_SPEAKER.match(line)[1] for line in lines]
        lines = [*map(str.removeprefix, lines, codes)]
        text = lines[0]
        for before, line in itertools.pairwise(lines):
            text += space_between(tagged(before).text, tagged(line).text) + line
        begin = _SPEAKER.match(text)
        _, tags, name = begin.groups("")
        write = partial(put, number, codes, tags, name)
        found.append(cue._replace(text=tags + text[begin.end() :], put=write, lines=len(lines), spoken=name != ""))
    return found


def _places(cues: Iterable[_Cue], save: Callable[[], bytes]) -> Places:
    """The places of subtitles: the cues of each sentence are one segment."""
    places, sentence = Places(save), list[_Cue]()
    for cue in itertools.chain.from_iterable(map(_speakers, cues)):
        if not tagged(cue.text).text.strip():
            continue  # it stays empty
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
    return places


def _add_sentence(places: Places, cues: Sequence[_Cue]) -> None:
    """Add the cues of a sentence. The element of an empty mark between two cues is the number of the second."""
    parts = list[Segment]()
    for number, part in enumerate(tagged(cue.text) for cue in cues):
        if number:
            space = space_between(parts[-1].text, part.text)
            parts.append(Segment(space, (Mark(len(space), len(space), number, False),)))
        parts.append(part)
    places.add(_merged(joined(parts)), lambda translated: _put_sentence(cues, translated))


def _merged(segment: Segment) -> Segment:
    """The segment with equal elements joined that have only white space between them, as italics over lines do."""
    marks = list[Mark]()
    for mark in segment.marks:
        last = marks[-1] if marks else None
        if last and last.element == mark.element and not segment.text[last.end : mark.start].strip():
            marks[-1] = last._replace(end=mark.end)
        else:
            marks.append(mark)
    return replace(segment, marks=tuple(marks))


def _put_sentence(cues: Sequence[_Cue], translated: Segment) -> None:
    """Divide a translation among its cues at the marks between them, or by length if that leaves a cue empty."""
    text = translated.text
    ends = [0, *sorted(mark.start for mark in translated.marks if isinstance(mark.element, int)), len(text)]
    if len(ends) <= len(cues) or not all(text[start:end].strip() for start, end in itertools.pairwise(ends)):
        ends = [0, *_cuts(text, [len(cue.text) for cue in cues]), len(text)]
    cuts = list[int]()
    for cue, (start, end) in zip(cues, itertools.pairwise(ends), strict=True):
        cuts += [*(start + cut for cut in _cuts(text[start:end], [1] * cue.lines)), end]
    marks = tuple(mark for mark in translated.marks if not isinstance(mark.element, int))
    lines = map(untagged, divided(replace(translated, marks=marks), cuts[:-1]))
    for cue in cues:
        # An empty line would end the cue.
        cue.put("\n".join(filter(None, itertools.islice(lines, cue.lines))).replace("-->", "→"))


def _cuts(text: str, weights: Sequence[int]) -> list[int]:
    """Where to cut a text into parts of at least a word whose lengths are roughly proportional to ``weights``."""
    words = [match.end() for match in re.finditer(r"\S\s+(?=\S)", text)]
    words = words or [match.end() for match in regex.finditer(r"\X(?=.)", text)]
    cuts, first, total = list[int](), 0, max(1, sum(weights))
    for number, done in enumerate(itertools.accumulate(weights[:-1]), 1):
        wanted = len(text) * done / total
        last = max(first + 1, len(words) - (len(weights) - 1 - number))  # leaves a word for each following part
        end = min(last, len(words))
        near = bisect_left(words, wanted, first, end)
        place = min(range(max(first, near - 1), min(near + 1, end)), key=lambda i: abs(words[i] - wanted), default=None)
        cuts.append(len(text) if place is None else words[place])
        first = len(words) if place is None else place + 1
    return cuts
