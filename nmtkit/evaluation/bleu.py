"""Corpus BLEU, chrF and TER, computed by sacreBLEU, each with its signature.

Hypotheses are a non-empty list of sentences; references are one or more lists of the same length. Blank hypotheses
count in the brevity penalty. Scores are from 0 to 100 (TER may exceed 100).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric, Signature

from nmtkit.text.scripts import CHARACTERS, WITHOUT_SPACES, base_language

References = Sequence[Sequence[str]]


class Score(NamedTuple):
    """The value of a metric, and its signature."""

    value: float
    signature: str


class NistBLEU(BLEU):
    """BLEU whose brevity penalty uses the length of the shortest reference, as NIST's mteval-v11b.pl does."""

    def _get_closest_ref_len(self, hyp_len: int, ref_lens: list[int]) -> int:
        """The reference length for the brevity penalty; overrides a method of sacreBLEU."""
        return min(ref_lens)

    def get_signature(self) -> Signature:
        """sacreBLEU's signature, and ``ref:shortest``."""
        signature = super().get_signature()
        signature.update("ref", "shortest")
        return signature


# BLEU of Moses' multi-bleu.perl: words are separated by spaces, the brevity penalty uses the closest reference length,
# and there is no smoothing, so that BLEU is 0 if no 4-gram matches. Lower-casing is Unicode's; the Perl script
# lower-cases A to Z only.
WORD_METRICS: Mapping[str, Callable[[], Metric]] = {
    "multi-bleu": partial(BLEU, tokenize="none", smooth_method="none", force=True),
    "multi-bleu-lc": partial(BLEU, tokenize="none", smooth_method="none", lowercase=True, force=True),
}
# Metrics of plain text. 13a tokenises like NIST's mteval-v13a, intl like mteval-v14 with --international-tokenization.
# Papers on NIST Chinese-English report mteval-lc, case-insensitive BLEU of mteval-v11b, which tokenises English like
# 13a (but lower-cases A to Z only). chrF2: F-score of character n-grams up to 6, with recall weighted twice.
TEXT_METRICS: Mapping[str, Callable[[], Metric]] = {
    "sacreBLEU-13a": partial(BLEU, tokenize="13a", force=True),
    "13a-lc": partial(BLEU, tokenize="13a", lowercase=True, force=True),
    "mteval-lc": partial(NistBLEU, tokenize="13a", lowercase=True, smooth_method="none", force=True),
    "intl": partial(BLEU, tokenize="intl", force=True),
    "chrF2": CHRF,
    "TER": TER,
}
# In languages without spaces between words, BLEU counts characters; of other scripts in Chinese text, words. Models of
# lower-cased text are validated by chrF2-lc.
_OTHER_METRICS: Mapping[str, Callable[[], Metric]] = {
    "chrF2-lc": partial(CHRF, lowercase=True),
    "sacreBLEU-zh": partial(BLEU, tokenize="zh", force=True),
    "sacreBLEU-char": partial(BLEU, tokenize="char", force=True),
}


def standard_bleu(language: str) -> str:
    """The name of the BLEU that is usual for plain text in this language."""
    base = base_language(language)
    if base not in WITHOUT_SPACES:
        return "sacreBLEU-13a"
    return "sacreBLEU-zh" if base in CHARACTERS and base != "ja" else "sacreBLEU-char"


def text_metrics(language: str) -> list[str]:
    """The names of the metrics for plain text in this language."""
    return [*dict.fromkeys([standard_bleu(language), *TEXT_METRICS])]


def score(name: str, hyps: Sequence[str], refs: References) -> Score:
    """The score by the metric of this name."""
    assert all(len(hyps) == len(ref) > 0 for ref in refs)  # sacreBLEU would ignore the rest of the longer list
    metric = metric_named(name)
    return Score(metric.corpus_score(hyps, refs).score, str(metric.get_signature()))


def metric_named(name: str) -> Metric:
    """A new metric; a sacreBLEU metric keeps state between test sets."""
    return {**WORD_METRICS, **TEXT_METRICS, **_OTHER_METRICS}[name]()


def sentence_chrf(hyp: str, ref: str) -> float:
    """chrF2 of one sentence, because BLEU is too coarse for one."""
    return float(CHRF().sentence_score(hyp, [ref]).score)
