"""Unknown words: their source positions and replacements (PosUnk, Luong et al. 2015).

An unknown target word at position j aligned to the source word at position i becomes ``unkpos_d`` with d = j - i if
|d| <= 7, else ``unkpos_null``. Positions count words.
"""

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from nmtkit.align.lexicon import Lexicon
from nmtkit.align.pharaoh import Link
from nmtkit.symbols import FARTHEST, SPELLINGS, UNK, UNKPOS
from nmtkit.text.casing import capitalised, is_capitalised
from nmtkit.text.reversible import JOINER
from nmtkit.text.scripts import TERMINAL

UNKNOWN = frozenset((SPELLINGS[UNK], *UNKPOS))  # every spelling of an unknown word

_DISTANCES = {spelling: d for d, spelling in enumerate(UNKPOS[:-1], -FARTHEST)}
_NULL = UNKPOS[-1]

LEAST = 0.02  # minimum attention weight for a source word to be a candidate
_LEAST_WEIGHT = 0.055  # minimum weight of a source word, because links to known words may all be wrong
_NEAR = {0: 1.0, 1: 0.5, 2: 0.25}  # by distance from an explicit position

_SENTENCE_END = regex.compile(TERMINAL)
_BEFORE_CAPITAL = regex.compile(f"{TERMINAL}|:")
OPENING = frozenset("([\"'“‘„‚«‹»›¿¡-–—―•")  # may precede the first word of a sentence

# Numbers, dates and times; e-mail addresses; URLs.
_AS_TYPED = re.compile(r"[+-]?\d+(?:[.,:/’'-]\d+)*%?|[^@\s]+@[^@\s]+\.[^@\s]+|(?:[a-z]+://|www\.)\S+", re.IGNORECASE)


class Unknown(NamedTuple):
    """Numbers of unknown words by kind of replacement."""

    translated: int | None  # by the lexicon; None if that is not known
    copied: int | None  # from the source
    left: int  # as <unk>, because no source word was found


class Replacement(NamedTuple):
    """The replacement of one unknown word."""

    target: int  # position
    source: int | None  # position of its source word; None if there is none and <unk> is left
    translated: bool  # by the lexicon; otherwise copied


def counts(replacements: Iterable[Replacement]) -> Unknown:
    """The numbers of unknown words translated, copied and left."""
    every = list(replacements)
    placed = [each.translated for each in every if each.source is not None]
    return Unknown(sum(placed), len(placed) - sum(placed), len(every) - len(placed))


def nearest(links: Iterable[Link]) -> dict[int, int]:
    """One source word for each linked target word: the nearest one, on a tie the left one (our choice)."""
    # The last entry of a key wins, so the nearest comes last.
    return dict(sorted(((t, s) for s, t in links), key=lambda link: (-abs(link[0] - link[1]), -link[1])))


def annotate(ids: Sequence[int], links: Iterable[Link]) -> list[int]:
    """The ids of a target sentence with every UNK replaced by the symbol of its source position."""
    numbers = {t: FARTHEST + t - s for t, s in nearest(links).items() if abs(t - s) <= FARTHEST}
    null = UNKPOS.index(_NULL)
    return [len(SPELLINGS) + numbers.get(t, null) if id == UNK else id for t, id in enumerate(ids)]


def replace_unknown(
    target: Sequence[str],
    links: Iterable[Link],
    read: Sequence[str],
    written: Sequence[str],
    lexicon: Mapping[str, str],
) -> tuple[list[str], list[Replacement]]:
    """Replace each unknown word of ``target`` with the lexicon's translation of its source word, else with a copy.

    The papers' rule: ``unkpos_d`` gives the source position, or a link for ``<unk>``, which stays if it has no link.
    read: source words as in the lexicon; written: as the user typed them.
    """
    named = _named(target, links, len(read))
    entries = {s: lexicon[read[s]] for s in named.values() if read[s] in lexicon}
    origins = {t: named.get(t) for t, word in enumerate(target) if word in UNKNOWN}
    return _replaced(target, origins, entries, written, capitals=False)


@dataclass(frozen=True)
class Matcher:
    """Replaces unknown words like ``replace_unknown``, but matches them to plausible source words.

    A source word whose translation is in the target vocabulary is not plausible: the model would have produced that
    translation. (The attention of a recurrent encoder is often off by one word.) It is matched only if no other source
    word is left, weighted by the share of its links to unknown words. Punctuation that the vocabulary has is never
    matched. Numbers and addresses are copied. The first word of a source sentence is looked up in lower case if the
    lexicon lacks it.
    """

    lexicon: Lexicon
    known: Container[str]  # the target vocabulary
    capitals: bool  # target sentences begin with a capital, so translations there get one

    @cached_property
    def weights(self) -> Mapping[str, float]:
        """The weight of each source word of the lexicon: the square root of the share of its links to unknown words.

        The square root (chosen on development text) lets attention, which is more reliable, count more.
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

        looks: attention weights (S + 1,) of unknown words by target position, that of EOS last. Other unknown words
        get their source positions from symbols of ``UNKPOS`` or from ``links``.
        """
        unknown = [t for t, word in enumerate(target) if word in UNKNOWN]
        if not unknown:
            return list(target), []
        best, known = self.lexicon.best, self.known
        # Source words whose best translation is not in the vocabulary.
        free = [s for s, word in enumerate(read) if (best.get(self._key(read, s)) or word) not in known]
        marks = {s for s, word in enumerate(read) if not any(map(str.isalnum, word))}.difference(free)
        looks = {t: [0.0 if s in marks else weight for s, weight in enumerate(row)] for t, row in looks.items()}
        # With a position instead of attention, only its neighbourhood is searched.
        nearby = looks if len(looks) == len(unknown) else nearness(target, links, len(read)) | looks
        origins = match(nearby, dict.fromkeys(free, 1.0))
        if len(origins) < len(unknown):
            weights, used = self.weights, set(origins.values())
            likely = {
                s: weights.get(word) or weights.get(self._key(read, s), _LEAST_WEIGHT)
                for s, word in enumerate(read)
                if s not in used
            }
            origins |= match({t: row for t, row in looks.items() if t not in origins}, likely)
        if len(origins) < len(unknown):
            named = _named(target, [*links, *most_looked_at(looks)], len(read))
            origins = {t: s for t, s in named.items() if s not in marks} | origins
        entries = {
            s: entry
            for s in origins.values()
            if (entry := best.get(self._key(read, s))) and not _AS_TYPED.fullmatch(written[s])
        }
        return _replaced(target, {t: origins.get(t) for t in unknown}, entries, written, self.capitals)

    def _key(self, read: Sequence[str], s: int) -> str:
        """The lexicon's key for the source word at position s."""
        word = read[s]
        return word if word in self.lexicon.best or not _begins(read, s) else word[:1].lower() + word[1:]


def match(looks: Mapping[int, Sequence[float]], weights: Mapping[int, float]) -> dict[int, int]:
    """The source positions of unknown target words, matched greedily by attention weight times ``weights``.

    Each source word is used at most once, and only with an attention weight of at least ``LEAST``.
    """
    pairs = [(-row[s] * w, t, s) for t, row in looks.items() for s, w in weights.items() if row[s] >= LEAST]
    origins, used = dict[int, int](), set[int]()
    for _, t, s in sorted(pairs):
        if t not in origins and s not in used:
            origins[t] = s
            used.add(s)
    return origins


def _begins(words: Sequence[str], place: int, after: regex.Pattern[str] = _SENTENCE_END) -> bool:
    """True if a sentence begins at this position: the first word, or after sentence-final punctuation."""
    while place and words[place - 1].strip(JOINER) in OPENING:
        place -= 1
    return place == 0 or after.fullmatch(words[place - 1].strip(JOINER)) is not None


def respelled(
    target: Sequence[str],
    looks: npt.NDArray[np.float32],
    read: Sequence[str],
    written: Sequence[str],
    split: Sequence[bool],
    lexicon: Lexicon,
) -> dict[int, tuple[int, int]]:
    """Names of a source (S words) that a subword model may misspell, with the target range (end excluded) to replace.

    A name is a capitalised word that is ``split`` (S,) into subwords and not in the lexicon: it is rare in the training
    data, so the model guesses its spelling. Words at the beginning of a sentence or after a colon are left out, because
    they have capitals without being names: of 262 copies of such words in six texts, 10 were right. A copy replaces the
    target word with the highest attention weight on the name and the neighbours that also attend to it, but never a
    word that is a source word itself or, in the lexicon, the translation of one. Names that are already in the target
    are skipped. looks (T, S): attention weights. read, written (S,): as in ``replace_unknown``.
    """
    best = lexicon.best
    capitals = [s for s, word in enumerate(written) if split[s] and is_capitalised(word)]
    capitals = [s for s in capitals if not _begins(written, s, _BEFORE_CAPITAL)]
    names = [s for s in capitals if written[s] not in target and {read[s], read[s].lower()}.isdisjoint(best)]
    if not names:
        return {}
    right = {translation for word in read for translation in lexicon.translations.get(word, ())}
    # If the target has a word more often than the source, some of its occurrences may be wrong.
    right |= {word for word in target if target.count(word) <= written.count(word)}
    free = [word not in right and any(map(str.isalnum, word)) for word in target]
    places = dict[int, tuple[int, int]]()
    for s in names:
        candidate = [unused and weight >= LEAST for unused, weight in zip(free, looks[:, s].tolist(), strict=True)]
        if any(candidate):
            start = max((t for t, possible in enumerate(candidate) if possible), key=lambda t: looks[t, s])
            end = start + 1
            while start and candidate[start - 1]:
                start -= 1
            while end < len(candidate) and candidate[end]:
                end += 1
            places[s] = start, end
            free[start:end] = [False] * (end - start)
    return places


def most_looked_at(looks: Mapping[int, Sequence[float]]) -> list[Link]:
    """Links of target words to the source words of highest attention weight; ``looks`` has the weights (S + 1,).

    A word whose highest weight is 0, or on EOS, the last, has no link.
    """
    return [(s, t) for t, row in looks.items() if (top := max(row)) and (s := row.index(top)) < len(row) - 1]


def nearness(target: Sequence[str], links: Iterable[Link], words: int) -> dict[int, list[float]]:
    """Pseudo-attention (S,) of unknown words with an explicit position: 1 at this position, less next to it."""
    places = [(t, s) for s, t in links if target[t] == SPELLINGS[UNK]]
    places += [(t, _place(word, t)) for t, word in enumerate(target) if word in _DISTANCES]
    looks = dict[int, list[float]]()
    for t, place in places:
        row = looks.setdefault(t, [0.0] * words)
        for s, near in enumerate(row):
            row[s] = max(near, _NEAR.get(abs(s - place), 0.0))
    return looks


def _named(target: Sequence[str], links: Iterable[Link], words: int) -> dict[int, int]:
    """The source position of each unknown target word that has one, by the papers' rule."""
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
    """``target`` with every unknown word replaced with the lexicon entry of its source word, else with a copy.

    entries: by source position. capitals: capitalise entries at the beginning of a sentence.
    """
    words, replacements = list(target), list[Replacement]()
    for t, s in origins.items():
        entry = None if s is None else entries.get(s)
        if s is None:
            words[t] = SPELLINGS[UNK]
        elif entry is None:
            words[t] = written[s]
        else:
            words[t] = capitalised(entry, "") if capitals and _begins(words, t) else entry
        replacements.append(Replacement(t, s, entry is not None))
    return words, replacements


def _place(symbol: str, t: int) -> int:
    """The source position of a symbol of ``UNKPOS`` at target position t; it may be outside the sentence."""
    return -1 if symbol == _NULL else t - _DISTANCES[symbol]
