"""Minimum Bayes risk decoding."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

import nmtkit
from nmtkit.errors import UserError
from nmtkit.translation import mbr
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translator
from tests.echo import write_model

TEXT = st.text("abÿ '+\u0303", max_size=12)


@given(TEXT, TEXT)
def test_the_utility_is_sacrebleus_chrf2_of_a_sentence(hypothesis: str, reference: str) -> None:
    ours = mbr.chrf(mbr.mean_counts([hypothesis]), mbr.mean_counts([reference]))
    assert ours == pytest.approx(CHRF().sentence_score(hypothesis, [reference]).score / 100, abs=1e-9)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3), st.integers(2, 4))
def test_only_the_shares_of_the_samples_count(hypothesis: str, samples: list[str], times: int) -> None:
    ours, expected = mbr.mean_counts([hypothesis]), mbr.mean_counts(samples)
    assert mbr.chrf(ours, mbr.mean_counts(samples * times)) == pytest.approx(mbr.chrf(ours, expected))


def test_equally_good_hypotheses_keep_the_order_of_the_beam(translator: Translator) -> None:
    beam = [replace(best, text=text) for [best] in translator.answer(["a"], Request()) for text in "bca"]
    assert [str(best) for best in mbr.ranked(beam, ["d"])] == ["b", "c", "a"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return nmtkit.load(write_model(tmp_path_factory.mktemp("mbr") / "run", "rnnsearch"), device="cpu")


LINES = ["a b c d", "b", "", "d c b a d"]


def test_the_hypotheses_of_the_beam_are_ranked_by_utility_against_the_samples(
    translator: Translator,
) -> None:
    request = Request(mbr=7, n_best=4, beam_size=6)
    beam = translator.answer(LINES, Request(n_best=6, beam_size=6))
    samples = translator.answer(LINES, request.samples())
    for found, hypotheses, drawn in zip(translator.answer(LINES, request), beam, samples, strict=True):
        counts = mbr.mean_counts([each.text for each in drawn])
        scores = [mbr.chrf(mbr.mean_counts([each.text]), counts) for each in hypotheses]
        assert [each.score for each in found] == sorted(scores, reverse=True)[:4]
        of_text = {each.text: score for each, score in zip(hypotheses, scores, strict=True)}
        assert all(each.score == of_text[each.text] for each in found)


def test_a_line_has_the_same_translation_whatever_the_others(translator: Translator) -> None:
    alone = [next(translator.translate([line], Request(mbr=3))) for line in LINES]
    assert list(translator.translate(LINES, Request(mbr=3))) == alone


def test_minimum_bayes_risk_works_with_other_options(translator: Translator) -> None:
    [[best], *_] = translator.answer(LINES, Request(mbr=3, alignment=True, attention=True))
    assert best.alignment is not None
    assert best.attention is not None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"mbr": 0}, "`mbr`: 0 is not between 1 and 10000"),
        ({"mbr": 10_001}, "`mbr`: 10001 is not between 1 and 10000"),
        ({"mbr": 2, "sample": True}, "leave `mbr` out"),
        ({"mbr": 2, "references": True}, "leave `mbr` out"),
        ({"mbr": 2, "prefixes": True}, "`mbr`: sampling does not support `prefixes`; leave one of them out"),
    ],
)
def test_options_that_conflict_with_minimum_bayes_risk_are_refused(options: dict[str, int], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Request(**options)  # type: ignore[arg-type]
