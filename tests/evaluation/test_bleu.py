import logging
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.evaluation.bleu import chrf2, detokenized_bleu, multi_bleu, sacrebleu_13a


def bleu_by_definition(hyps: list[str], refs: list[str]) -> float:
    """multi-bleu.perl's rule, written from Papineni et al. 2002: the test's own, shares nothing with sacreBLEU."""
    correct, total = [0] * 4, [0] * 4
    for hyp, ref in zip(hyps, refs, strict=True):
        h, r = hyp.split(), ref.split()
        for n in range(1, 5):
            found = Counter(tuple(h[i : i + n]) for i in range(len(h) - n + 1))
            known = Counter(tuple(r[i : i + n]) for i in range(len(r) - n + 1))
            correct[n - 1] += (found & known).total()  # clipped: an n-gram matches as often as the reference has it
            total[n - 1] += found.total()
    if 0 in correct:
        return 0.0
    length, ref_length = sum(len(h.split()) for h in hyps), sum(len(r.split()) for r in refs)
    brevity = 1.0 if length > ref_length else math.exp(1 - ref_length / length)
    return 100 * brevity * math.exp(sum(math.log(c / t) for c, t in zip(correct, total, strict=True)) / 4)


# Few word types, so that 4-grams do match; sentences from none to twelve words, so that lengths differ.
sentences = st.lists(st.sampled_from("a b c B".split()), max_size=12).map(" ".join)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8))
def test_multi_bleu_follows_its_definition(pairs: list[tuple[str, str]]) -> None:
    hyps, refs = map(list, zip(*pairs, strict=True))
    assert multi_bleu(hyps, refs, lowercase=False).value == pytest.approx(bleu_by_definition(hyps, refs))


def test_multi_bleu_follows_its_definition_on_sentences_like_real_ones() -> None:
    chance = random.Random(1)
    words = [f"w{i}" for i in range(50)]
    refs = [" ".join(chance.choices(words, k=chance.randint(1, 40))) for _ in range(300)]
    hyps = [" ".join(w for w in ref.split() if chance.random() < 0.9) for ref in refs]
    expected = bleu_by_definition(hyps, refs)
    assert 20 < expected < 80
    assert multi_bleu(hyps, refs, lowercase=False).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("hyps", "refs", "expected"),
    [
        (["a b c d"], ["a b c d"], 100.0),
        (["a b c d"], ["w x y z"], 0.0),
        (["a b c"], ["a b c"], 0.0),  # perfect, but there is no 4-gram
        (["a b c x d"], ["a b c d"], 0.0),  # 4-grams, and none of them right
        (["a b c d", ""], ["a b c d", "e f g h"], 100 * math.exp(-1)),  # nothing but the brevity penalty
        (["a b c d e f"], ["a b c d"], 100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25),  # too long: no penalty
        (["a a a a a"], ["a a a a"], 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25),  # counts are clipped
        ([""], [""], 0.0),
        ([""], ["a b c d"], 0.0),
        (["a b c d"], [""], 0.0),
        (["A b c d"], ["a b c d"], 0.0),
    ],
)
def test_multi_bleu_at_the_edges(hyps: list[str], refs: list[str], expected: float) -> None:
    assert multi_bleu(hyps, refs, lowercase=False).value == pytest.approx(expected)
    assert bleu_by_definition(hyps, refs) == pytest.approx(expected) if hyps[0] else True


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4))
def test_lower_casing_is_scoring_what_was_lower_cased(pairs: list[tuple[str, str]]) -> None:
    hyps, refs = map(list, zip(*pairs, strict=True))
    lowered = multi_bleu([h.lower() for h in hyps], [r.lower() for r in refs], lowercase=False)
    assert multi_bleu(hyps, refs, lowercase=True).value == lowered.value


def test_lower_casing_knows_every_alphabet() -> None:
    assert multi_bleu(["ÉTÉ À LA ΜΟΔΑ"], ["été à la μοδα"], lowercase=True).value == pytest.approx(100)


def test_13a_tokenises_by_itself() -> None:
    assert detokenized_bleu(["Hello, big world!"], ["Hello, big world!"]) == pytest.approx(100)
    assert detokenized_bleu(["Hello , big world !"], ["Hello, big world!"]) == pytest.approx(100)


@pytest.mark.parametrize("metric", [sacrebleu_13a, chrf2])
def test_blank_lines_are_scored(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric([""], [""]).value == 0
    assert metric([""], ["some text here"]).value == 0
    assert metric(["some text here"], [""]).value == 0
    assert 0 < metric(["", "four words are here"], ["a", "four words are here"]).value < 100


def test_signatures_say_what_was_done() -> None:
    text = ["some text of more words"]
    assert "case:mixed|eff:no|tok:none|smooth:none" in multi_bleu(text, text, lowercase=False).signature
    assert "case:lc|eff:no|tok:none|smooth:none" in multi_bleu(text, text, lowercase=True).signature
    assert "case:mixed|eff:no|tok:13a|smooth:exp" in sacrebleu_13a(text, text).signature
    assert "nc:6|nw:0" in chrf2(text, text).signature


def test_lists_of_different_length_are_never_scored() -> None:
    with pytest.raises(AssertionError):
        detokenized_bleu(["a", "b"], ["a"])
    with pytest.raises(AssertionError):
        detokenized_bleu([], [])


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tokenised = ["this line is tokenised ."] * 200  # about which sacreBLEU likes to talk
    with caplog.at_level(logging.DEBUG):
        multi_bleu(tokenised, tokenised, lowercase=False)
        sacrebleu_13a(tokenised, tokenised)
        chrf2(tokenised, tokenised)
    assert not caplog.records

