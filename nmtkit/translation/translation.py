"""Translation: the translation of a line with scores and alignment; Writer: builds translations from hypotheses."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nmtkit.align.lexicon import Lexicon
from nmtkit.align.posunk import Replacement, Unknown, counts, most_looked_at
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.search.beam import Floats, Hypothesis
from nmtkit.search.constraints import Edges
from nmtkit.search.settings import Search
from nmtkit.text.pipeline import TextPipeline
from nmtkit.translation.glossary import Occurrence, met
from nmtkit.translation.pieces import Met, Part
from nmtkit.translation.request import Request
from nmtkit.translation.unknown_words import UnknownWords

DOUBTFUL = 0.3  # translations of lower quality should be checked; see recipes/terms/README.md for the figures


@dataclass(frozen=True, repr=False)
class Translation:
    """A translation of one line, with T tokens from S source tokens. ``str`` gives the text."""

    text: str  # one line, without line end
    score: float  # log-probability (base e) with penalties, or the utility of minimum Bayes risk decoding
    tokens: list[str]  # (T,) as produced by the model; those of a prefix as given
    written: list[str]  # (T,) the same with unknown words replaced, if requested; "" where one name replaces several
    log_probs: list[float]  # (T + 1,) of the tokens and EOS; for a line in pieces, the last is the sum over all EOS
    source: list[str]  # (S,) as read by the model; by the first member of an ensemble
    alignment: list[tuple[int, int]] | None  # (source word, word of ``text``), counted from 0
    looks: tuple[Floats, ...] | None  # attention weights of each piece, (tokens + 1, source tokens + 1) of that piece
    pieces: int  # number of pieces in which the line was translated
    replaced: list[Replacement] | None  # the replacement of each unknown word, if requested
    terms: list[Met] | None  # the terms of the line in source order, if requested
    seen: float | None  # mean over source tokens of the highest attention weight on each, if requested

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translation {self.text!r}, score {self.score:.3f}>"

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole translation."""
        return sum(self.log_probs)

    @property
    def quality(self) -> float:
        """The model's confidence from 0 to 1: exp(mean log P of a token - (1 - ``seen``) / 2).

        Without attention, or without ``Request.quality``, it is exp(mean log P). It correlates with quality slightly
        better than the mean alone (recipes/terms/README.md). Fomicheva et al. 2020 (TACL, Unsupervised quality
        estimation) compare the mean with other measures; Rikters and Fishel 2017 derive confidence from attention.
        """
        return math.exp(self.log_prob / len(self.log_probs) - (0.0 if self.seen is None else (1 - self.seen) / 2))

    @property
    def unknown(self) -> Unknown | None:
        """How many unknown words were translated, copied and left, if replacement was requested."""
        return None if self.replaced is None else counts(self.replaced)

    @property
    def attention(self) -> Floats | None:
        """Attention weights (T + 1, S + 1), EOS last, if requested; every row sums to 1.

        In a line translated in pieces, a token has weights only on its own piece and on EOS.
        """
        if self.looks is None:
            return None
        if self.pieces == 1:
            return self.looks[0]
        whole = np.zeros((len(self.tokens) + 1, len(self.source) + 1), np.float32)
        t = s = 0
        for look in self.looks:
            # The EOS of all pieces share a column; only that of the last piece has a row.
            rows, columns = look.shape[0] - 1, look.shape[1] - 1
            whole[t : t + rows, s : s + columns] = look[:-1, :-1]
            whole[t : t + rows, -1] = look[:-1, -1]
            t, s = t + rows, s + columns
        whole[-1, s - columns :] = look[-1]
        return whole


@dataclass(frozen=True)
class Writer:
    """Converts the hypotheses of the pieces of a line to parts of its translation, and joins the parts."""

    src_pipeline: TextPipeline  # of the tokens that attention is over
    tgt_pipeline: TextPipeline
    tgt_vocab: Vocabulary
    lexicon: Lexicon | None  # for unknown words
    edges: Edges  # of target words

    @cached_property
    def unknown_words(self) -> UnknownWords:
        """The replacement of unknown words."""
        return UnknownWords(self.src_pipeline, self.tgt_pipeline, self.tgt_vocab, self.lexicon)

    def part(
        self,
        hypothesis: Hypothesis,
        request: Request,
        source: list[str],
        written: list[str],
        given: list[str],
        terms: Sequence[Occurrence],
    ) -> Part:
        """The part of a translation given by a hypothesis.

        source: tokens of the piece; written: its surface words; given: tokens of the prefix, which keep their spelling
        even if they are unknown; terms: those of the piece, which also keep their spelling.
        """
        given = given[: len(hypothesis.ids)]  # a blank line has a blank translation, with any prefix
        tokens = words = [*given, *self.tgt_vocab.tokens(hypothesis.ids[len(given) :])]
        fixed, found = set(range(len(given))), list[Met]()
        for term, place, spelling in met(terms, hypothesis.ids, self.edges):
            tokens[place : place + len(spelling)] = spelling
            fixed.update(range(place, place + len(spelling)))
            found.append(term)
        replaced: list[Replacement] | None = None
        blind = bool(tokens) and hypothesis.attention is None
        # Checked only now, because the configuration does not tell whether a model has attention.
        if blind and (request.alignment or request.attention):
            raise UserError("this model cannot align words: it has no attention")
        aligned = hypothesis.attention if request.alignment else None
        links = [] if aligned is None else most_looked_at(dict(enumerate(aligned[:-1].tolist())))
        if request.replace_unk:
            if blind and not self.tgt_vocab.annotated:
                raise UserError(
                    "this model cannot replace unknown words: it has no attention to find their source words; "
                    "train it on a data folder whose vocabulary marks these (`unkpos`)"
                )
            words, replaced = self.unknown_words.replace(
                tokens, fixed, hypothesis.attention, source, written, request.unk_origin
            )
        kept = hypothesis.attention if request.attention else None
        looked = hypothesis.attention if request.quality else None
        seen = None if looked is None else float(looked[:, :-1].max(axis=0).sum())
        return Part(tokens, words, replaced, hypothesis.score, hypothesis.log_probs, links, kept, found, seen)

    def whole(
        self, parts: Sequence[Part], request: Request, search: Search, sources: Sequence[list[str]]
    ) -> Translation:
        """The translation of a line from the parts of its pieces, whose source tokens are ``sources``."""
        parts = list(_placed(parts, sources))
        tokens = [token for part in parts for token in part.tokens]
        source = [token for read in sources for token in read]
        score, log_probs = parts[0].score, parts[0].log_probs
        if len(parts) > 1:  # a single part keeps its exact score
            log_probs = [log_prob for part in parts for log_prob in part.log_probs[:-1]]
            log_probs.append(sum(part.log_probs[-1] for part in parts))
            # The score of a part minus its length-penalised log-probability is its coverage penalty.
            coverage = sum(p.score - search.score(sum(p.log_probs), len(p.log_probs)) for p in parts)
            score = search.score(sum(log_probs), len(log_probs)) + (coverage if search.coverage_penalty else 0.0)
        written = list[str]()
        for part in parts:
            written += part.written if request.tokenized else self.tgt_pipeline.following(written, part.written)
        links = [link for part in parts for link in part.links]
        if request.alignment:
            links = self._of_words(links, source, written, request.tokenized)
        replaced = [each for part in parts for each in part.replaced or ()]
        seen = [part.seen for part in parts if part.seen is not None]
        looks = tuple(part.attention for part in parts if part.attention is not None)
        return Translation(
            text=self._text(written, request.tokenized),
            score=score,
            tokens=tokens,
            written=written,
            log_probs=log_probs,
            source=source,
            alignment=links if request.alignment else None,
            looks=looks or None,
            pieces=len(parts),
            replaced=replaced if request.replace_unk else None,
            seen=sum(seen) / len(source) if seen and source else None,
            terms=None if request.terms is None else [term for part in parts for term in part.terms],
        )

    def _of_words(
        self, links: Sequence[tuple[int, int]], source: list[str], written: list[str], tokenized: bool
    ) -> list[tuple[int, int]]:
        """Links between tokens as links between words, or tokens, of the text; those of the parts of a word are merged.

        written: with "" where a copied name replaced several tokens, whose links become links to the name.
        """
        places = [count - 1 for count in itertools.accumulate(map(bool, written))]
        kept = [token for token in written if token]
        src_words, tgt_words, words = [*range(len(source))], [*range(len(kept))], len(kept)
        if not tokenized:
            src_words, tgt_words = self.src_pipeline.word_numbers(source), self.tgt_pipeline.word_numbers(kept)
            # A SentencePiece mark without letters belongs to no word.
            words = len(self.tgt_pipeline.words(kept))
        merged = {(src_words[i], tgt_words[places[j]]) for i, j in links}
        return sorted((pair for pair in merged if pair[1] < words), key=lambda pair: pair[::-1])

    def _text(self, tokens: list[str], tokenized: bool) -> str:
        """The tokens of a translation as one line of text; line ends in vocabulary or lexicon entries become spaces."""
        tokens = [token for token in tokens if token]  # "" where a copied name replaced several tokens
        text = " ".join(tokens) if tokenized or not tokens else self.tgt_pipeline.text(tokens)
        return text.replace("\r", " ").replace("\n", " ")


def _placed(parts: Sequence[Part], sources: Sequence[list[str]]) -> Iterator[Part]:
    """The parts of a line, with positions of links and replacements in the whole line."""
    s = t = 0
    for part, read in zip(parts, sources, strict=True):
        links = [(s + i, t + j) for i, j in part.links]
        replaced = [
            Replacement(t + each.target, None if each.source is None else s + each.source, each.translated)
            for each in part.replaced or ()
        ]
        yield part._replace(links=links, replaced=replaced)
        s, t = s + len(read), t + len(part.tokens)
