"""A model folder as a translator: raw lines in, plain text out."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from nmtkit.data.text import TextPipeline
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.experiment import load_model
from nmtkit.search.batching import translate_ids
from nmtkit.search.beam import Hypothesis, Search
from nmtkit.search.scorer import Scorer

T = TypeVar("T")

FIRST_WINDOW, LARGEST_WINDOW = 32, 2048  # lines that are translated together, sorted by length


class Translation(NamedTuple):
    text: str  # one line, without its end
    score: float  # log-probability under the length penalty: what translations are ranked by
    log_prob: float
    tokens: list[str]  # as the model produced them
    alignment: list[tuple[int, int]] | None  # (source word, target word), counted from 0


@dataclass(frozen=True)
class Translator:
    """A model with everything that surrounds it. To search differently, ``dataclasses.replace`` its ``search``."""

    model: Scorer
    search: Search
    device: torch.device
    src_pipeline: TextPipeline
    tgt_pipeline: TextPipeline
    src_vocab: Vocabulary
    tgt_vocab: Vocabulary

    def translate(self, lines: Iterable[str]) -> Iterator[str]:
        """The best translation of every line, in order and as the lines come; blank for blank."""
        for window in windows(lines, lambda: True):
            yield from (best[0].text for best in self.n_best(window, 1))

    def n_best(
        self, lines: Sequence[str], n: int, *, tokenized: bool = False, alignment: bool = False
    ) -> list[list[Translation]]:
        """Up to n translations of every line, best first. A blank line has one, which is blank.

        tokenized: lines are tokens with spaces between, segmented as the model's own data are, and so is the text
        returned. alignment: each target word with the source word that the model looked at most; words are
        tokens, with the pieces of a word joined unless tokenized. Raises UserError if the model cannot look.
        """
        sources = [[t for t in line.split(" ") if t] if tokenized else self.src_pipeline.tokens(line) for line in lines]
        ids = [self.src_vocab.ids(tokens) for tokens in sources]
        found = translate_ids(self.model, ids, self.search, device=self.device, n_best=n, attention=alignment)
        return [
            [self._translation(source, hypothesis, tokenized, alignment) for hypothesis in hypotheses]
            for source, hypotheses in zip(sources, found, strict=True)
        ]

    def _translation(self, source: list[str], hypothesis: Hypothesis, tokenized: bool, alignment: bool) -> Translation:
        tokens = self.tgt_vocab.tokens(hypothesis.ids)
        text = " ".join(tokens) if tokenized or not tokens else self.tgt_pipeline.text(tokens)
        pairs = None
        if alignment:
            pairs = look_alignment(hypothesis)
            if not tokenized:
                src_words, tgt_words = word_numbers(source, self.src_pipeline), word_numbers(tokens, self.tgt_pipeline)
                pairs = sorted({(src_words[s], tgt_words[t]) for s, t in pairs}, key=lambda pair: pair[::-1])
        one_line = text.replace("\r", " ").replace("\n", " ")
        return Translation(one_line, hypothesis.score, hypothesis.log_prob, tokens, pairs)


def load(folder: Path | str, device: str) -> Translator:
    """The translator in a model folder; see ``nmtkit.load``."""
    folder, chosen = Path(folder), choose_device(device)
    model, experiment = load_model(folder, chosen)
    return Translator(
        model,
        experiment.search,
        chosen,
        TextPipeline.load(folder, "src"),
        TextPipeline.load(folder, "tgt"),
        Vocabulary.load(folder / "vocab.src"),
        Vocabulary.load(folder / "vocab.tgt"),
    )


def choose_device(name: str) -> torch.device:
    """The device of that name; auto is a GPU if there is one. Raises UserError if it cannot be used."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--device {name}: cannot be used here ({reason}); auto and cpu always can") from None
    return device


def windows(lines: Iterable[T], at_hand: Callable[[], bool]) -> Iterator[list[T]]:
    """The lines in windows that grow, so that the first answers come soon and later batches are full.

    A window also ends when ``at_hand`` says that the next line would have to be waited for.
    """
    size, window = FIRST_WINDOW, list[T]()
    for line in lines:
        window.append(line)
        if len(window) == size or not at_hand():
            yield window
            size, window = min(2 * size, LARGEST_WINDOW), []
    if window:
        yield window


def look_alignment(hypothesis: Hypothesis) -> list[tuple[int, int]]:
    """Each target token with the source token looked at most; none where that was the end mark."""
    if not hypothesis.ids:
        return []
    if hypothesis.attention is None:
        raise UserError("this model cannot align: it has no attention, so it does not look at single source words")
    looks = hypothesis.attention[:-1].argmax(axis=1)  # (T,) without the row of the end mark
    aligned = np.flatnonzero(looks < hypothesis.attention.shape[1] - 1)
    return [(int(looks[t]), int(t)) for t in aligned]


def word_numbers(pieces: list[str], pipeline: TextPipeline) -> list[int]:
    """For each piece the number of the word that it is part of."""
    new_word = [len(pipeline.words([a, b])) - 1 for a, b in itertools.pairwise(pieces)]
    return list(itertools.accumulate(new_word, initial=0))
