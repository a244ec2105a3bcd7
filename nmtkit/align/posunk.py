"""Unknown words: where in the source they come from, and what to replace them by (PosUnk, Luong et al. 2015).

An unknown target word at place j that is aligned to the source word at place i is ``unkpos_d`` with d = j - i, if
that is at most 7 places away; else ``unkpos_null``. Places are those of words, counted over the sentence.
"""

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmtkit.align.lexicon import Lexicon
from nmtkit.align.pharaoh import Link
from nmtkit.symbols import FARTHEST, SPELLINGS, UNK, UNKPOS

UNKNOWN = frozenset((SPELLINGS[UNK], *UNKPOS))  # every spelling of an unknown word

_DISTANCES = {spelling: d for d, spelling in enumerate(UNKPOS[:-1], -FARTHEST)}
_NULL = UNKPOS[-1]

LEAST = 0.02  # of a look, for a source word to be where an unknown word comes from
_LEAST_WEIGHT = 0.055  # of a source word whose links all go to known words: links may be wrong
_NEAR = {0: 1.0, 1: 0.5, 2: 0.25}  # by distance; what is farther away from a named place is not meant

_SENTENCE_END = frozenset(".?!")
_OPENING = frozenset("([\"'“‘„‚«‹»›¿¡")  # what may stand before the first word of a sentence

# Numbers, dates and times; e-mail addresses; URLs.
_AS_TYPED = re.compile(r"[+-]?\d+(?:[.,:/’'-]\d+)*%?|[^@\s]+@[^@\s]+\.[^@\s]+|(?:[a-z]+://|www\.)\S+", re.IGNORECASE)


class Unknown(NamedTuple):
    """How many unknown words of a text were replaced, and how."""

    translated: int  # by the lexicon
    copied: int  # from the source
    left: int  # as <unk>, because no source word was found


class Replacement(NamedTuple):
    """What became of one unknown word."""

    target: int  # its place
    source: int | None  # the place of the source word that it comes from; None: it comes from nowhere and is left
    translated: bool  # by the lexicon; otherwise the source word was copied


def counts(replacements: Iterable[Replacement]) -> Unknown:
    """How many unknown words were translated, copied and left."""
    every = list(replacements)
    placed = [each.translated for each in every if each.source is not None]
    return Unknown(sum(placed), len(placed) - sum(placed), len(every) - len(placed))


def nearest(links: Iterable[Link]) -> dict[int, int]:
    """One source word for each linked target word: the nearest place, or of two equally near the left (our choice)."""
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
    named = _named(target, links, len(read))
    entries = {s: lexicon[read[s]] for s in named.values() if read[s] in lexicon}
    origins = {t: named.get(t) for t, word in enumerate(target) if word in UNKNOWN}
    return _replaced(target, origins, entries, written, capitals=False)


@dataclass(frozen=True)
class Matcher:
    """Replaces unknown words as ``replace_unknown``, but from where they can come from.

    An unknown target word cannot come from a source word that becomes one of the known target words: the model
    could have written it. A recurrent encoder tells a word's neighbour as much of it as the word itself, so attention
    is often one place off. Where no other source word is left, one whose best translation is known may have another
    that is not: it counts by the share of its links that go to unknown words. Numbers and addresses are copied as
    typed. A word that begins a sentence of the source, and that the lexicon does not have, is looked up without its
    capital.
    """

    lexicon: Lexicon
    known: Container[str]  # target words
    capitals: bool  # sentences of the target begin with one, and so do translations by the lexicon there

    @cached_property
    def _explained(self) -> Set[str]:
        """The source words whose best translation is known: most words of most sentences, so it is worth a set."""
        return {word for word, translation in self.lexicon.best.items() if (translation or word) in self.known}

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """The weight of each source word of the lexicon, by the share of its links that go to unknown words.

        Under the square root, because attention is the surer sign of the two; that was chosen on development text.
        """
        shares = {
            word: 1 - sum(probability for translation, probability in translations.items() if translation in self.known)
            for word, translations in self.lexicon.translations.items()
        }
        return {word: max(_LEAST_WEIGHT, math.sqrt(max(0.0, share))) for word, share in shares.items()}

    def replace(
        self,
        target: Sequence[str],
        links: Iterable[Link],
        looks: Mapping[int, Sequence[float]],
        read: Sequence[str],
        written: Sequence[str],
    ) -> tuple[list[str], list[Replacement]]:
        """``target`` with its unknown words replaced. links, read and written: as in ``replace_unknown``.

        looks: the attention weights (S + 1,) of unknown words, by their places, with the end-of-sentence mark's last.
        The others are named a place by a symbol of ``UNKPOS`` or by ``links``.
        """
        # This is done for every line: what is asked of most of its words is a look into a set or a dictionary.
        best, explained = self.lexicon.best, self._explained
        unknown = [t for t, word in enumerate(target) if word in UNKNOWN]
        free = [s for s, word in enumerate(read) if word not in explained and self._free(read, s)]
        # Where a model or an alignment has named a place instead, only its neighbourhood is searched.
        nearby = looks if len(looks) == len(unknown) else nearness(target, links, len(read)) | dict(looks)
        origins = match(nearby, dict.fromkeys(free, 1.0))
        if len(origins) < len(unknown):
            weights, taken = self.weights, set(origins.values())
            likely = {
                s: weights.get(word) or weights.get(self._key(read, s), _LEAST_WEIGHT)
                for s, word in enumerate(read)
                if s not in taken
            }
            origins |= match({t: row for t, row in looks.items() if t not in origins}, likely)
        if len(origins) < len(unknown):
            origins = _named(target, [*links, *most_looked_at(looks)], len(read)) | origins
        entries = {
            s: entry
            for s in origins.values()
            if (entry := best.get(self._key(read, s))) and not _AS_TYPED.fullmatch(written[s])
        }
        return _replaced(target, {t: origins.get(t) for t in unknown}, entries, written, self.capitals)

    def _key(self, read: Sequence[str], s: int) -> str:
        """The word at place s of a source, as it is looked up."""
        word = read[s]
        return word if word in self.lexicon.best or not _begins(read, s) else word[:1].lower() + word[1:]

    def _free(self, read: Sequence[str], s: int) -> bool:
        """True if an unknown word can come from place s of a source: what that becomes is not known."""
        return (self.lexicon.best.get(self._key(read, s)) or read[s]) not in self.known


def match(looks: Mapping[int, Sequence[float]], weights: Mapping[int, float]) -> dict[int, int]:
    """The place of the source word that each unknown target word comes from, as far as there are enough of them.

    Pairs are matched by falling look times weight, each source word at most once, among the places that have a weight,
    and at least ``LEAST`` of the look.
    """
    pairs = [(-row[s] * w, t, s) for t, row in looks.items() for s, w in weights.items() if row[s] >= LEAST]
    origins, taken = dict[int, int](), set[int]()
    for _, t, s in sorted(pairs):
        if t not in origins and s not in taken:
            origins[t] = s
            taken.add(s)
    return origins


def _begins(words: Sequence[str], place: int) -> bool:
    """True if a sentence begins at that place: at the first of the words, or after a mark that ends one."""
    while place and words[place - 1] in _OPENING:
        place -= 1
    return place == 0 or words[place - 1] in _SENTENCE_END


def respelled(
    target: Sequence[str],
    looks: npt.NDArray[np.float32],
    read: Sequence[str],
    written: Sequence[str],
    split: Sequence[bool],
    lexicon: Lexicon,
) -> dict[int, tuple[int, int]]:
    """The names of a source (S words) that a model of word pieces spelled wrong, and where each should be copied to.

    A name is a word with a capital that is ``split`` (S,) into pieces and that the lexicon does not have: the model has
    hardly seen it, and its spelling of it is a guess, often of another word. Its copy belongs to the target word that
    looks at it most, and to the neighbours of that which look at it, too: a range of places, end excluded. Words that
    the lexicon has as translations of other words of the source stay.

    looks (T, S): attention weights of target words to source words. read, written (S,): as in ``replace_unknown``. A
    name that stands in the target is right already.
    """
    best = lexicon.best
    names = [s for s, word in enumerate(written) if split[s] and word[0].isupper() and word not in target]
    names = [s for s in names if read[s] not in best and read[s].lower() not in best]
    if not names:
        return {}
    said = {translation for word in read for translation in lexicon.translations.get(word, ())}
    free = [word not in said and any(map(str.isalnum, word)) for word in target]
    places = dict[int, tuple[int, int]]()
    for s in names:
        able = [may_be and look >= LEAST for may_be, look in zip(free, looks[:, s].tolist(), strict=True)]
        if any(able):
            start = max((t for t, may_be in enumerate(able) if may_be), key=lambda t: looks[t, s])
            end = start + 1
            while start and able[start - 1]:
                start -= 1
            while end < len(able) and able[end]:
                end += 1
            places[s] = start, end
            free[start:end] = [False] * (end - start)
    return places


def most_looked_at(looks: Mapping[int, Sequence[float]]) -> list[Link]:
    """The target words with these attention weights (S + 1,), each with the source word that it looks at most.

    There is no link where that is the end-of-sentence mark, whose weight comes last.
    """
    return [(s, t) for t, row in looks.items() if (s := row.index(max(row))) < len(row) - 1]


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
    source = nearest((s, t) for s, t in links if target[t] == SPELLINGS[UNK])
    places = {
        t: source.get(t, -1) if word == SPELLINGS[UNK] else _place(word, t)
        for t, word in enumerate(target)
        if word in UNKNOWN
    }
    return {t: s for t, s in places.items() if 0 <= s < words}


def _replaced(
    target: Sequence[str],
    origins: Mapping[int, int | None],
    entries: Mapping[int, str],
    written: Sequence[str],
    capitals: bool,
) -> tuple[list[str], list[Replacement]]:
    """``target`` with the lexicon's entries, or else what is written (S,), at the origins of all unknown words.

    entries: by places in the source. capitals: an entry gets a capital where it begins a sentence.
    """
    words, replacements = list(target), list[Replacement]()
    for t, s in origins.items():
        entry = None if s is None else entries.get(s)
        if s is None:
            words[t] = SPELLINGS[UNK]
        elif entry is None:
            words[t] = written[s]
        else:
            words[t] = entry[0].upper() + entry[1:] if capitals and _begins(words, t) else entry
        replacements.append(Replacement(t, s, entry is not None))
    return words, replacements


def _place(symbol: str, t: int) -> int:
    """The place in the source that a symbol of ``UNKPOS`` at place t names; it may be outside the sentence."""
    return -1 if symbol == _NULL else t - _DISTANCES[symbol]
