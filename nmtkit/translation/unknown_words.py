"""Replacement of unknown words, and copying of names that subwords misspelled."""

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nmtkit.align.lexicon import NO_LEXICON, Lexicon
from nmtkit.align.posunk import UNKNOWN, Matcher, Replacement, most_looked_at, replace_unknown, respelled
from nmtkit.data.vocab import Vocabulary
from nmtkit.search.beam import Floats
from nmtkit.symbols import SPELLINGS, UNK, UNKPOS
from nmtkit.text.casing import capitalises_nouns
from nmtkit.text.pipeline import TextPipeline, is_subword
from nmtkit.text.scripts import wrong_script
from nmtkit.text.sentencepieces import MARK
from nmtkit.translation.request import UnkOrigin


@dataclass(frozen=True)
class UnknownWords:
    """Replaces the unknown words of translations into the words of ``vocab``."""

    reader: TextPipeline  # of the source, whose tokens attention is over
    writer: TextPipeline  # of the target
    vocab: Vocabulary  # of the target
    lexicon: Lexicon | None

    def replace(
        self,
        tokens: list[str],
        fixed: Set[int],
        attention: Floats | None,
        source: list[str],
        written: list[str],
        origin: UnkOrigin | None,
    ) -> tuple[list[str], list[Replacement]]:
        """The tokens (T,) with the unknown words replaced, and each replacement.

        fixed: positions of prefixes and terms, which names must not replace. attention: (T + 1, S + 1), if available.
        source: tokens (S,); written: surface words. origin: as ``Request.unk_origin``.

        A copied name takes the position of the first token that it replaces; the others become "".
        """
        unknown = [t for t, token in enumerate(tokens) if token in UNKNOWN]
        words, replaced = tokens, list[Replacement]()
        if unknown:
            # Subwords have no other spelling.
            spelled = source if self.reader.segmenter else written
            # Source positions predicted by an annotated model take precedence over attention.
            looks = dict[int, list[float]]()
            if attention is not None:
                looks = {t: attention[t].tolist() for t in unknown if tokens[t] in (SPELLINGS[UNK], UNKPOS[-1])}
            if origin == "papers":
                best = self._lexicon_of_tokens.best
                words, replaced = replace_unknown(tokens, most_looked_at(looks), source, spelled, best)
            else:
                words, replaced = self._matcher.replace(tokens, [], looks, source, spelled)
        # The papers' rule copies only unknown words.
        if self.reader.segmenter and attention is not None and origin != "papers":
            words, replaced = self._respelled(words, fixed, replaced, attention, source, written)
        return words, replaced

    def _respelled(
        self,
        tokens: list[str],
        fixed: Set[int],
        replaced: list[Replacement],
        attention: Floats,
        source: list[str],
        written: list[str],
    ) -> tuple[list[str], list[Replacement]]:
        """The tokens (T,) with misspelled names copied, and all replacements so far."""
        # Without a lexicon of whole words, names cannot be recognised.
        if self.lexicon is None or self.lexicon_has_pieces or not tokens or not source:
            return tokens, replaced
        if capitalises_nouns(self.reader.side.language):  # of 397 copies of German words, 18 were right (Multi30k)
            return tokens, replaced
        src, tgt = _first_pieces(source, self.reader), _first_pieces(tokens, self.writer)
        looks = np.add.reduceat(np.add.reduceat(attention[:-1, :-1], src, axis=1), tgt, axis=0)
        looks /= np.diff([*tgt, len(tokens)])[:, None]
        looks[[place in fixed for place in tgt]] = 0  # a name is copied only to positions that attend to it
        # A name in another script, such as Cyrillic in English, is not a misspelling; the model transliterates it.
        language, sizes = self.writer.side.language, np.diff([*src, len(source)])
        split = [size > 1 and not wrong_script(word, language) for size, word in zip(sizes, written, strict=False)]
        target = self.writer.words(tokens)
        # A SentencePiece mark without letters belongs to no word.
        copies = respelled(target, looks[: len(target)], self.reader.words(source), written, split, self.lexicon)
        words = list(tokens)
        for s, (first, end) in copies.items():
            start, stop = tgt[first], [*tgt, len(tokens)][end]
            words[start:stop] = [self._marks[1] + written[s], *[""] * (stop - start - 1)]
            replaced = [each for each in replaced if not start <= each.target < stop]
            replaced.append(Replacement(start, src[s], False))
        return words, sorted(replaced)

    @cached_property
    def lexicon_has_pieces(self) -> bool:
        """True if some words of the lexicon are subwords of BPE or SentencePiece."""
        return self.lexicon is not None and any(map(is_subword, self.lexicon.translations))

    @cached_property
    def _marks(self) -> tuple[str, str]:
        """The prefix of a whole word as a source token and as a target token."""
        src, tgt = (MARK if each.side.segmentation == "sentencepiece" else "" for each in (self.reader, self.writer))
        return src, tgt

    @cached_property
    def _lexicon_of_tokens(self) -> Lexicon:
        """The lexicon with its words as tokens."""
        own, (src, tgt) = self.lexicon or NO_LEXICON, self._marks
        if not (src or tgt):
            return own
        entries = own.translations.items()
        return Lexicon(own.name, lambda: {src + w: {tgt + t: p for t, p in each.items()} for w, each in entries})

    @cached_property
    def _matcher(self) -> Matcher:
        """Replaces unknown words unless the papers' rule is requested."""
        # Truecased text gets its capitals in postprocessing.
        return Matcher(
            self._lexicon_of_tokens, self.vocab.known, capitals=not self.writer.side.truecase and self.vocab.capitals
        )


def _first_pieces(pieces: list[str], pipeline: TextPipeline) -> list[int]:
    """The position of the first subword of each word."""
    numbers = pipeline.word_numbers(pieces)
    return [place for place, number in enumerate(numbers) if place == 0 or number > numbers[place - 1]]
