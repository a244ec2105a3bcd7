"""The hypotheses of all sentences as a list in the order of the sentences."""

from typing import Any

from nmtkit.search.batching import translate_each
from nmtkit.search.beam import Hypothesis


def translate_ids(*arguments: Any, **settings: Any) -> list[list[Hypothesis]]:
    """The results of ``translate_each``, by number of the sentence."""
    return [found for _, found in sorted(translate_each(*arguments, **settings))]
