"""BLEU, chrF and TER of a whole test set, all by sacreBLEU, each with its signature of how it was computed.

Hypotheses are one string per sentence; references are one or more such lists, all equally and positively long. A
blank hypothesis counts against the brevity penalty like any other. Values are from 0 to 100 (TER may exceed that).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric, Signature

References = Sequence[Sequence[str]]


class Score(NamedTuple):
    """A metric's value, and the signature that says how it was computed."""

    value: float
    signature: str


class NistBLEU(BLEU):
    """BLEU as NIST's mteval-v11b.pl computes it, by default without case: the reference length is the shortest one's.

    It tokenises as mteval-v13a does (whose language-dependent rules are the same) and does not smooth. The script
    lower-cases A to Z only, this every alphabet.
    """

    def __init__(self) -> None:
        super().__init__(tokenize="13a", lowercase=True, smooth_method="none", force=True)

    def _get_closest_ref_len(self, hyp_len: int, ref_lens: list[int]) -> int:
        """The length that the brevity penalty compares a hypothesis with; sacreBLEU asks for it by this name."""
        return min(ref_lens)

    def get_signature(self) -> Signature:
        """sacreBLEU's signature with the one thing that it has no word for."""
        signature = super().get_signature()
        signature.update("ref", "shortest")
        return signature


# By the rule of Moses multi-bleu.perl: up to 4-grams of words as they stand, with white space between them, and no
# smoothing, so that the value is 0 without a single matching 4-gram; the closest reference length. Lower-casing is
# Unicode's; the Perl script only knows A to Z.
WORD_METRICS: Mapping[str, Callable[[], Metric]] = {
    "multi-bleu": partial(BLEU, tokenize="none", smooth_method="none", force=True),
    "multi-bleu-lc": partial(BLEU, tokenize="none", smooth_method="none", lowercase=True, force=True),
}
# Of plain text. 13a tokenises as NIST's mteval-v13a, intl as mteval-v14 with --international-tokenization. Papers on
# NIST Chinese-English report mteval-lc, BLEU of mteval-v11b without case. chrF2: F-score of character 6-grams, recall
# counted twice.
TEXT_METRICS: Mapping[str, Callable[[], Metric]] = {
    "sacreBLEU-13a": partial(BLEU, tokenize="13a", force=True),
    "13a-lc": partial(BLEU, tokenize="13a", lowercase=True, force=True),
    "mteval-lc": NistBLEU,
    "intl": partial(BLEU, tokenize="intl", force=True),
    "chrF2": CHRF,
    "TER": TER,
}


def score(name: str, hyps: Sequence[str], refs: References) -> Score:
    """The value of the metric of that name, of words or of text."""
    assert all(len(hyps) == len(ref) > 0 for ref in refs)  # sacreBLEU would score the lines that both have
    metric = metric_named(name)
    value = metric.corpus_score(hyps, refs).score
    return Score(value, str(metric.get_signature()))


def metric_named(name: str) -> Metric:
    """A metric of ``WORD_METRICS`` or ``TEXT_METRICS``, new because sacreBLEU's remember what they have seen."""
    return {**WORD_METRICS, **TEXT_METRICS}[name]()


def detokenized_bleu(hyps: Sequence[str], refs: References, *, lowercase: bool = False) -> float:
    """The figure to select checkpoints by: sacreBLEU 13a of plain text, without case for models of ``lowercase``."""
    return score("13a-lc" if lowercase else "sacreBLEU-13a", hyps, refs).value


def sentence_chrf(hyp: str, ref: str) -> float:
    """chrF2 of one sentence: BLEU says little about so few words."""
    return float(CHRF().sentence_score(hyp, [ref]).score)
