"""Placing inline markup in a translation: around the target words that attend to its source words, nested as before."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nmtkit.documents.segment import Mark
from nmtkit.documents.sentences import Span
from nmtkit.search.beam import Floats

_MOST = 0.5  # a target word belongs to the element that has more than this share of its attention
_LEAST = 0.1  # an element without such a word gets its best word, if that has at least this share


@dataclass(frozen=True)
class Part:
    """A sentence of a segment: T target words and S source words, with their characters in the whole segment."""

    source: list[Span]  # (S,)
    target: list[Span]  # (T,)
    weights: Floats  # (T, S)


@dataclass
class _Element:
    """A mark with the marks in it and its copies in the translation."""

    mark: Mark
    children: list["_Element"] = field(default_factory=list)
    splits: bool = False
    is_root: bool = False
    copies: list["_Copy"] = field(default_factory=list)

    def copy_at(self, word: int) -> "_Copy":
        """The last copy that starts at or before a target word, or else the first copy."""
        place = bisect_right(self.copies, word, key=lambda copy: copy.first) - 1
        return self.copies[max(0, place)]

    def has(self, word: int) -> bool:
        """Whether a target word is in a copy."""
        copy = self.copy_at(word)
        return copy.first <= word < copy.end


@dataclass
class _Copy:
    """An element around the target words from ``first`` to ``end``, or an empty one at a character."""

    element: _Element
    first: int
    end: int
    span: Span  # characters
    inside: list["_Copy"] = field(default_factory=list)


def place(marks: Sequence[Mark], source: str, target: str, parts: Sequence[Part]) -> tuple[Mark, ...]:
    """The marks of a segment in its translation, in document order. source, target: the texts of both.

    Nesting is kept. An element that splits is repeated around each group of its words; any other is around the best
    group. An element to which no word attends becomes empty. An empty element stays beside its neighbouring word.
    """
    root = _tree(marks, len(source))
    words = _Words(source, parts)
    root.copies.append(_Copy(root, 0, len(words.target), Span(0, len(target))))
    waiting = [root]
    while waiting:
        element = waiting.pop()
        words.place(element)
        waiting += element.children
    found, left = list[Mark](), [root.copies[0]]
    while left:
        copy = left.pop()
        if copy.element is not root:
            found.append(copy.element.mark._replace(start=copy.span.start, end=copy.span.end))
        # In order, with empty ones before others that start there.
        left += sorted(copy.inside, key=lambda each: each.span)[::-1]
    return tuple(found)


def _tree(marks: Sequence[Mark], length: int) -> _Element:
    """The root of the tree of marks; it covers the whole text, of ``length`` characters."""
    root = _Element(Mark(0, length, None, False), is_root=True)
    every, path = [root], [root]
    for mark in marks:
        # An empty mark contains no other, and one at the end of another is after it.
        while not path[-1].is_root and not (mark.start < path[-1].mark.end and mark.end <= path[-1].mark.end):
            path.pop()
        element = _Element(mark, splits=mark.splits)
        path[-1].children.append(element)
        path.append(element)
        every.append(element)
    for element in reversed(every):  # an element does not split around one that does not
        element.splits &= all(child.splits or child.mark.start == child.mark.end for child in element.children)
    return root


class _Words:
    """The words of a segment and its translation."""

    def __init__(self, source: str, parts: Sequence[Part]) -> None:
        self.text = source
        self.parts = [part for part in parts if part.source and part.target]
        self.target = [span for part in self.parts for span in part.target]
        self.firsts = np.cumsum([0, *(len(part.target) for part in self.parts)]).tolist()  # target word of each part
        self.begins = [part.source[0].start for part in self.parts]
        self.ends = [part.source[-1].end for part in self.parts]
        self.bounds = [np.array(part.source) for part in self.parts]
        self.source = [(part, s) for part, each in enumerate(self.parts) for s in range(len(each.source))]
        self.source_starts = [span.start for part in self.parts for span in part.source]
        self.source_ends = [span.end for part in self.parts for span in part.source]

    def place(self, parent: _Element) -> None:
        """Place the children of an element that is already placed."""
        low, high = parent.copies[0].first, parent.copies[-1].end
        owner = np.full(high - low, -2)  # of each word: the number of a child, -1 for none yet, -2 outside the parent
        for copy in parent.copies:
            owner[copy.first - low : copy.end - low] = -1
        full = [child for child in parent.children if child.mark.start < child.mark.end]
        shares = [self._shares(child.mark, low, high) for child in full]
        for number, (first, share) in enumerate(shares):
            view = owner[first - low :][: len(share)]
            view[(share > _MOST) & (view == -1)] = number
        for number, (child, (first, share)) in enumerate(zip(full, shares, strict=True)):
            view = owner[first - low :][: len(share)]
            free = (view == -1) | (view == number)
            for start, end in _groups(np.where(free, share - _MOST, -np.inf), share, child.splits):
                view[start:end] = number
                span = Span(self.target[first + start].start, self.target[first + end - 1].end)
                self._put(child, parent, _Copy(child, first + start, first + end, span))
        taken = sorted((copy for child in full for copy in child.copies), key=lambda copy: copy.first)
        for child in parent.children:
            if not child.copies:
                self._put_empty(child, parent, taken)

    def _put(self, child: _Element, parent: _Element, copy: _Copy) -> None:
        """Add a copy of a child to the copy of its parent that contains it."""
        child.copies.append(copy)
        parent.copy_at(copy.first).inside.append(copy)

    def _shares(self, mark: Mark, low: int, high: int) -> tuple[int, Floats]:
        """The number of the first target word of a mark's sentences, and each word's share of attention on the mark.

        Words before ``low`` and from ``high`` on are left out.
        """
        parts = range(bisect_right(self.ends, mark.start), bisect_left(self.begins, mark.end))
        shares = [np.zeros(0, np.float32)]
        for part in parts:
            starts, ends = self.bounds[part].T
            words = slice(np.searchsorted(ends, mark.start, "right"), np.searchsorted(starts, mark.end))
            inside = np.minimum(ends[words], mark.end) - np.maximum(starts[words], mark.start)
            shares.append(self.parts[part].weights[:, words] @ (inside / (ends - starts)[words]))
        first = self.firsts[parts.start] if parts else low
        share = np.concatenate(shares)[max(0, low - first) : max(0, high - first)]
        return max(first, low), share

    def _put_empty(self, child: _Element, parent: _Element, taken: Sequence[_Copy]) -> None:
        """Place an element without words beside its neighbouring word, but not inside one of the copies ``taken``."""
        if parent.copies[-1].end == parent.copies[0].first:  # the parent has no words
            first, character = parent.copies[0].first, parent.copies[0].span.start
        else:
            word, after = self._beside(child.mark.start, parent)
            first = word + after
            around = bisect_left(taken, first, key=lambda copy: copy.first) - 1
            if around >= 0 and first < taken[around].end:
                copy = taken[around]
                after = first - copy.first > copy.end - first
                word = copy.end - 1 if after else copy.first
                first = word + after
            character = self.target[word][after]
        self._put(child, parent, _Copy(child, first, first, Span(character, character)))

    def _beside(self, place: int, parent: _Element) -> tuple[int, bool]:
        """The target word for an empty element at a place of the source, and whether the element comes after it."""
        inside, first, end = parent.mark, parent.copies[0].first, parent.copies[-1].end
        before, behind = bisect_right(self.source_ends, place) - 1, bisect_left(self.source_starts, place)
        if before < 0 or self.source_starts[before] < inside.start:
            return first, False
        joined = not self.text[place - 1].isspace()
        candidates = [(self._attending(before, parent), True)]
        if behind < len(self.source) and self.source_ends[behind] <= inside.end:
            edge = self.firsts[self.source[behind][0]]
            if self.source[before][0] != self.source[behind][0] and parent.has(edge - 1) and parent.has(edge):
                return (edge - 1, True) if joined else (edge, False)  # between two sentences
            candidates.insert(joined, (self._attending(behind, parent), False))
        elif parent.is_root:
            return end - 1, True
        for word, after in candidates:
            # At the end of an element, it would be outside.
            if word is not None and not (after and not parent.is_root and word + 1 == parent.copy_at(word).end):
                return word, after
        return end - 1, False

    def _attending(self, word: int, parent: _Element) -> int | None:
        """The target word in ``parent`` that attends most to a source word, if any does."""
        part, s = self.source[word]
        attention = self.parts[part].weights[:, s]
        first = self.firsts[part]
        inside = [t for t in range(len(attention)) if attention[t] > 0 and parent.has(first + t)]
        return first + max(inside, key=lambda t: attention[t]) if inside else None


def _groups(scores: Floats, shares: Floats, several: bool) -> list[tuple[int, int]]:
    """The range of words (first, end) with the highest sum of scores; if ``several``, all that have positive sums.

    If there is none, the word with the highest share, if that is at least ``_LEAST``. Scores of -inf are excluded.
    """
    groups, left = list[tuple[int, int]](), [(0, len(scores))]
    while left:
        low, high = left.pop()
        start, end = _best(scores[low:high])
        if start < end:
            groups.append((low + start, low + end))
            if several:
                left += [(low, low + start), (low + end, high)]
    if not groups and np.isfinite(scores).any():
        word = int(np.where(np.isfinite(scores), shares, -1).argmax())
        return [(word, word + 1)] if shares[word] >= _LEAST else []
    return sorted(groups)


def _best(scores: Floats) -> tuple[int, int]:
    """The range with the highest sum if that is positive, else an empty one (Kadane's algorithm)."""
    best, start, end, total, first = 0.0, 0, 0, 0.0, 0
    for place, score in enumerate(scores.tolist()):
        total += score
        if total <= 0:
            total, first = 0.0, place + 1
        elif total > best:
            best, start, end = total, first, place + 1
    return start, end
