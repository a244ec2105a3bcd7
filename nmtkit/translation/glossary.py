"""Terminology: the glossary terms in a line, their allowed translations, and those used in a translation."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from nmtkit.align.posunk import OPENING
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.search.constraints import Automaton, Edges, Form, Term
from nmtkit.symbols import UNK
from nmtkit.text.bpe import Segmenter
from nmtkit.text.casing import capitalised, lower
from nmtkit.text.pipeline import TextPipeline, letters
from nmtkit.text.sentencepieces import MARK, SentencePieces
from nmtkit.translation.pieces import SENTENCE_END, Met
from nmtkit.translation.request import FORMS, Terms


class Spelled(NamedTuple):
    """A form of a term in the target language."""

    text: str  # as in the glossary
    tokens: list[str]
    form: Form  # ids of the tokens; UNK for unknown ones


class Occurrence(NamedTuple):
    """A term in a line."""

    source: str  # as in the glossary
    start: int  # position of its first token in the line
    forms: list[Spelled]

    @property
    def term(self) -> Term:
        """The forms of the term, one of which the translation must contain."""
        return [each.form for each in self.forms]


@dataclass(frozen=True)
class Glossary:
    """Terms in a model's tokens.

    Raises UserError for a term without tokens on one side, as of control characters alone.
    """

    reader: TextPipeline
    writer: TextPipeline
    vocab: Vocabulary  # of the target
    terms: Terms
    tokenized: bool

    def __post_init__(self) -> None:
        for source, forms in self._targets.items():
            if not self._words[source] or not self._forms(source):
                raise UserError(f"`terms`: {source!r}, {FORMS.join(forms)!r}: has no words; leave it out")

    def found(self, tokens: list[str]) -> list[Occurrence]:
        """The terms of a line, each once, left to right without overlap; of terms with the same start, the longest.

        The first word of a sentence, also after an opening mark, may have a capital that it lacks in the glossary.
        """
        words, numbers = self.reader.words(tokens), self.reader.word_numbers(tokens)
        found, place = dict[str, Occurrence](), 0
        while place < len(words):
            source, length = self._longest(words, place)
            if source is not None and source not in found:
                found[source] = Occurrence(source, numbers.index(place), self._forms(source))
            place += length
        return list(found.values())

    def _longest(self, words: list[str], place: int) -> tuple[str | None, int]:
        """The longest term that begins at this word and its number of words, or None and 1."""
        firsts = [words[place]]
        before = next((word for word in map(letters, reversed(words[:place])) if word not in OPENING), None)
        if before is None or SENTENCE_END.search(before):
            firsts.append(_with_first(words[place], partial(lower, language=self.reader.side.case)))
        for first in firsts:
            for length, source in self._beginning.get(first, ()):
                if self._words[source][1:] == tuple(words[place + 1 : place + length]):
                    return source, length
        return None, 1

    @cached_property
    def _targets(self) -> dict[str, list[str]]:
        """The forms of each source term, in the order of the glossary."""
        targets = defaultdict[str, dict[str, None]](dict)
        for source, target in self.terms:
            targets[source].update(dict.fromkeys(form.strip() for form in target.split(FORMS)))
        return {source: list(forms) for source, forms in targets.items()}

    @cached_property
    def _words(self) -> dict[str, tuple[str, ...]]:
        """The words of each source term."""
        tokens = str.split if self.tokenized else self.reader.tokens
        return {source: tuple(self.reader.words(tokens(source))) for source in self._targets}

    @cached_property
    def _beginning(self) -> dict[str, list[tuple[int, str]]]:
        """The terms by first word, each with its number of words, longest first."""
        beginning = defaultdict[str, list[tuple[int, str]]](list)
        for source, words in self._words.items():
            if words:
                beginning[words[0]].append((len(words), source))
        return {first: sorted(terms, reverse=True) for first, terms in beginning.items()}

    def _forms(self, source: str) -> list[Spelled]:
        """The forms of a term, also with a capital for the beginning of a sentence."""
        forms, tokens = [], str.split if self.tokenized else self.writer.tokens
        for text in self._targets[source]:
            usual = tokens(text)
            capital = tokens(_with_first(text, partial(capitalised, language=self.writer.side.case)))
            forms.append(self._spelled(text, usual, initial=False))
            if capital != usual and UNK not in self.vocab.ids(capital):
                forms.append(self._spelled(text, capital, initial=True))
        return [form for form in forms if form.tokens]

    def _spelled(self, text: str, tokens: list[str], *, initial: bool) -> Spelled:
        return Spelled(text, tokens, Form(tuple(self.vocab.ids(tokens)), initial))


def edges_of(writer: TextPipeline, vocab: Vocabulary) -> Edges:
    """The tokens with which words and sentences of the target begin and end."""
    words = list(enumerate(vocab.words))[vocab.symbols :]
    unfinished = (i for i, word in words if isinstance(writer.segmenter, Segmenter) and word.endswith("@@"))
    continuing = (i for i, word in words if isinstance(writer.segmenter, SentencePieces) and not word.startswith(MARK))
    final = (i for i, word in words if SENTENCE_END.search(letters(word)))
    opening = (i for i, word in words if letters(word) in OPENING)
    return Edges(*map(frozenset, (unfinished, continuing, final, opening)))


def met(occurrences: Sequence[Occurrence], ids: Sequence[int], edges: Edges) -> Iterator[tuple[Met, int, list[str]]]:
    """For each term: its form in the translation, and the position and tokens of this form (none if it is missing)."""
    found = Automaton([occurrence.term for occurrence in occurrences], edges).places(ids)
    for number, occurrence in enumerate(occurrences):
        form, place = found.get(number, (None, 0))
        spelled = next((each for each in occurrence.forms if each.form == form), None)
        yield Met(occurrence.source, spelled and spelled.text), place, spelled.tokens if spelled else []


def _with_first(word: str, case: Callable[[str], str]) -> str:
    """The word with its first letter in another case."""
    return re.sub(r"\w", lambda letter: case(letter[0]), word, count=1)
