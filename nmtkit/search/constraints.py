"""Constrained search: terms that a translation must contain, by dynamic beam allocation (Post and Vilar 2018, NAACL).

The hypotheses of a sentence are divided into banks by the number of words that their terms still need, and every bank
has a share of the beam. An automaton (the shift-and algorithm of Baeza-Yates and Gonnet 1992) tracks the terms that a
hypothesis contains, whether the model chose their words or search proposed them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from nmtkit.symbols import EOS, PAD, UNK

Integers: TypeAlias = npt.NDArray[np.int64]
WORD = 3.0  # log P that a word of a term may cost before a hypothesis without it is preferred

# Two sets of bits: the places of forms that may come next, and the terms contained.
Possibility: TypeAlias = tuple[int, int]
State: TypeAlias = frozenset[Possibility]


class Form(NamedTuple):
    """One of the forms that a term may have."""

    ids: tuple[int, ...]  # at least one
    initial: bool  # whether it is allowed at the beginning of a sentence only, as with a capital


Term: TypeAlias = Sequence[Form]  # of which a translation must contain one; at least one of them is not initial


class Edges(NamedTuple):
    """Where words begin and end: a form is made of whole words."""

    unfinished: frozenset[int]  # ids after which the word goes on, as after the "@@" of BPE
    continuing: frozenset[int]  # ids that go on with a word, as those without the mark of SentencePiece
    final: frozenset[int]  # ids after which a sentence begins
    opening: frozenset[int]  # ids that may precede the first word of a sentence


class Automaton:
    """The automaton of one sentence's terms: it tracks how much of them a hypothesis contains, word by word.

    Each form has as many places as ids, then one for the beginning of the next word if ids may continue a word, then
    the place that says that the form is complete. Two terms never share an unknown word, because each spells it
    differently; which of them it belongs to may be open, so that a state is a set of possibilities.
    """

    def __init__(self, terms: Sequence[Term], edges: Edges) -> None:
        self._edges = edges
        self._at: dict[int, int] = defaultdict(int)  # the places at which each id may come
        self._next_word = 0  # the places at which any id comes that continues no word
        self._words: list[int | None] = []  # at each place
        self._lacking: list[int] = []  # from each place to the end of its form
        self._begins = self._initial = 0  # the first places of forms
        self._unknown = 0  # the places of forms with unknown words
        self._forms: dict[int, tuple[int, Form]] = {}  # the term and the form of each complete place
        self._terms: list[tuple[int, int, int]] = []  # places, length of the shortest form that is not initial, of any
        for number, forms in enumerate(terms):
            first = len(self._words)
            for form in forms:
                begin = len(self._words)
                self._words += [*form.ids, *([None, None] if edges.continuing else [None])]
                end = len(self._words)
                self._lacking += [max(0, begin + len(form.ids) - place) for place in range(begin, end)]
                self._forms[end - 1] = number, form
                if form.initial:
                    self._initial |= 1 << begin
                else:
                    self._begins |= 1 << begin
                for place, id in enumerate(form.ids, begin):
                    self._at[id] |= 1 << place
                if edges.continuing:
                    self._next_word |= 1 << (end - 2)
                if UNK in form.ids:
                    self._unknown |= (1 << end) - (1 << begin)
            places = (1 << len(self._words)) - (1 << first)
            anywhere = min(len(form.ids) for form in forms if not form.initial)
            self._terms.append((places, anywhere, min(len(form.ids) for form in forms)))
        self._complete = sum(1 << place for place in self._forms)
        # A form that ends before the current word leaves the others that begin with it.
        self._just_begun = (self._begins | self._initial) << 1 if edges.continuing else 0
        self.start: State = frozenset({(self._begins | self._initial, 0)})
        # Hypotheses have the same states again and again.
        self.after, self.left, self.proposed = cache(self._after), cache(self._left), cache(self._proposed)

    def _after(self, state: State, word: int) -> State:
        return frozenset(each for possible in state for each, _ in self._step(possible, word))

    def _step(self, possible: Possibility, word: int) -> Iterator[tuple[Possibility, list[int]]]:
        """What a possibility becomes with a word, and the complete places of the terms that it then contains."""
        expected, contained = possible
        at = self._at.get(word, 0) | (0 if word in self._edges.continuing else self._next_word)
        moved = (expected & at) << 1
        begins = 0 if word in self._edges.unfinished else self._begins
        begins |= self._initial if word in self._edges.final else 0
        begins |= self._initial & expected if word in self._edges.opening else 0
        complete, shared = list[int](), list[int]()
        for place in _bits(moved & self._complete):
            number, _ = self._forms[place]
            if not contained >> number & 1:
                (shared if self._unknown >> place & 1 else complete).append(place)
                contained |= 0 if self._unknown >> place & 1 else 1 << number
        moved &= ~self._complete
        yield (moved | begins, contained), complete
        for place in shared:
            number, _ = self._forms[place]
            if not contained >> number & 1:
                others = moved & ~(self._unknown & ~self._just_begun)
                yield (others | begins, contained | 1 << number), [*complete, place]

    def places(self, ids: Sequence[int]) -> dict[int, tuple[Form, int]]:
        """The form of each term in a translation and its position, by the term's number; as many terms as possible."""
        if not self._terms:  # most lines
            return {}
        paths: dict[Possibility, list[tuple[int, int]]] = {possible: [] for possible in self.start}
        for position, word in enumerate([*ids, EOS]):
            longer = dict[Possibility, list[tuple[int, int]]]()
            for possible, path in paths.items():
                for each, complete in self._step(possible, word):
                    longer.setdefault(each, path + [(place, position) for place in complete])
            paths = longer
        found = dict[int, tuple[Form, int]]()
        for place, position in max(paths.values(), key=len):
            number, form = self._forms[place]
            end = position if self._edges.continuing else position + 1
            found.setdefault(number, (form, end - len(form.ids)))
        return found

    def _left(self, state: State) -> tuple[int, int]:
        """The maximum and minimum number of words that a hypothesis needs for missing terms; EOS may follow 0.

        Maximum: one term after the other. Minimum: as if all terms shared their words.
        """
        if any(not self._missing(each) for each in self.after(state, EOS)):
            return 0, 0
        most, least = zip(*map(self._needs, state), strict=True)
        return min(most), min(least)

    def _needs(self, possible: Possibility) -> tuple[int, int]:
        """The maximum and minimum number of words that a possibility needs, at least one."""
        missing, expected = self._missing(possible), possible[0]
        # Of the begun forms with unknown words, only one can be completed from the words so far.
        alone = [self._lacks(expected & places & ~self._unknown, shortest) for places, shortest, _ in missing]
        begun = [self._lacks(expected & places, shortest) for places, shortest, _ in missing]
        shared = list(map(min, alone, begun))
        saved = max(lacks - less for lacks, less in zip(alone, shared, strict=True))
        # In the middle of a word that belongs to none of them, one more id ends it.
        within = int(not any(expected & places for places, _, _ in missing))
        least = max(map(min, shared, (shortest for _, _, shortest in missing)))
        return max(sum(alone) - saved + within, 1), max(least + within, 1)

    def _lacks(self, places: int, shortest: int) -> int:
        """The number of words from the last of the places to the end of its form; ``shortest`` without places."""
        return min((self._lacking[place] for place in _bits(places)), default=shortest)

    def _proposed(self, state: State) -> list[int]:
        """The words that would begin or continue a missing term."""
        expected = (each[0] & sum(places for places, _, _ in self._missing(each)) for each in state)
        words = {self._words[place] for places in expected for place in _bits(places)}
        return sorted(word for word in words if word is not None)

    def _missing(self, possible: Possibility) -> list[tuple[int, int, int]]:
        """The terms that a possibility does not contain."""
        return [term for number, term in enumerate(self._terms) if not possible[1] >> number & 1]


def _bits(number: int) -> list[int]:
    """The places of the bits that are set."""
    return [place for place in range(number.bit_length()) if number >> place & 1]


@dataclass(frozen=True)
class Constraints:
    """The terms of each sentence."""

    terms: Sequence[Sequence[Term]]
    edges: Edges

    def met(self, i: int, ids: Sequence[int]) -> bool:
        """Whether the words of a translation of sentence i contain its terms."""
        return len(Automaton(self.terms[i], self.edges).places(ids)) == len(self.terms[i])

    def automata(self, batch: Sequence[int], places: Mapping[int, int] | None) -> list[Automaton]:
        """The automaton of each sentence of a batch; places: those of ids in the shortlist that search has, if any."""
        edges, own = self.edges, [self.terms[i] for i in batch]
        if places is not None:
            edges = Edges(*(frozenset(places[id] for id in ids if id in places) for ids in edges))
            own = [
                [[form._replace(ids=tuple(places[id] for id in form.ids)) for form in term] for term in terms]
                for terms in own
            ]
        return [Automaton(terms, edges) for terms in own]


class Tracked(NamedTuple):
    """The terms that the hypotheses of a batch contain."""

    automata: Sequence[Automaton]  # (B,)
    states: Sequence[State]  # (N,)
    rooms: Sequence[int]  # (B,) how many words may follow the next one

    @classmethod
    def begin(cls, automata: Sequence[Automaton], longest: Sequence[int]) -> "Tracked":
        """Before the first word, with one row for each sentence; longest (B,): its maximum number of words."""
        return cls(automata, [automaton.start for automaton in automata], [words - 1 for words in longest])

    def after(self, kept: Integers, parents: Integers, words: Integers) -> "Tracked":
        """After the words (N',) that continue the rows ``parents`` (N',), of the sentences ``kept`` (B',)."""
        automata = [self.automata[i] for i in kept]
        rows = zip(_each(automata, len(words)), parents.tolist(), words.tolist(), strict=True)
        states = [automaton.after(self.states[row], word) for automaton, row, word in rows]
        return Tracked(automata, states, [self.rooms[i] - 1 for i in kept])

    def proposed(self) -> Integers:
        """The words (N, M) that would begin or continue missing terms; PAD where a row has fewer than M."""
        rows = zip(_each(self.automata, len(self.states)), self.states, strict=True)
        words = [automaton.proposed(state) for automaton, state in rows]
        longest = max(map(len, words))
        return np.array([row + [PAD] * (longest - len(row)) for row in words], np.int64)

    def allocate(
        self, i: int, log_probs: npt.NDArray[np.float32], words: Integers, slots: int, *, ended: bool
    ) -> list[int]:
        """Which candidates of sentence i survive, at most ``slots`` of them, best first.

        log_probs and words: (R, C) of its rows. ended: whether a hypothesis is finished, so that those that cannot
        contain the terms are not needed.

        Every bank has the same share of the slots; unused slots go to the others. If there are more banks than
        slots, they are ranked by the log P of their best hypothesis and the words that it still needs, each worth
        ``-WORD``.
        """
        automaton, room, (rows, columns) = self.automata[i], self.rooms[i], log_probs.shape
        # Candidates for which the terms fit, may fit if they share words, and do not fit.
        banks = [defaultdict[int, list[int]](list) for _ in range(3)]
        flat, of_words = log_probs.ravel(), words.ravel().tolist()
        for candidate in (-flat).argsort(kind="stable").tolist():
            if flat[candidate] == -np.inf:
                break
            most, least = automaton.left(
                automaton.after(self.states[i * rows + candidate // columns], of_words[candidate])
            )
            if not (most and of_words[candidate] == EOS):
                banks[(most > room) + (least > room)][most].append(candidate)
        fit, may_fit, do_not = (
            [of_bank for _, of_bank in sorted(bank.items(), key=lambda item: WORD * item[0] - flat[item[1][0]])]
            for bank in banks
        )
        chosen = fit + may_fit or ([] if ended else do_not)
        dealt = [of_bank[rank] for rank in range(slots) for of_bank in chosen if rank < len(of_bank)]
        return sorted(dealt[:slots], key=lambda candidate: -flat[candidate])


def _each(automata: Sequence[Automaton], rows: int) -> Iterator[Automaton]:
    """The automaton of each row."""
    return (automaton for automaton in automata for _ in range(rows // len(automata)))
