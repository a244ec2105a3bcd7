"""Shortlists: a batch is translated with a subset of the target vocabulary, because a large output layer is slow.

For a model restricted to a shortlist, ids are positions in the shortlist. Its probabilities sum to one over the
shortlist, so they are higher than those over the whole vocabulary.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, cast

import torch
from torch import Tensor

from nmtkit.search.beam import Hypothesis
from nmtkit.search.scorer import Scorer


class Narrowing(Scorer, Protocol):
    """A ``Scorer`` that can be restricted to some of the target words."""

    def over(self, words: Tensor) -> Scorer:
        """The scorer restricted to ``words`` (C,), which begin with the symbols; its word i is the i-th of them."""


@dataclass(frozen=True)
class Shortlist:
    """The target words of one batch."""

    words: list[int]  # ascending, so that the symbols keep their ids

    def over(self, scorer: Scorer, device: torch.device) -> Scorer:
        """``scorer`` restricted to these words."""
        return cast(Narrowing, scorer).over(torch.tensor(self.words, device=device))

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each word in the shortlist."""
        return {word: place for place, word in enumerate(self.words)}

    def widened(self, results: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Hypotheses in positions of the shortlist, as ids of the whole vocabulary."""
        return [[h._replace(ids=[self.words[place] for place in h.ids]) for h in best] for best in results]


@dataclass(frozen=True)
class Shortlists:
    """Which target words a batch may use: the most frequent ones, and those of each of its sentences."""

    frequent: int  # ids below this, which include the symbols, are in every shortlist
    words: Sequence[Iterable[int]]  # of each sentence

    def of(self, batch: Iterable[int], given: Iterable[Iterable[int]]) -> Shortlist:
        """The shortlist of a batch, which includes the ``given`` words of its prefixes."""
        asked = itertools.chain(*(self.words[i] for i in batch), *given)
        return Shortlist(sorted({*range(self.frequent), *asked}))
