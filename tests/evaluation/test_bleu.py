import logging
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.evaluation.bleu import TEXT_METRICS, WORD_METRICS, Score, score, standard_bleu, text_metrics


def multi_bleu(hyps: list[str], refs: list[str], *, lowercase: bool) -> Score:
    return score("multi-bleu-lc" if lowercase else "multi-bleu", hyps, [refs])


def ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def bleu_by_definition(hyps: list[str], *references: list[str]) -> float:
    """multi-bleu.perl's rule, written from Papineni et al. 2002: the test's own, shares nothing with sacreBLEU.

    An n-gram matches as often as the reference that has it most often; the reference length is the closest one's, of
    two as close the shorter one's.
    """
    correct, total = [0] * 4, [0] * 4
    length = ref_length = 0
    for hyp, *refs in zip(hyps, *references, strict=True):
        h, rs = hyp.split(), [ref.split() for ref in refs]
        for n in range(1, 5):
            known: Counter[tuple[str, ...]] = Counter()
            for r in rs:
                known |= ngrams(r, n)
            correct[n - 1] += (ngrams(h, n) & known).total()
            total[n - 1] += ngrams(h, n).total()
        length += len(h)
        ref_length += min((len(r) for r in rs), key=lambda found: (abs(found - len(h)), found))
    if 0 in correct:
        return 0.0
    brevity = 1.0 if length > ref_length else math.exp(1 - ref_length / length)
    return 100 * brevity * math.exp(sum(math.log(c / t) for c, t in zip(correct, total, strict=True)) / 4)


# Few word types, so that 4-grams do match; sentences from none to twelve words, so that lengths differ.
sentences = st.lists(st.sampled_from("a b c B".split()), max_size=12).map(" ".join)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8))
def test_multi_bleu_follows_its_definition(pairs: list[tuple[str, str]]) -> None:
    hyps, refs = map(list, zip(*pairs, strict=True))
    assert multi_bleu(hyps, refs, lowercase=False).value == pytest.approx(bleu_by_definition(hyps, refs))


@given(st.lists(st.tuples(sentences, sentences, sentences, sentences), min_size=1, max_size=8))
def test_multi_bleu_follows_its_definition_with_several_references(lines: list[tuple[str, str, str, str]]) -> None:
    hyps, *refs = map(list, zip(*lines, strict=True))
    assert score("multi-bleu", hyps, refs).value == pytest.approx(bleu_by_definition(hyps, *refs))


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
def test_multi_bleu_is_right_in_edge_cases(hyps: list[str], refs: list[str], expected: float) -> None:
    assert multi_bleu(hyps, refs, lowercase=False).value == pytest.approx(expected)
    assert bleu_by_definition(hyps, refs) == pytest.approx(expected) if hyps[0] else True


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4))
def test_lower_casing_equals_scoring_lower_cased_text(pairs: list[tuple[str, str]]) -> None:
    hyps, refs = map(list, zip(*pairs, strict=True))
    lowered = multi_bleu([h.lower() for h in hyps], [r.lower() for r in refs], lowercase=False)
    assert multi_bleu(hyps, refs, lowercase=True).value == lowered.value


def test_lower_casing_knows_every_alphabet() -> None:
    assert multi_bleu(["ÉTÉ À LA ΜΟΔΑ"], ["été à la μοδα"], lowercase=True).value == pytest.approx(100)


def test_13a_tokenises_plain_text() -> None:
    for hyp in ("Hello, big world!", "Hello , big world !"):
        assert score("sacreBLEU-13a", [hyp], [["Hello, big world!"]]).value == pytest.approx(100)


@pytest.mark.parametrize(
    ("metric", "hyp", "ref"),
    [
        ("intl", "10 $ – no", "10$–no"),  # symbols and dashes stand alone
        ("13a-lc", "Hello , BIG world !", "hello, big World!"),
    ],
)
def test_other_tokenisations_of_plain_text(metric: str, hyp: str, ref: str) -> None:
    assert score(metric, [hyp], [[ref]]).value == pytest.approx(100)
    assert score("sacreBLEU-13a", [hyp], [[ref]]).value < 100


def test_ter_counts_edits_per_reference_word() -> None:
    assert score("TER", ["a b c x"], [["a b c d"]]).value == pytest.approx(25)
    assert score("TER", ["c d a b"], [["a b c d"]]).value == pytest.approx(25)  # a shift is one edit
    assert score("TER", ["a b c x"], [["a b c d"], ["a b c x"]]).value == 0


@pytest.mark.parametrize("metric", [*WORD_METRICS, *TEXT_METRICS])
def test_blank_lines_are_scored(metric: str) -> None:
    right, wrong = (0, 100) if metric == "TER" else (100, 0)
    assert score(metric, [""], [[""]]).value == 0  # nothing to match, nothing to edit
    assert score(metric, [""], [["some text here"]]).value == wrong
    assert score(metric, ["some text here"], [[""]]).value == wrong
    some = score(metric, ["", "four words are here"], [["a", "four words are here"]]).value
    assert min(right, wrong) < some < max(right, wrong)


@pytest.mark.parametrize(
    ("language", "name", "tokenizer"),
    [
        ("en", "sacreBLEU-13a", "13a"),
        ("ko", "sacreBLEU-13a", "13a"),
        ("zh", "sacreBLEU-zh", "zh"),
        ("yue-HK", "sacreBLEU-zh", "zh"),
        ("ja", "sacreBLEU-char", "char"),
        ("th", "sacreBLEU-char", "char"),
        ("zho_Hans", "sacreBLEU-zh", "zh"),
        ("khm", "sacreBLEU-char", "char"),
    ],
)
def test_bleu_of_text_without_spaces_between_words_counts_characters(language: str, name: str, tokenizer: str) -> None:
    assert standard_bleu(language) == name
    assert [*text_metrics(language)] == [*dict.fromkeys([name, *TEXT_METRICS])]
    hyp, ref = ["我家的猫吃了鱼了"], ["我家的猫吃了鸟了"]
    if tokenizer != "13a":
        assert score(name, hyp, [ref]) == score(name, [" ".join(hyp[0])], [[" ".join(ref[0])]])
        assert score(name, hyp, [ref]).value > score("sacreBLEU-13a", hyp, [ref]).value
    assert f"|tok:{tokenizer}|" in score(name, hyp, [ref]).signature


def test_signatures_describe_the_metric() -> None:
    for metric, expected in {
        "multi-bleu": "nrefs:1|case:mixed|eff:no|tok:none|smooth:none",
        "multi-bleu-lc": "nrefs:1|case:lc|eff:no|tok:none|smooth:none",
        "sacreBLEU-13a": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp",
        "13a-lc": "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp",
        "mteval-lc": "nrefs:1|case:lc|eff:no|tok:13a|smooth:none",
        "intl": "nrefs:1|case:mixed|eff:no|tok:intl|smooth:exp",
        "chrF2": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0",
        "TER": "nrefs:1|case:lc|tok:tercom",
    }.items():
        text = ["some text of more words"]
        assert score(metric, text, [text]).signature.startswith(expected)
        assert score(metric, text, [text, text]).signature.startswith("nrefs:2|")


def mteval_by_definition(hyps: list[str], *references: list[str]) -> float:
    """BLEU of NIST's mteval-v11b without case: its tokenisation, shortest reference, and no smoothing."""
    correct, total, length, ref_length = [0] * 4, [0] * 4, 0, 0
    for hyp, *refs in zip(hyps, *references, strict=True):
        h, rs = mteval_words(hyp), [mteval_words(ref) for ref in refs]
        for n in range(1, 5):
            most: Counter[tuple[str, ...]] = Counter()
            for r in rs:
                most |= ngrams(r, n)
            correct[n - 1] += (ngrams(h, n) & most).total()
            total[n - 1] += ngrams(h, n).total()
        length += len(h)
        ref_length += min(map(len, rs))
    if 0 in correct:
        return 0.0
    brevity = min(0, 1 - ref_length / length)
    return 100 * math.exp(brevity + sum(math.log(c / t) for c, t in zip(correct, total, strict=True)) / 4)


def mteval_words(text: str) -> list[str]:
    """NormalizeText's language-dependent part: what is separated from its neighbours, character by character."""
    alone = set('{|}~[\\]^_` !"#$%&()*+:;<=>?@/')  # in ASCII between, say, [ and `
    words, text = "", f" {text.lower()} "
    for before, letter, after in zip(text, text[1:-1], text[2:], strict=False):
        inside = before in "0123456789" and after in "0123456789"
        if letter in alone or (letter in ".," and not inside):
            words += f" {letter} "
        elif letter == "-" and before in "0123456789":
            words += " - "
        else:
            words += letter
    return words.split()


plain = st.lists(st.sampled_from("The the cat, a 1,000 3.5 b. x-y 5-6 (so) $5".split()), max_size=12).map(" ".join)


@given(st.lists(st.tuples(plain, plain, plain), min_size=1, max_size=6))
def test_mteval_follows_its_definition_with_several_references(lines: list[tuple[str, str, str]]) -> None:
    hyps, *refs = map(list, zip(*lines, strict=True))
    assert score("mteval-lc", hyps, refs).value == pytest.approx(mteval_by_definition(hyps, *refs))


def test_the_brevity_penalty_of_mteval_uses_the_shortest_reference() -> None:
    hyp, refs = "a b c d e", [["A b c d e f"], ["A b c d"]]  # as close to one as to the other
    assert score("mteval-lc", [hyp], refs).value == pytest.approx(100)
    hyp, refs = "a b c d e", [["a b c d e f"], ["a b c"]]  # closer to the long one
    assert score("13a-lc", [hyp], refs).value == pytest.approx(100 * math.exp(1 - 6 / 5))
    assert score("mteval-lc", [hyp], refs).value == pytest.approx(100)
    assert score("mteval-lc", [hyp], refs).signature.startswith("nrefs:2|case:lc|eff:no|tok:13a|smooth:none|")
    assert "|ref:shortest" in score("mteval-lc", [hyp], refs).signature


def test_lists_of_different_length_are_never_scored() -> None:
    with pytest.raises(AssertionError):
        score("sacreBLEU-13a", ["a", "b"], [["a"]])
    with pytest.raises(AssertionError):
        score("sacreBLEU-13a", [], [[]])


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tokenised = ["this line is tokenised ."] * 200  # about which sacreBLEU likes to talk
    with caplog.at_level(logging.DEBUG):
        for metric in (*WORD_METRICS, *TEXT_METRICS):
            score(metric, tokenised, [tokenised])
    assert not caplog.records
