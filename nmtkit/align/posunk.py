"""Unknown words: where in the source they come from, and what to say instead (PosUnk, Luong et al. 2015).

An unknown target word at place j that is aligned to the source word at place i is ``unkpos_d`` with d = j - i, if
that is at most 7 places away; else ``unkpos_null``. Places are those of words, counted over the sentence.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from nmtkit.align.pharaoh import Link
from nmtkit.symbols import FARTHEST, SPELLINGS, UNK, UNKPOS

UNKNOWN = frozenset((SPELLINGS[UNK], *UNKPOS))  # every spelling of an unknown word

_DISTANCES = {spelling: d for d, spelling in enumerate(UNKPOS[:-1], -FARTHEST)}
_NULL = UNKPOS[-1]

LEAST = 0.02  # of a look, for a source word to be where an unknown word comes from
_NEAR = {0: 1.0, 1: 0.5, 2: 0.25}  # by distance; what is farther away from a named place is not meant

# Numbers, dates and times; e-mail addresses; URLs.
_AS_TYPED = re.compile(r"[+-]?\d+(?:[.,:/’'-]\d+)*%?|[^@\s]+@[^@\s]+\.[^@\s]+|(?:[a-z]+://|www\.)\S+", re.IGNORECASE)


class Unknown(NamedTuple):
    """The numbers of the unknown words of a text that were ..."""

    translated: int  # by the lexicon
    copied: int
    left: int  # as <unk>, since they come from nowhere


class Replacement(NamedTuple):
    """What became of one unknown word."""

    target: int  # its place
    source: int | None  # the place of the source word that it comes from; None: it comes from nowhere and is left
    translated: bool  # by the lexicon; otherwise the source word was copied


def counts(replacements: Iterable[Replacement]) -> Unknown:
    """The number of unknown words of each fate."""
    every = list(replacements)
    placed = [each.translated for each in every if each.source is not None]
    return Unknown(sum(placed), len(placed) - sum(placed), len(every) - len(placed))


def nearest(links: Iterable[Link]) -> dict[int, int]:
    """One source word for each linked target word: the nearest place, of two as near the left one (our ruling)."""
    # Of equal keys the last one stays in a dictionary, so the nearest comes last.
    return dict(sorted(((t, s) for s, t in links), key=lambda link: (-abs(link[0] - link[1]), -link[1])))


def annotate(ids: Sequence[int], links: Iterable[Link]) -> list[int]:
    """The ids of a target sentence in which every UNK says where it comes from."""
    source = nearest(links)
    return [_annotation(t, source.get(t)) if id == UNK else id for t, id in enumerate(ids)]


def _annotation(t: int, s: int | None) -> int:
    """The id of the symbol for an unknown word at place t that comes from the source word at place s, if from any."""
    if s is None or abs(t - s) > FARTHEST:
        return len(SPELLINGS) + UNKPOS.index(_NULL)
    return len(SPELLINGS) + FARTHEST + t - s


def replace_unknown(
    target: Sequence[str],
    links: Iterable[Link],
    read: Sequence[str],
    written: Sequence[str],
    lexicon: Mapping[str, str],
) -> tuple[list[str], list[Replacement]]:
    """``target`` with its unknown words replaced by the translation, else by a copy, of the source word of each.

    An ``unkpos_d`` says itself where that is, a plain ``<unk>`` has it from ``links``: the papers' rule. ``read`` are
    the source words as the lexicon spells them, ``written`` as the user did. Where there is no such place, ``<unk>``
    stays.
    """
    return _replaced(target, _named(target, links, len(read)), [lexicon.get(word) for word in read], written)


def match_unknown(
    target: Sequence[str],
    links: Iterable[Link],
    looks: Mapping[int, Sequence[float]],
    read: Sequence[str],
    written: Sequence[str],
    lexicon: Mapping[str, str],
    known: Container[str],
) -> tuple[list[str], list[Replacement]]:
    """``replace_unknown``, but from where the unknown words can come from; numbers and addresses are copied as typed.

    An unknown target word cannot come from a source word that becomes one of the ``known`` target words: the model
    could have written it. A recurrent encoder tells a word's neighbour as much of it as the word itself, so attention
    is often one place off. looks: how much each unknown word, by its place, looks at each source word (S,).
    """
    entries = [lexicon.get(word) for word in read]
    free = [(entry or word) not in known for entry, word in zip(entries, read, strict=True)]
    origins = match(_named(target, links, len(read)), looks, free)
    for s in origins.values():
        if _AS_TYPED.fullmatch(written[s]):
            entries[s] = None
    return _replaced(target, origins, entries, written)


def match(named: Mapping[int, int], looks: Mapping[int, Sequence[float]], free: Sequence[bool]) -> dict[int, int]:
    """The place of the source word that each unknown target word comes from.

    Pairs are matched by falling look, each source word at most once, among those that are ``free`` (S,) to be origins
    and have at least ``LEAST`` of the look. Where none is left, the place is the one that is ``named``, if any is.
    """
    places = [s for s, may_be in enumerate(free) if may_be]
    pairs = [(-row[s], t, s) for t, row in looks.items() for s in places if row[s] >= LEAST]
    origins, taken = dict[int, int](), set[int]()
    for _, t, s in sorted(pairs):
        if t not in origins and s not in taken:
            origins[t] = s
            taken.add(s)
    return {**named, **origins}


def nearness(target: Sequence[str], links: Iterable[Link], words: int) -> dict[int, list[float]]:
    """Looks (S,) of the unknown words of a model that names places, or of an alignment: 1 there, less beside it."""
    places = [(t, s) for s, t in links if target[t] == SPELLINGS[UNK]]
    places += [(t, _place(word, t)) for t, word in enumerate(target) if word in _DISTANCES]
    looks = dict[int, list[float]]()
    for t, place in places:
        row = looks.setdefault(t, [0.0] * words)
        for s, near in enumerate(row):
            row[s] = max(near, _NEAR.get(abs(s - place), 0.0))
    return looks


def _named(target: Sequence[str], links: Iterable[Link], words: int) -> dict[int, int]:
    """The place of each unknown target word's source word, where there is one, as the papers have it."""
    source = nearest(links)
    places = {
        t: source.get(t, -1) if word == SPELLINGS[UNK] else _place(word, t)
        for t, word in enumerate(target)
        if word in UNKNOWN
    }
    return {t: s for t, s in places.items() if 0 <= s < words}


def _replaced(
    target: Sequence[str], origins: Mapping[int, int], entries: Sequence[str | None], written: Sequence[str]
) -> tuple[list[str], list[Replacement]]:
    """``target`` with the lexicon's entries (S,), or else what is written (S,), at the origins of unknown words."""
    words, replacements = list(target), list[Replacement]()
    for t, word in enumerate(target):
        if word not in UNKNOWN:
            continue
        if t not in origins:
            words[t] = SPELLINGS[UNK]
            replacements.append(Replacement(t, None, False))
        else:
            entry = entries[origins[t]]
            words[t] = written[origins[t]] if entry is None else entry
            replacements.append(Replacement(t, origins[t], entry is not None))
    return words, replacements


def _place(symbol: str, t: int) -> int:
    """The place in the source that a symbol of ``UNKPOS`` at place t names; it may be outside the sentence."""
    return -1 if symbol == _NULL else t - _DISTANCES[symbol]
