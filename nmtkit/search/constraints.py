"""Constrained search: terms that a translation must contain, by dynamic beam allocation (Post and Vilar 2018, NAACL).

The hypotheses of a sentence are divided into banks by the number of words that their terms still need, and every bank
has a share of the beam. An automaton (the shift-and algorithm of Baeza-Yates and Gonnet 1992) tracks the terms that a
hypothesis contains, whether the model chose their words or search proposed them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from nmtkit.symbols import EOS, PAD

Integers: TypeAlias = npt.NDArray[np.int64]
WORD = 3.0  # log P that a word of a term may cost before a hypothesis without it is preferred

State: TypeAlias = tuple[int, int]  # two sets of bits: the places of forms that may come next, and the terms contained


class Form(NamedTuple):
    """One of the forms that a term may have."""

    ids: tuple[int, ...]  # at least one
    initial: bool  # whether it is allowed at the beginning of a sentence only, as with a capital


Term: TypeAlias = Sequence[Form]  # of which a translation must contain one; at least one of them is not initial


@dataclass(frozen=True)
class Edges:
    """Where words begin and end: a form is made of whole words."""

    unfinished: frozenset[int]  # ids after which the word goes on, as after the "@@" of BPE
    continuing: frozenset[int]  # ids that go on with a word, as those without the mark of SentencePiece
    final: frozenset[int]  # ids after which a sentence begins

    def places(self, ids: Sequence[int], form: Form) -> Iterator[int]:
        """Where a form begins in a translation."""
        for place in range(len(ids) - len(form.ids) + 1):
            before, after = ids[place - 1 : place] if place else (), ids[place + len(form.ids) :][:1]
            whole = self.unfinished.isdisjoint(before) and self.continuing.isdisjoint(after)
            allowed = not form.initial or not before or before[0] in self.final
            if whole and allowed and tuple(ids[place:][: len(form.ids)]) == form.ids:
                yield place


class Automaton:
    """The automaton of one sentence's terms: what a hypothesis contains of them, updated with each word.
    Each form has as many places as ids, then one for the beginning of the next word if ids may continue a word, then
    the place that says that the form is complete.
    """

    def __init__(self, terms: Sequence[Term], edges: Edges) -> None:
        self._edges = edges
        self._at: dict[int, int] = defaultdict(int)  # the places at which each id may come
        self._next_word = 0  # the places at which any id comes that continues no word
        self._words: list[int | None] = []  # at each place
        self._lacking: list[int] = []  # from each place to the end of its form
        self._begins = self._initial = 0  # the first places of forms
        self._terms: list[tuple[int, int, int]] = []  # places, complete places, words of the shortest form
        for forms in terms:
            first, complete = len(self._words), 0
            for form in forms:
                if form.initial:
                    self._initial |= 1 << len(self._words)
                else:
                    self._begins |= 1 << len(self._words)
                for left, id in enumerate(form.ids):
                    self._at[id] |= 1 << len(self._words)
                    self._words.append(id)
                    self._lacking.append(len(form.ids) - left)
                if edges.continuing:
                    self._next_word |= 1 << len(self._words)
                    self._words.append(None)
                    self._lacking.append(0)
                complete |= 1 << len(self._words)
                self._words.append(None)
                self._lacking.append(0)
            places = (1 << len(self._words)) - (1 << first)
            self._terms.append((places, complete, min(len(form.ids) for form in forms if not form.initial)))
        self._complete = sum(complete for _, complete, _ in self._terms)
        self.start: State = (self._begins | self._initial, 0)
        self._after: dict[tuple[State, int], State] = {}
        self._left: dict[State, tuple[int, int]] = {}
        self._proposed: dict[State, list[int]] = {}

    def after(self, state: State, word: int) -> State:
        """The state after a word."""
        found = self._after.get((state, word))
        if found is None:
            found = self._after[state, word] = self._step(state, word)
        return found

    def _step(self, state: State, word: int) -> State:
        expected, contained = state
        at = self._at.get(word, 0) | (0 if word in self._edges.continuing else self._next_word)
        moved = (expected & at) << 1
        for number, (_, complete, _) in enumerate(self._terms):
            if moved & complete:
                contained |= 1 << number
        begins = 0 if word in self._edges.unfinished else self._begins
        return moved & ~self._complete | begins | (self._initial if word in self._edges.final else 0), contained

    def left(self, state: State) -> tuple[int, int]:
        """The maximum and minimum number of words that a hypothesis needs for missing terms; EOS may follow 0.

        Maximum: one term after the other. Minimum: as if all terms shared their words.
        """
        found = self._left.get(state)
        if found is None:
            missing = self._missing(self.after(state, EOS)) and self._missing(state)
            lacking = [
                min((self._lacking[place] for place in _bits(state[0] & places)), default=shortest)
                for places, _, shortest in missing
            ]
            # In the middle of a word that belongs to none of them, one more id ends it.
            within = int(bool(missing) and not any(state[0] & places for places, _, _ in missing))
            found = self._left[state] = sum(lacking) + within, max(lacking, default=0) + within
        return found

    def proposed(self, state: State) -> list[int]:
        """The words that would begin or continue a missing term."""
        found = self._proposed.get(state)
        if found is None:
            missing = sum(places for places, _, _ in self._missing(state))
            words = (self._words[place] for place in _bits(state[0] & missing))
            found = self._proposed[state] = sorted({word for word in words if word is not None})
        return found

    def _missing(self, state: State) -> list[tuple[int, int, int]]:
        """The terms that a hypothesis does not contain."""
        return [term for number, term in enumerate(self._terms) if not state[1] >> number & 1]


def _bits(number: int) -> list[int]:
    """The places of the bits that are set."""
    return [place for place in range(number.bit_length()) if number >> place & 1]


@dataclass(frozen=True)
class Constraints:
    """The terms of each sentence."""

    terms: Sequence[Sequence[Term]]
    edges: Edges

    def words(self, batch: Sequence[int]) -> list[list[int]]:
        """The words of the terms of each sentence of a batch."""
        return [[id for term in self.terms[i] for form in term for id in form.ids] for i in batch]

    def met(self, i: int, ids: Sequence[int]) -> bool:
        """Whether the words of a translation of sentence i contain its terms."""
        return all(any(True for form in term for _ in self.edges.places(ids, form)) for term in self.terms[i])

    def automata(self, batch: Sequence[int], places: Mapping[int, int] | None) -> list[Automaton]:
        """The automaton of each sentence of a batch; places: those of ids in the shortlist that search has, if any."""
        edges, own = self.edges, [self.terms[i] for i in batch]
        if places is not None:
            sets = (edges.unfinished, edges.continuing, edges.final)
            edges = Edges(*(frozenset(places[id] for id in ids if id in places) for ids in sets))
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
        """Before the first word, with one row for each sentence; longest (B,): how many words it may have."""
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

        log_probs and words: (R, C) of its rows. ended: whether a hypothesis is finished, so that none is needed that
        cannot contain the terms.

        Every bank has the same share of the slots; unused slots go to the others. If there are more banks than
        slots, they are ranked by the log P of their best hypothesis and the words that it still needs, each worth
        ``-WORD``.
        """
        automaton, room, (rows, columns) = self.automata[i], self.rooms[i], log_probs.shape
        # Where the terms fit, where they may if they have words in common, and where they do not.
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
