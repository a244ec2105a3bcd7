"""A model folder, or an ensemble of several, as a translator: raw lines in, plain text out."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from nmtkit.align.lexicon import load_translations
from nmtkit.align.posunk import replace_unknown
from nmtkit.data.text import TextPipeline
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.evaluation.forced import score_candidates
from nmtkit.search.batching import translate_each
from nmtkit.search.beam import Floats, Hypothesis, Search
from nmtkit.search.scorer import Scorer
from nmtkit.search.shortlist import Shortlists
from nmtkit.symbols import EOS
from nmtkit.translation.stream import windows

TRANSLATIONS = 20  # of each source word in a shortlist (K' of Jean et al. 2015)


class Translation(NamedTuple):
    text: str  # one line, without its end
    score: float  # log-probability under the penalties: what translations are ranked by
    log_prob: float
    tokens: list[str]  # as the model produced them
    log_probs: list[float]  # of the tokens and the end mark
    source: list[str]  # tokens as the model read them; an ensemble's are those of its first member
    alignment: list[tuple[int, int]] | None  # (source word, target word), counted from 0
    attention: Floats | None  # (tokens + 1, source + 1), end marks included


@dataclass(frozen=True)
class Source:
    """How a model reads its source."""

    pipeline: TextPipeline
    vocab: Vocabulary


@dataclass(frozen=True)
class Candidates:
    """Which target words a sentence may be translated with, beside those that are in every shortlist.

    These are ``translations`` of its words (BPE undone), and its words themselves, so that names can be copied.
    """

    frequent: int  # the most frequent words of the vocabulary, which are in every shortlist
    translations: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Translator:
    """A model with everything that surrounds it. To search differently, ``dataclasses.replace`` its ``search``."""

    model: Scorer
    model_bytes: int  # of its weights
    search: Search
    device: torch.device
    sources: Sequence[Source]  # those of an ensemble that differ; attention is over the first
    tgt_pipeline: TextPipeline
    tgt_vocab: Vocabulary
    lexicon: Path | None  # of single words, if the first model has one
    candidates: Candidates | None  # for a shortlist of each batch; None: all words

    def with_shortlists(self, frequent: int, lexicon: Path) -> "Translator":
        """The same with a shortlist for each batch: the most frequent words, and what the lexicon has for its words.

        Raises UserError for a lexicon of pieces: that of nmtkit align is of whole words, whatever the segmentation.
        """
        translations = load_translations(lexicon, TRANSLATIONS)
        if self.sources[0].pipeline.segmenter is not None and any(word.endswith("@@") for word in translations):
            raise UserError(f"{lexicon}: is of pieces of words; a shortlist takes whole words, as of nmtkit align")
        return replace(self, candidates=Candidates(frequent, translations))

    def translate(self, lines: Iterable[str]) -> Iterator[str]:
        """The best translation of every line, in order and as the lines come; blank for blank."""
        for window in windows(lines, lambda: True):
            yield from (best[0].text for best in self.n_best(window, 1))

    def n_best(
        self,
        lines: Sequence[str],
        n: int,
        *,
        tokenized: bool = False,
        alignment: bool = False,
        attention: bool = False,
        lexicon: Mapping[str, str] | None = None,
        prefixes: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> list[list[Translation]]:
        """Up to n translations of every line, best first. A blank line has one, which is blank.

        tokenized: lines are tokens with spaces between, segmented as the model's own data are, and so is the text
        returned. alignment: each target word with the source word that the model looked at most; words are
        tokens, with the pieces of a word joined unless tokenized. attention: the whole matrix. lexicon: replace unknown
        words by its translation, else by a copy, of the source words they come from. prefixes: what the
        translation of each line must begin with. seed: draw n translations at random instead of searching the best.
        Raises UserError if the model cannot look where it has to.
        """
        forced = None if prefixes is None else [self._target(prefix, tokenized) for prefix in prefixes]
        look = alignment or attention or (lexicon is not None and not self.tgt_vocab.annotated)
        sources, each = self._search(lines, n, tokenized, look, forced, seed)
        found: dict[int, list[Translation]] = {}
        for i, hypotheses in each:
            found[i] = [self._translation(sources[i], h, tokenized, alignment, attention) for h in hypotheses]
            if lexicon is not None:
                texts = [self._replaced(lines[i], sources[i], h, tokenized, lexicon) for h in hypotheses]
                found[i] = [best._replace(text=text) for best, text in zip(found[i], texts, strict=True)]
        return [found[i] for i in range(len(lines))]

    def forced(self, lines: Sequence[str], references: Sequence[str], *, tokenized: bool = False) -> list[Translation]:
        """The references as if they had been found, with the scores that the model gives them.

        Words that the model does not know are scored as its unknown word. A blank line has a blank translation
        with certainty, and any other with none: its score is minus infinity.
        """
        targets = [self._target(reference, tokenized) for reference in references]
        greedy = replace(self, search=replace(self.search, beam_size=1), candidates=None)
        sources, each = greedy._search(lines, 1, tokenized, False, [[*ids, EOS] for ids in targets], None)
        scored, found = [], dict(each)
        for i, (source, target, reference) in enumerate(zip(sources, targets, references, strict=True)):
            [hypothesis] = found[i]
            if target and not source:
                hypothesis = Hypothesis(target, -math.inf, [-math.inf] * (len(target) + 1), None)
            scored.append(self._translation(source, hypothesis, tokenized, False, False)._replace(text=reference))
        return scored

    def score_candidates(self, lines: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[list[Floats]]:
        """For every line the log-probabilities of the tokens and the end mark of each of its candidates."""
        sources = [[source.vocab.ids(source.pipeline.tokens(line)) for line in lines] for source in self.sources]
        targets = [[self._target(candidate, tokenized=False) for candidate in group] for group in candidates]
        return score_candidates(self.model, sources, targets, device=self.device, max_tokens=self.search.max_tokens)

    def _target(self, text: str, tokenized: bool) -> list[int]:
        return self.tgt_vocab.ids(_tokens(text, self.tgt_pipeline, tokenized))

    def _search(
        self,
        lines: Sequence[str],
        n: int,
        tokenized: bool,
        attention: bool,
        forced: Sequence[Sequence[int]] | None,
        seed: int | None,
    ) -> tuple[list[list[str]], Iterator[tuple[int, list[Hypothesis]]]]:
        """The tokens of every line, as the first source has them, and its index and hypotheses as they are found."""
        read = [[_tokens(line, source.pipeline, tokenized) for line in lines] for source in self.sources]
        ids = [list(map(source.vocab.ids, tokens)) for source, tokens in zip(self.sources, read, strict=True)]
        each = translate_each(
            self.model, ids[0], self.search,
            device=self.device, n_best=n, attention=attention, forced=forced, seed=seed, others=ids[1:],
            shortlists=self._shortlists(read[0]),
        )  # fmt: skip
        return read[0], each

    def _shortlists(self, sentences: Sequence[list[str]]) -> Shortlists | None:
        """What the tokens of each sentence may be translated with."""
        if self.candidates is None:
            return None
        asked = list[list[int]]()
        for tokens in sentences:
            words = set(self.sources[0].pipeline.words(tokens))
            written = itertools.chain(words, *(self.candidates.translations.get(word, ()) for word in words))
            asked.append(self.tgt_vocab.ids(self.tgt_pipeline.segment(list(written))))
        frequent = min(self.tgt_vocab.symbols + self.candidates.frequent, len(self.tgt_vocab))
        return Shortlists(frequent, asked)

    def _translation(
        self, source: list[str], hypothesis: Hypothesis, tokenized: bool, alignment: bool, attention: bool
    ) -> Translation:
        tokens = self.tgt_vocab.tokens(hypothesis.ids)
        pairs = None
        if (alignment or attention) and tokens and hypothesis.attention is None:
            raise UserError("this model cannot align: it has no attention, so it does not look at single source words")
        if alignment:
            pairs = look_alignment(hypothesis)
            if not tokenized:
                src_words = word_numbers(source, self.sources[0].pipeline)
                tgt_words = word_numbers(tokens, self.tgt_pipeline)
                pairs = sorted({(src_words[s], tgt_words[t]) for s, t in pairs}, key=lambda pair: pair[::-1])
        return Translation(
            text=self._text(tokens, tokenized),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=tokens,
            log_probs=hypothesis.log_probs,
            source=source,
            alignment=pairs,
            attention=hypothesis.attention if attention else None,
        )

    def _replaced(
        self, line: str, source: list[str], hypothesis: Hypothesis, tokenized: bool, lexicon: Mapping[str, str]
    ) -> str:
        """The text of a translation without unknown words, as far as it is known where they come from."""
        if hypothesis.ids and hypothesis.attention is None and not self.tgt_vocab.annotated:
            raise UserError(
                "this model cannot replace unknown words: it has no attention, so it does not say where they come "
                "from; train it on a data folder of nmtkit vocab --unkpos"
            )
        pipeline = self.sources[0].pipeline
        pieces = tokenized or pipeline.side.segmentation == "bpe"  # which have no other spelling
        written = source if pieces else pipeline.written(line)
        tokens = self.tgt_vocab.tokens(hypothesis.ids)
        return self._text(replace_unknown(tokens, look_alignment(hypothesis), source, written, lexicon), tokenized)

    def _text(self, tokens: list[str], tokenized: bool) -> str:
        text = " ".join(tokens) if tokenized or not tokens else self.tgt_pipeline.text(tokens)
        return text.replace("\r", " ").replace("\n", " ")


def _tokens(line: str, pipeline: TextPipeline, tokenized: bool) -> list[str]:
    return [token for token in line.split(" ") if token] if tokenized else pipeline.tokens(line)


def look_alignment(hypothesis: Hypothesis) -> list[tuple[int, int]]:
    """Each target token with the source token looked at most; none where that was the end mark."""
    if hypothesis.attention is None:
        return []
    looks = hypothesis.attention[:-1].argmax(axis=1)  # (T,) without the row of the end mark
    aligned = np.flatnonzero(looks < hypothesis.attention.shape[1] - 1)
    return [(int(looks[t]), int(t)) for t in aligned]


def word_numbers(pieces: list[str], pipeline: TextPipeline) -> list[int]:
    """For each piece the number of the word that it is part of."""
    new_word = [len(pipeline.words([a, b])) - 1 for a, b in itertools.pairwise(pieces)]
    return list(itertools.accumulate(new_word, initial=0))
