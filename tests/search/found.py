"""The hypotheses of all sentences as a list in the order of the sentences."""

from collections.abc import Sequence
from typing import Any

from nmtkit.search.batching import translate_each
from nmtkit.search.beam import Hypothesis
from nmtkit.search.settings import Search

Ids = Sequence[Sequence[int]]


def translate_ids(scorer: Any, sentences: Ids, config: Search, *others: Ids, **settings: Any) -> list[list[Hypothesis]]:
    """The results of ``translate_each``, by number of the sentence; others: the sentences in other segmentations."""
    return [found for _, found in sorted(translate_each(scorer, [sentences, *others], config, **settings))]
