"""Placeholders of program strings, URLs and other text to copy: the model translates stand-ins for them.

A model has never seen placeholders, but it copies known names and inflects the words around them. The placeholder takes
the place of the name in the translation or, if the model did not copy the name, of the words that attend to it.
"""

import itertools
import logging
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from typing import NamedTuple
from unicodedata import is_normalized, normalize

import numpy as np
import regex

from nmtkit.documents.alignment import Aligned, shares
from nmtkit.documents.sentences import Span
from nmtkit.errors import UserError
from nmtkit.search.beam import Floats
from nmtkit.text.pipeline import letters
from nmtkit.text.placeholders import MASKS
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translator

log = logging.getLogger(__name__)

# Letters and digits that touch a variable belong to it, because a stand-in there would not be a word.
_JOINED = frozenset(string.ascii_letters + string.digits + "_")
_NUMBERS = tuple(str(number) for number in (*range(12, 100), *range(112, 1_000)))
_LETTER = re.compile(r"[^\W\d_]")
# Next to a name or number, these belong to it. Letters without case do not: Chinese, for example, has no spaces.
_PART_OF_NAME = r"[\p{Cased_Letter}\p{M}\p{N}_]"
_TRIED = 60  # names that are tested


class Hole(NamedTuple):
    """A placeholder in a sentence, and its stand-in."""

    span: Span  # in the text
    text: str
    place: Span  # in the sentence with stand-ins
    stand_in: str  # empty if there are more placeholders than stand-ins
    joined: tuple[bool, bool] = (False, False)  # whether it is a tag or entity that touches the word before; after


def patterns(extra: Sequence[str]) -> list[re.Pattern[str]]:
    """Compile the user's regular expressions. Raises UserError if one is not valid."""
    compiled = []
    for pattern in extra:
        try:
            compiled.append(re.compile(normalize("NFC", pattern)))
        except re.error as error:
            raise UserError(f"`keep`: {pattern!r} is not a regular expression: {error}") from None
    return compiled


def find(text: str, patterns: Iterable[re.Pattern[str]], known: Iterable[tuple[int, int]] = ()) -> list[Span]:
    """The spans of a text to copy, in order: those that are ``known``, and matches of the patterns elsewhere.

    Matches that touch each other are one placeholder, with the letters and digits that touch variables. Patterns match
    text in any normal form.
    """
    spans = list[Span]()
    composed, places = _composed(text)
    matches = (match.span() for pattern in patterns for match in pattern.finditer(composed))
    for start, end in sorted((places[start], places[end]) for start, end in matches):
        if not text[start:end].strip():
            continue
        apart = _is_apart(text[start:end])
        while not apart and start > 0 and text[start - 1] in _JOINED:
            start -= 1
        while not apart and end < len(text) and text[end] in _JOINED:
            end += 1
        if spans and start <= spans[-1].end:
            spans[-1] = Span(spans[-1].start, max(end, spans[-1].end))
        else:
            spans.append(Span(start, end))
    stripped = ((end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())) for start, end in known)
    fixed = [Span(start, end) for start, end in stripped if start < end]
    taken = {place for span in fixed for place in range(*span)}
    return sorted([*fixed, *(span for span in spans if taken.isdisjoint(range(*span)))])


def _composed(text: str) -> tuple[str, Sequence[int]]:
    """A text in Unicode's normal form NFC, and the places in ``text`` of its characters and of its end."""
    if is_normalized("NFC", text):
        return text, range(len(text) + 1)
    starts = [match.start() for match in regex.finditer(r"\X", text)]
    parts = [normalize("NFC", text[start:end]) for start, end in itertools.pairwise([*starts, len(text)])]
    places = [start for start, part in zip(starts, parts, strict=True) for _ in part]
    return "".join(parts), [*places, len(text)]


def _is_apart(text: str) -> bool:
    """Whether a placeholder is never part of a word: a tag, or an entity other than a letter or apostrophe."""
    character = unescape(text)
    return text[0] + text[-1] in ("<>", "&;") and not character.isalpha() and character not in "'’"


def nothing_else(text: str, span: Span, spans: Sequence[Span]) -> bool:
    """Whether all letters in ``span`` of a text are in the ``spans`` to copy, so that there is nothing to translate."""
    gaps = itertools.pairwise([span.start, *itertools.chain(*spans), span.end])
    return not any(_LETTER.search(text, *gap) for gap in [*gaps][::2])


def stand_ins(translator: Translator) -> tuple[str, ...]:
    """Words that replace placeholders in the model's input, best first: masks, names and numbers.

    Masks are those of ``nmtkit prep --mask-placeholders``. Names are the most frequent capitalised words in both
    vocabularies that the model copies when it translates them alone. Numbers are not tested.
    """
    reader, writer, known = translator.sources[0].pipeline, translator.tgt_pipeline, translator.tgt_vocab.known
    source = translator.sources[0].vocab
    masks = (mask for mask in MASKS if mask in source.known and mask in known)
    words = (letters(token) for token in source.words)
    shared = (
        word for word in words
        if len(word) > 2 and word.istitle() and word.isalpha()
        and len(reader.tokens(word)) == 1 and len(tokens := writer.tokens(word)) == 1 and tokens[0] in known
    )  # fmt: skip
    names = [*itertools.islice(dict.fromkeys(shared), _TRIED)]
    answers = translator.answer(names, Request(beam_size=1))
    copied = (name for name, [best] in zip(names, answers, strict=True) if name in re.split(r"\W+", best.text))
    return (*masks, *copied, *_NUMBERS)


def with_stand_ins(
    text: str, start: int, end: int, spans: Iterable[Span], words: Sequence[str]
) -> tuple[str, list[Hole]]:
    """The sentence ``text[start:end]`` with each placeholder replaced by one of ``words`` that it does not contain."""
    free = (word for word in words if word not in text[start:end])
    sentence, holes, done = "", list[Hole](), start
    for span in spans:
        sentence += text[done : span.start]
        word, done = next(free, ""), span.end
        before, after = sentence[-1:].isalnum(), text[done:end][:1].isalnum()
        sentence += " " * before
        seen, copied = word + " " * after, text[span.start : done]
        joined = (before, after) if _is_apart(copied) else (False, False)
        holes.append(Hole(span, copied, Span(len(sentence), len(sentence) + len(seen)), word, joined))
        sentence += seen
    return sentence + text[done:end], holes


class _Edit(NamedTuple):
    """A range of characters of a translation, and the text that replaces it."""

    start: int
    end: int
    text: str
    hole: int | None = None  # the number of the placeholder that ``text`` is


def restore(aligned: Aligned, holes: Sequence[Hole]) -> Aligned:
    """Put the placeholders of a sentence into its translation, each once.

    A placeholder replaces its stand-in or else the words that attend most to it. If there are none, the model
    omitted it: it follows the word that attends most to the source word before it.
    """
    words = [next((s for s, span in enumerate(aligned.source) if _overlap(span, hole.place)), None) for hole in holes]
    numbered = [*enumerate(zip(holes, words, strict=True))]
    edits, lost = list[_Edit](), list[str]()
    for number, (hole, word) in numbered:
        edits += _instead_of_stand_in(aligned, number, hole, word)
    placed = {edit.hole for edit in edits}
    free = {t for t, span in enumerate(aligned.target) if not any(_overlap(span, Span(*edit[:2])) for edit in edits)}
    for number, (hole, word) in numbered:
        if number in placed:
            continue
        if taken := _written_for(aligned, word, free):
            free.difference_update(taken)
            span = Span(aligned.target[taken.start].start, aligned.target[taken.stop - 1].end)
            edits.append(_Edit(*_around(aligned.text, span, hole), hole.text, number))
        else:
            lost.append(hole.text)
            edits += _guessed(aligned, number, hole, word, edits)
    # Each placeholder is a separate source word, to which no other target word attends.
    others = [s for s, span in enumerate(aligned.source) if not any(_overlap(span, hole.place) for hole in holes)]
    plain = np.zeros((len(aligned.target), len(holes) + len(others)), np.float32)
    plain[:, len(holes) :] = aligned.weights[:, others]
    source = [*(hole.place for hole in holes), *(aligned.source[s] for s in others)]
    edited = _edited(aligned._replace(source=source, weights=shares(plain)), sorted(edits, key=lambda edit: edit[:2]))
    order = sorted(range(len(source)), key=lambda s: source[s])
    return edited._replace(source=[source[s] for s in order], weights=edited.weights[:, order], lost=lost)


def _instead_of_stand_in(aligned: Aligned, number: int, hole: Hole, word: int | None) -> Iterator[_Edit]:
    """Replace the copy of a stand-in that attends most to the placeholder, source word ``word``; remove others."""
    pattern = rf"(?<!{_PART_OF_NAME}){hole.stand_in}(?!{_PART_OF_NAME})"
    copies = regex.finditer(pattern, aligned.text) if hole.stand_in else ()
    spans = sorted((Span(*copy.span()) for copy in copies), key=lambda span: -_attention(aligned, span, word))
    for span in spans[:1]:
        yield _Edit(*_around(aligned.text, span, hole), hole.text, number)
    for span in spans[1:]:
        yield _Edit(*span, "")


def _written_for(aligned: Aligned, word: int | None, free: set[int]) -> range | None:
    """The consecutive target words, all of them ``free``, that the model wrote for source word ``word``, if any."""
    weights = aligned.weights
    own = {t for t in free if word is not None and weights[t, word] > 0 and weights[t].argmax() == word}
    if not own:
        return None
    first = last = max(own, key=lambda t: float(weights[t, word]))
    while first - 1 in own:
        first -= 1
    while last + 1 in own:
        last += 1
    return range(first, last + 1)


def _guessed(aligned: Aligned, number: int, hole: Hole, word: int | None, edits: Sequence[_Edit]) -> list[_Edit]:
    """Insert a placeholder after the target word that attends most to the source word before it, after ``edits``."""
    text, target, weights = aligned.text, aligned.target, aligned.weights
    before = max(range(len(target)), key=lambda t: weights[t, word - 1], default=None) if word else None
    place = target[before].end if before is not None else 0 if hole.place.start == 0 else len(text)
    place = max([place, *(edit.end for edit in edits if edit.start < place < edit.end)])
    start, end = _around(text, Span(place, place), hole)
    space = " " if start and not (text[start - 1].isspace() or hole.joined[0]) else ""
    after = " " if text[end : end + 1].isalnum() and not hole.joined[1] else ""
    return [_Edit(start, start, space), _Edit(start, end, hole.text, number), _Edit(end, end, after)]


def warn_of_lost(place: str, filled: Aligned) -> None:
    """Warn of placeholders that the model omitted in the line or paragraph ``place``."""
    for text in filled.lost:
        log.warning("%s: the model omitted %s, so its position is a guess: %s", place, text, filled.text)


def _around(text: str, span: Span, hole: Hole) -> Span:
    """A span of a translation, with the spaces beside it that the placeholder does not have."""
    start = span.start - (hole.joined[0] and text.endswith(" ", 0, span.start))
    return Span(start, span.end + (hole.joined[1] and text.startswith(" ", span.end)))


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _attention(aligned: Aligned, span: Span, word: int | None) -> float:
    """The attention to a source word of the target words in a span of the translation."""
    if word is None:
        return 0.0
    return float(sum(aligned.weights[t, word] for t, other in enumerate(aligned.target) if _overlap(span, other)))


def _edited(aligned: Aligned, edits: Sequence[_Edit]) -> Aligned:
    """The translation after these edits, which are in order. The first source words are the placeholders.

    A placeholder is a target word that attends to its own source word only.
    """
    text, done = "", 0
    rows = list[tuple[Span, Floats]]()
    waiting = list(zip(aligned.target, aligned.weights, strict=True))[::-1]
    for edit in [*edits, _Edit(len(aligned.text), len(aligned.text), "")]:
        while waiting and waiting[-1][0].end <= edit.start:
            span, row = waiting.pop()
            rows.append((Span(span.start - done + len(text), span.end - done + len(text)), row))
        while waiting and waiting[-1][0].start < edit.end:
            waiting.pop()
        text += aligned.text[done : edit.start]
        done = max(done, edit.end)
        if edit.hole is not None and edit.text:
            row = np.zeros(len(aligned.source), np.float32)
            row[edit.hole] = 1
            rows.append((Span(len(text), len(text) + len(edit.text)), row))
        text += edit.text
    weights = np.array([row for _, row in rows], np.float32).reshape(len(rows), len(aligned.source))
    return Aligned(text, aligned.source, [span for span, _ in rows], weights)
