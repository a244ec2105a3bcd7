"""The settings of search: the ``search`` part of an experiment, and options of ``nmtkit translate`` and ``serve``.

A setting is declared here, and named a second time in ``translation/request.py``. Torch is not imported here.
"""

from dataclasses import dataclass
from typing import Literal

from nmtkit.options import Option, mistake, option

LengthPenalty = Literal["none", "avg", "gnmt", "power"]
Stop = Literal["all", "bound", "first"]
Combine = Literal["prob", "logprob"]  # of the members of an ensemble

HORIZON = 3  # words by which a living hypothesis may grow with ``stop: bound``
SEARCH = "Search"  # group of the help


# fmt: off
@dataclass(frozen=True)
class Search:
    """The settings of search (section ``search`` of a configuration). Lengths count target words; |y| includes EOS."""

    beam_size: int = option(5, Option(
        "Beam size: the number of hypotheses kept for each sentence.", names="--beam-size -b", at_least=1,
        at_most=10_000))
    # gnmt: Wu et al. 2016, eq. 14
    length_penalty: LengthPenalty = option("gnmt", Option(
        "Rank hypotheses by log P (none), log P / |y| (avg), log P / ((5 + |y|) / 6)^alpha (gnmt), or log P "
        "/ |y|^alpha (power).", SEARCH))
    alpha: float = option(0.6, Option(
        "Exponent of the length penalties gnmt and power.", SEARCH, at_least=0.0, at_most=10))
    # beta: adds beta * sum_j log min(sum_t attention_tj, 1) over the source words j
    coverage_penalty: float = option(0.0, Option(
        "Weight of the coverage penalty for source words with too little attention: beta in Wu et al. 2016.", SEARCH,
        at_least=0.0, at_most=1000))
    # after max_len_a * source words + max_len_b words, EOS is forced
    max_len_a: float = option(1.5, Option(
        "A translation has at most A * source words + B words; this is A.", SEARCH, at_least=0.0, at_most=1000))
    max_len_b: int = option(20, Option(
        "A translation has at most A * source words + B words; this is B.", SEARCH, at_least=1, at_most=1_000_000))
    stop: Stop = option("bound", Option(  # see ``reach``
        "When to end the search for a sentence: when no better translation is possible (all), when none would be "
        "found if unfinished hypotheses grew by at most a few words (bound, the default of new models), or when none "
        "would be found if they ended now (first).", SEARCH))
    unk: bool = option(True, Option(
        "Whether a translation may contain <unk>, the unknown word; by default it may, except in imported models whose "
        "toolkit forbids it.", SEARCH))
    narrowing: bool = option(True, Option(
        "Whether each finished hypothesis narrows the beam by one; in fairseq, transformers and tensor2tensor, the "
        "beam stays full.", SEARCH))
    # padding and EOS included
    max_tokens: int = option(8000, Option(
        "Batch size: source tokens times beam size. A smaller batch needs less memory.", "Speed and memory",
        at_least=1, at_most=1_000_000_000))
    # fmt: on

    def __post_init__(self) -> None:
        if wrong := mistake(self):
            raise ValueError("".join(wrong))

    @property
    def uses_alpha(self) -> bool:
        """Whether the length penalty has an exponent."""
        return self.length_penalty in ("gnmt", "power")

    def score(self, log_prob: float, length: int) -> float:
        """The value by which hypotheses are ranked, from log P and |y|, which includes EOS.

        log P is at most 0, so at the same log P a longer hypothesis never ranks lower: ``reach`` relies on it.
        """
        match self.length_penalty:
            case "none":
                return log_prob
            case "avg":
                return log_prob / length
            case "gnmt":
                return log_prob / float(((5 + length) / 6) ** self.alpha)
            case "power":
                return log_prob / float(length**self.alpha)

    def reach(self, words: int, longest: int) -> int:
        """The greatest length, EOS included, that a living hypothesis of ``words`` words is assumed to reach.

        A sentence is done when no living hypothesis would enter the n best with that length and its current log P.
        ``all``: the longest length allowed, so that stopping early changes no result. ``first``: the next length, as if
        EOS came next. ``bound``: ``HORIZON`` words more, which changes few results. Measured
        (recipes/benchmarks/NOTES.md): ``first`` is 4 to 16 % faster than ``bound``, for -0.2 to +0.5 BLEU.
        """
        if self.stop == "all":
            return longest + 1
        return min(longest, words if self.stop == "first" else words + HORIZON) + 1

    def longest(self, src_words: int) -> int:
        """The greatest number of words, without EOS, that a translation of ``src_words`` words may have."""
        return int(self.max_len_a * src_words + self.max_len_b)
