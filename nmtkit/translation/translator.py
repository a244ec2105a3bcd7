"""Translator: the main object for Python users. It takes lines and a Request, and returns translations.

Lines are tokenised and converted to ids, long ones in pieces; search finds hypotheses, which become translations.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from nmtkit.align.lexicon import Lexicon
from nmtkit.align.posunk import annotate
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError, counted, refuse_string
from nmtkit.evaluation.forced import score_candidates
from nmtkit.lines import given_lines, tokens_of
from nmtkit.search.batching import translate_each
from nmtkit.search.beam import Floats, Hypothesis
from nmtkit.search.constraints import Constraints
from nmtkit.search.scorer import Scorer
from nmtkit.search.settings import LengthPenalty, Search
from nmtkit.search.shortlist import Shortlists
from nmtkit.symbols import EOS, UNK
from nmtkit.text.pipeline import TextPipeline
from nmtkit.translation import mbr
from nmtkit.translation.glossary import Glossary, Occurrence, edges_of
from nmtkit.translation.pieces import Part, best_combinations, cuts, end_of_piece, same_cuts, slices
from nmtkit.translation.request import Request, Terms
from nmtkit.translation.stream import FIRST_WINDOW, LARGEST_WINDOW, windows
from nmtkit.translation.translation import Translation, Writer


@dataclass(frozen=True)
class Source:
    """The segmentation and vocabulary of a model's source side."""

    pipeline: TextPipeline
    vocab: Vocabulary


class _Piece(NamedTuple):
    """A line, or a piece of a line that is too long, in the tokens of each source."""

    line: int
    start: int  # position of its first token in the line, for the first source
    tokens: list[list[str]]  # of each source


@dataclass(frozen=True, repr=False)
class Translator:
    """A model or an ensemble with its text processing. See ``nmtkit.load``.

    Of a single model, ``given`` is the PyTorch module (``Seq2Seq`` in models/base.py), for encoder states and
    gradients. To change the search settings, ``dataclasses.replace`` its ``search``; for a single call, use a
    ``Request``.
    """

    name: str  # the folders of its models
    model: Scorer  # for search, in the requested precision
    given: Scorer  # for scoring references: in float32, unless a precision was given
    model_bytes: int  # of the weights
    search: Search
    device: torch.device
    sources: Sequence[Source]  # the distinct ones of an ensemble; attention is over the first
    tgt_pipeline: TextPipeline
    tgt_vocab: Vocabulary
    lexicon: Lexicon | None  # for unknown words and shortlists

    def __repr__(self) -> str:
        languages = " to ".join(self.languages)
        return f"<Translator {self.name}: {languages}, {self.model_bytes / 1e6:.1f} MB on {self.device}>"

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.sources[0].pipeline.side.language, self.tgt_pipeline.side.language

    @overload
    def translate(
        self,
        lines: Iterable[str],
        request: Request | None = None,
        *,
        n_best: None = None,
        beam_size: int | None = None,
        length_penalty: LengthPenalty | None = None,
        alpha: float | None = None,
        sample: bool | None = None,
        seed: int | None = None,
        replace_unk: bool | None = None,
        tokenized: bool | None = None,
    ) -> Iterator[str]: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        request: Request | None = None,
        *,
        n_best: int,
        beam_size: int | None = None,
        length_penalty: LengthPenalty | None = None,
        alpha: float | None = None,
        sample: bool | None = None,
        seed: int | None = None,
        replace_unk: bool | None = None,
        tokenized: bool | None = None,
    ) -> Iterator[list[Translation]]: ...

    def translate(
        self,
        lines: Iterable[str],
        request: Request | None = None,
        *,
        n_best: int | None = None,
        beam_size: int | None = None,
        length_penalty: LengthPenalty | None = None,
        alpha: float | None = None,
        sample: bool | None = None,
        seed: int | None = None,
        replace_unk: bool | None = None,
        tokenized: bool | None = None,
    ) -> Iterator[str] | Iterator[list[Translation]]:
        """An iterator over the best translation of every line, in order, which reads lines as needed.

        With ``n_best``, the n best translations of each line, with scores. The other arguments are common fields of
        ``Request`` and override those of ``request``. A blank line has a blank translation. Raises UserError like
        ``answer``.
        """
        refuse_string("lines", lines)
        wishes: dict[str, Any] = {
            "n_best": n_best, "beam_size": beam_size, "length_penalty": length_penalty, "alpha": alpha,
            "sample": sample, "seed": seed, "replace_unk": replace_unk, "tokenized": tokenized,
        }  # fmt: skip
        asked = replace(request or Request(), **{name: wish for name, wish in wishes.items() if wish is not None})
        self.check(asked)  # now, not when the first translation is taken
        # A generator may need the previous translation to produce its next line, so windows begin small.
        first = LARGEST_WINDOW if isinstance(lines, Sequence) else FIRST_WINDOW
        grouped = windows(given_lines("`lines`", lines), lambda: True, first)
        answers = (best for window in grouped for best in self.answer(window, asked))
        return answers if asked.n_best is not None else (best[0].text for best in answers)

    def answer(
        self, lines: Iterable[str], request: Request, targets: Iterable[str] | None = None
    ) -> list[list[Translation]]:
        """The translations of every line, up to ``request.n_best`` of each, best first. A blank line has one.

        targets: the prefix (possibly empty) or the reference of each line, if ``request`` has ``prefixes`` or
        ``references``.

        A line of more tokens than ``request.limit`` is translated in pieces. Its tokens and their log-probabilities are
        those of its pieces; the last log-probability is the sum over all EOS. Its score is computed from these, and its
        n best translations are the best combinations of those of its pieces. A prefix that is longer than the first
        piece continues in the next. References are not split.

        Unknown words are scored as ``<unk>``, or as ``<unkpos_null>`` by a model of ``UNKPOS``. The reference of a
        blank line has probability 1 if it is blank, else 0.

        Raises UserError for lines that are not text, a wrong number of targets, and requests that the model does not
        support.
        """
        self.check(request)
        refuse_string("lines", lines)
        lines = list(given_lines("`lines`", lines))
        # The request says whether there are targets, so that none is ignored.
        name = "references" if request.references else "prefixes"
        if (targets is None) == (request.references or request.prefixes):
            raise UserError(f"`{name}`: {'missing' if targets is None else 'given, but not requested'}")
        refuse_string(name, targets)
        others = list(given_lines(f"`{name}`", () if targets is None else targets))
        if targets is not None and len(others) != len(lines):
            raise UserError(f"`{name}`: {len(others)} of them for {counted(len(lines), 'line')}; give one for each")
        # Each source of an ensemble tokenises the lines. Surface words are kept for the replacement of unknown words,
        # because tokenising twice would cost more than the replacement itself.
        pipelines = [source.pipeline for source in self.sources]
        if request.tokenized:
            written = read = [list(map(tokens_of, lines))] * len(pipelines)
        else:
            written = [list(map(pipeline.surface_words, lines)) for pipeline in pipelines]
            read = [list(map(pipeline.encode, words)) for pipeline, words in zip(pipelines, written, strict=True)]
        to_tokens = tokens_of if request.tokenized else self.tgt_pipeline.tokens
        wanted = list(map(to_tokens, others))
        if request.references:
            scored = self._scored(read, list(map(self._given_ids, wanted)), request)
            return [[replace(best, text=text)] for best, text in zip(scored, others, strict=True)]
        search = partial(self._searched, written[0], read, wanted or [[] for _ in lines])
        if request.mbr is None:
            return search(request)
        # Minimum Bayes risk decoding: the hypotheses of the beam, ranked by utility against the samples.
        n = request.n_best or 1
        found = search(replace(request, n_best=max(n, request.search(self.search).beam_size)))
        samples = search(request.samples())
        return [mbr.ranked(best, list(map(str, drawn)))[:n] for best, drawn in zip(found, samples, strict=True)]

    @cached_property
    def has_attention(self) -> bool:
        """Whether the model has attention weights, found by a test translation."""
        ids, search = [[[UNK]]] * len(self.sources), replace(self.search, beam_size=1)
        [(_, [best])] = translate_each(self.model, ids, search, device=self.device, attention=True)
        return best.attention is not None

    @cached_property
    def _writer(self) -> Writer:
        """Converts hypotheses to translations."""
        edges = edges_of(self.tgt_pipeline, self.tgt_vocab)
        return Writer(self.sources[0].pipeline, self.tgt_pipeline, self.tgt_vocab, self.lexicon, edges)

    @cached_property
    def _glossary(self) -> Callable[[Terms, bool], Glossary]:
        """The glossary in the model's tokens; cached, because many windows have the same terms."""
        return lru_cache(maxsize=8)(partial(Glossary, self.sources[0].pipeline, self.tgt_pipeline, self.tgt_vocab))

    def check(self, request: Request) -> None:
        """Raise UserError for invalid settings, a term that has no tokens, and a lexicon that is unreadable or missing.

        With any segmentation, a shortlist needs a lexicon of whole words, such as that of nmtkit align.
        """
        if not request.search(self.search).unk and self.tgt_vocab.annotated:
            raise UserError(f"`unk`: {self.name} writes the positions of unknown words instead; use `replace_unk`")
        if request.terms:
            self._glossary(request.terms, request.tokenized)
        if self.lexicon is not None and (request.replace_unk or request.shortlist is not None):
            # Read before processes are forked: the file may be invalid, or a pipe, which only one process can read.
            _ = self.lexicon.translations
        if request.shortlist is None:
            return
        if self.lexicon is None:
            raise UserError(f"`shortlist`: {self.name} has no lexicon; give one made by nmtkit align as `lexicon`")
        if self.sources[0].pipeline.segmenter is not None and self._writer.unknown_words.lexicon_has_pieces:
            raise UserError(f"{self.lexicon.name}: has subwords; a shortlist needs whole words")

    def score_candidates(self, lines: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[list[Floats]]:
        """The log-probabilities (T + 1,) of the tokens and EOS of each candidate of every line."""
        sources = [[source.vocab.ids(source.pipeline.tokens(line)) for line in lines] for source in self.sources]
        targets = [[self._given_ids(self.tgt_pipeline.tokens(text)) for text in group] for group in candidates]
        return score_candidates(self.given, sources, targets, device=self.device, max_tokens=self.search.max_tokens)

    def _given_ids(self, tokens: list[str]) -> list[int]:
        """The ids of a given text. A model of ``UNKPOS`` knows ``<unkpos_null>``, but never saw ``<unk>``."""
        ids = self.tgt_vocab.ids(tokens)
        return annotate(ids, ()) if self.tgt_vocab.annotated else ids

    def _scored(self, read: list[list[list[str]]], targets: list[list[int]], request: Request) -> list[Translation]:
        """The given targets, as ids of each line, as translations with their scores."""
        ids = [list(map(source.vocab.ids, tokens)) for source, tokens in zip(self.sources, read, strict=True)]
        # Every word is forced, so a beam of 1 suffices.
        search, look = replace(request.search(self.search), beam_size=1), request.alignment or request.attention
        hypotheses = dict(
            translate_each(
                self.given, ids, search, device=self.device, attention=look or request.quality,
                forced=[[*target, EOS] for target in targets],
            )
        )  # fmt: skip
        scored = []
        for i, (source, target) in enumerate(zip(read[0], targets, strict=True)):
            [hypothesis] = hypotheses[i]
            if target and not source:
                only_eos = np.ones((len(target) + 1, 1), np.float32) if look else None
                hypothesis = Hypothesis(target, -math.inf, [-math.inf] * (len(target) + 1), only_eos)
            part = self._writer.part(hypothesis, request, source, source, [], [])
            scored.append(self._writer.whole([part], request, search, [source]))
        return scored

    def _searched(
        self, written: list[list[str]], read: list[list[list[str]]], prefixes: list[list[str]], request: Request
    ) -> list[list[Translation]]:
        """The translations of every line.

        written: the surface words of each line, or its tokens if the input is tokenised. read: the tokens of each line
        for each source. prefixes: the tokens with which each translation begins.
        """
        search, n = request.search(self.search), request.n_best or 1
        # Search treats each piece as a sentence. Most lines have one piece.
        of_line = [self._pieces(i, list(tokens), request.limit) for i, tokens in enumerate(zip(*read, strict=True))]
        pieces = list(itertools.chain.from_iterable(of_line))
        ids = [[source.vocab.ids(piece.tokens[d]) for piece in pieces] for d, source in enumerate(self.sources)]
        shares = list(itertools.starmap(self._shared, zip(prefixes, of_line, strict=True)))
        given = list(itertools.chain.from_iterable(shares))
        # If the prefix continues in the next piece, it is the entire translation of this one, so EOS is forced.
        pairs = itertools.chain.from_iterable(itertools.pairwise([*of_one, []]) for of_one in shares)
        forced = [[*self._given_ids(share), *([EOS] if after else [])] for share, after in pairs]
        # Once for all lines, because looking it up takes time in proportion to its size.
        glossary = self._glossary(request.terms, request.tokenized) if request.terms else None
        terms = [each for i, own in enumerate(of_line) for each in _occurrences(glossary, read[0][i], own)]
        edges = self._writer.edges
        constraints = Constraints([[each.term for each in own] for own in terms], edges) if any(terms) else None
        # Attention weights, which are copied at every step, are computed only if needed.
        look = request.alignment or request.attention or request.quality or request.replace_unk
        each = translate_each(
            self.model, ids, search, device=self.device, n_best=n, attention=look, forced=forced,
            seed=request.sample_seed, constraints=constraints,
            shortlists=self._shortlists([piece.tokens[0] for piece in pieces], terms, request),
        )  # fmt: skip
        # Unless requested, attention weights are dropped after use.
        parts: dict[int, list[Part]] = {}
        for i, hypotheses in each:
            source = pieces[i].tokens[0]
            line = pieces[i].line
            spelled = self._spelled(pieces[i], written[line], read[0][line], request) if request.replace_unk else source
            parts[i] = [self._writer.part(each, request, source, spelled, given[i], terms[i]) for each in hypotheses]
        found, numbers = [], iter(range(len(pieces)))
        for group in of_line:
            sources = [piece.tokens[0] for piece in group]
            chosen = _chosen([parts[next(numbers)] for _ in group], n, request.sample_seed)
            best = [self._writer.whole(combination, request, search, sources) for combination in chosen]
            found.append(best if len(group) == 1 else sorted(best, key=lambda translation: -translation.score))
        return found

    def _pieces(self, line: int, tokens: list[list[str]], limit: int) -> list[_Piece]:
        """The pieces of a line, at least one. tokens: those of each source."""
        if len(tokens[0]) <= limit:
            return [_Piece(line, 0, tokens)]
        starts = cuts(tokens[0], limit, self.sources[0].pipeline)
        parts = [slices(read, same_cuts(starts, tokens[0], read) if d else starts) for d, read in enumerate(tokens)]
        return [_Piece(line, start, list(part)) for start, part in zip(starts, zip(*parts, strict=True), strict=True)]

    def _shared(self, prefix: list[str], pieces: list[_Piece]) -> list[list[str]]:
        """The part of ``prefix`` with which the translation of each piece must begin."""
        starts = [0]
        for piece in pieces[:-1]:
            # Assumes that the translation of a piece is as long as the piece.
            starts.append(end_of_piece(prefix, starts[-1], len(piece.tokens[0]), self.tgt_pipeline))
        return slices(prefix, starts)

    def _shortlists(
        self, sentences: Sequence[list[str]], terms: Sequence[Sequence[Occurrence]], request: Request
    ) -> Shortlists | None:
        """The shortlist of each sentence, given its tokens: its words, their translations in the lexicon, its terms."""
        if request.shortlist is None or self.lexicon is None:
            return None
        # Source words are included, because names are often spelled alike in both languages.
        asked = list[list[int]]()
        for tokens, own in zip(sentences, terms, strict=True):
            words = set(self.sources[0].pipeline.words(tokens))
            written = itertools.chain(words, *(self.lexicon.translations.get(word, ()) for word in words))
            of_terms = (id for each in own for form in each.term for id in form.ids)
            asked.append([*self.tgt_vocab.ids(self.tgt_pipeline.segment(list(written))), *of_terms])
        return Shortlists(min(self.tgt_vocab.symbols + request.shortlist, len(self.tgt_vocab)), asked)

    def _spelled(self, piece: _Piece, written: list[str], read: list[str], request: Request) -> list[str]:
        """The surface words of a piece of a line. written: those of the line; read: its tokens."""
        pipeline, source = self.sources[0].pipeline, piece.tokens[0]
        if pipeline.segmenter is None:
            return written[piece.start :][: len(source)]
        words, first = pipeline.words(source), len(pipeline.words(read[: piece.start]))
        spelled = written[first:][: len(words)]
        # Tokenised input has no other spelling, and after a cut within a word positions differ.
        same = not request.tokenized and list(map(str.lower, spelled)) == list(map(str.lower, words))
        return spelled if same else words


def _occurrences(glossary: Glossary | None, tokens: list[str], pieces: list[_Piece]) -> list[list[Occurrence]]:
    """The terms that begin in each piece of a line."""
    found = glossary.found(tokens) if glossary else []
    ends = [*(piece.start for piece in pieces[1:]), len(tokens)]
    return [[each for each in found if p.start <= each.start < end] for p, end in zip(pieces, ends, strict=True)]


def _chosen(pieces: list[list[Part]], n: int, seed: int | None) -> Sequence[Sequence[Part]]:
    """The parts, one for each piece, of up to n translations of a line."""
    if len(pieces) == 1:
        return [[part] for part in pieces[0]]
    if seed is None:
        return best_combinations(pieces, n)
    # The samples of a piece are sorted by score; shuffling makes them independent of those of other pieces.
    generator = np.random.default_rng([seed, len(pieces)])
    shuffled = [[parts[i] for i in generator.permutation(len(parts))] for parts in pieces]
    return list(zip(*shuffled, strict=True))
