"""Translating segments: all sentences together, then placeholders and markup placed by attention."""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from nmtkit.documents.alignment import Aligned
from nmtkit.documents.marks import Part, place
from nmtkit.documents.placeholders import Hole, find, nothing_else, restore, warn_of_lost, with_stand_ins
from nmtkit.documents.segment import Segment
from nmtkit.documents.sentences import Span, between, sentences
from nmtkit.text.placeholders import PLACEHOLDERS

_WORD = re.compile(r"\S+")


class _Sentence(NamedTuple):
    span: Span  # in the segment
    text: str  # for the model, with a stand-in for each placeholder
    holes: list[Hole]
    copied: bool  # whether it has only placeholders, numbers and punctuation

    def original(self, word: Span) -> Span:
        """The characters in the segment of a word of ``text``."""
        return Span(self._place(word.start, False), self._place(word.end, True))

    def _place(self, place: int, is_end: bool) -> int:
        """The place in the segment of the start or end of a word."""
        shift = self.span.start
        for hole in self.holes:
            if place < hole.place.start + is_end:
                break
            if place < hole.place.end + is_end:
                return hole.span[is_end]
            shift = hole.span.end - hole.place.end
        return place + shift


class Plan(NamedTuple):
    """The sentences of segments; ``finish`` makes segments of their translations."""

    segments: Sequence[Segment]
    source: str  # language
    target: str  # language
    parts: list[list[_Sentence]]  # of each segment

    @property
    def sentences(self) -> list[str]:
        """All sentences to translate, in order."""
        return [part.text for parts in self.parts for part in parts if not part.copied]

    @property
    def aligned(self) -> bool:
        """Whether word alignments are needed, to place markup or placeholders."""
        holes = any(part.holes for parts in self.parts for part in parts if not part.copied)
        return holes or any(segment.marks and parts for segment, parts in zip(self.segments, self.parts, strict=True))

    def finish(self, translations: Iterable[Aligned], warn: bool = True) -> list[Segment]:
        """The translated segments. translations: of each of ``sentences``. warn: log placeholders without a place."""
        answers, finished = iter(translations), list[Segment]()
        for number, (segment, parts) in enumerate(zip(self.segments, self.parts, strict=True), 1):
            gaps = between(segment.text, [part.span for part in parts], self.source, self.target)
            text, aligned, doubtful = gaps[0], list[Part](), False
            edges = sorted({place for mark in segment.marks for place in mark[:2]})
            for part, gap in zip(parts, gaps[1:], strict=True):
                if part.copied:
                    aligned += _copied(segment, part.span, len(text) - part.span.start, edges)
                    text += segment.text[part.span.start : part.span.end] + gap
                    continue
                answer = next(answers)
                doubtful |= answer.doubtful
                filled = restore(answer, part.holes)
                if warn:
                    warn_of_lost(f"paragraph {number}", filled)
                source = [part.original(word) for word in filled.source]
                target = [Span(word.start + len(text), word.end + len(text)) for word in filled.target]
                aligned.append(_cut(Part(source, target, filled.weights), part.holes, edges))
                text += filled.text + gap
            marks = place(segment.marks, segment.text, text, aligned)
            finished.append(Segment(text, marks, doubtful=doubtful))
        return finished


def _copied(segment: Segment, span: Span, shift: int, edges: Sequence[int]) -> list[Part]:
    """The words of a copied sentence, cut at ``edges``, where markup starts and ends, each aligned with itself."""
    words = [Span(*word.span()) for piece in _pieces(span, edges) for word in _WORD.finditer(segment.text, *piece)]
    return [Part([word], [Span(word.start + shift, word.end + shift)], np.ones((1, 1), np.float32)) for word in words]


def _pieces(span: Span, edges: Sequence[int]) -> list[Span]:
    """A span, cut at those of ``edges``, which are sorted, that are inside it."""
    cuts = edges[bisect_right(edges, span.start) : bisect_left(edges, span.end)]
    return [*itertools.starmap(Span, itertools.pairwise([span.start, *cuts, span.end]))]


def _cut(part: Part, holes: Sequence[Hole], edges: Sequence[int]) -> Part:
    """A sentence whose copied words are cut at ``edges``, each piece aligned with itself."""
    for hole in holes:
        pieces = _pieces(hole.span, edges)
        if len(pieces) > 1 and hole.span in part.source:  # not without a stand-in
            s = part.source.index(hole.span)
            t = int(part.weights[:, s].argmax())
            shift, more = part.target[t].start - hole.span.start, len(pieces) - 1
            moved = [Span(piece.start + shift, piece.end + shift) for piece in pieces]
            weights = np.insert(np.insert(part.weights, [s] * more, 0, axis=1), [t] * more, 0, axis=0)
            weights[t : t + more, s : s + more] = np.eye(more)
            source = [*part.source[:s], *pieces, *part.source[s + 1 :]]
            part = Part(source, [*part.target[:t], *moved, *part.target[t + 1 :]], weights)
    return part


def plan(
    segments: Sequence[Segment],
    source: str,
    target: str,
    words: Sequence[str],
    keep: Sequence[re.Pattern[str]] = (),
    split: bool = True,
) -> Plan:
    """The sentences to translate in segments, from the language ``source`` into ``target``.

    words: the model's ``stand_ins``. keep: patterns of text to copy, in addition to the segments' ``keep`` and the
    placeholders of programs. split: whether lines are split into sentences.
    """
    every = []
    for segment in segments:
        kept = find(segment.text, (PLACEHOLDERS, *keep), segment.keep)
        parts = []
        for span, inside in _whole(sentences(segment.text, source, split), kept):
            text, holes = with_stand_ins(segment.text, span.start, span.end, inside, words)
            parts.append(_Sentence(span, text, holes, nothing_else(segment.text, span, inside)))
        every.append(parts)
    return Plan(segments, source, target, every)


def _whole(spans: list[Span], kept: list[Span]) -> list[tuple[Span, list[Span]]]:
    """Sentences with the spans of copied text in them; sentences that share such a span are joined."""
    joined, left = list[tuple[Span, list[Span]]](), deque(kept)
    for span in spans:
        if joined and joined[-1][1] and joined[-1][1][-1].end > span.start:
            (start, _), inside = joined.pop()
        else:
            start, inside = span.start, []
        while left and left[0].start < span.end:
            inside.append(left.popleft())
        joined.append((Span(start, max(span.end, inside[-1].end if inside else 0)), inside))
    return joined
