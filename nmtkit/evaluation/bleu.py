"""BLEU and chrF of a whole test set. Every score carries sacreBLEU's signature of how it was computed.

Hypotheses and references are lists of one string per sentence, of equal and positive length. A blank hypothesis counts
against the brevity penalty like any other. Scores are from 0 to 100.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu import BLEU, CHRF


class Score(NamedTuple):
    value: float
    signature: str


def multi_bleu(hyps: Sequence[str], refs: Sequence[str], *, lowercase: bool) -> Score:
    """BLEU by the rule of Moses multi-bleu.perl: up to 4-grams of words as they stand, no smoothing.

    White space separates words. Without a single matching 4-gram the score is 0. Lower-casing is Unicode's; the
    Perl script only knows A to Z.
    """
    return _score(BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True), hyps, refs)


def sacrebleu_13a(hyps: Sequence[str], refs: Sequence[str]) -> Score:
    """sacreBLEU as people report it: of plain text, cased, which it tokenises itself as mteval-v13a does."""
    return _score(BLEU(tokenize="13a", force=True), hyps, refs)


def chrf2(hyps: Sequence[str], refs: Sequence[str]) -> Score:
    """chrF2: F-score of character 6-grams of plain text, recall counted twice."""
    return _score(CHRF(), hyps, refs)


def detokenized_bleu(hyps: Sequence[str], refs: Sequence[str]) -> float:
    """The figure to select checkpoints by: sacreBLEU 13a of plain text."""
    return sacrebleu_13a(hyps, refs).value


def _score(metric: BLEU | CHRF, hyps: Sequence[str], refs: Sequence[str]) -> Score:
    assert len(hyps) == len(refs) > 0  # sacreBLEU would score the lines that both have
    result = metric.corpus_score(hyps, [refs])
    return Score(result.score, str(metric.get_signature()))
