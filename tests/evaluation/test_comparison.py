"""Comparison of systems on a test set."""

import pytest

from nmtkit.evaluation.bleu import WORD_METRICS, score
from nmtkit.evaluation.comparison import Compared, System, compare
from nmtkit.evaluation.names import Names
from nmtkit.evaluation.significance import Test

SOURCES = [["w"] * length for length in (3, 5, 15, 12)]
HYPS = ["a b c d e", "f g h i", "a c e g i", "b d f h j"]
REFS = [["a b c d f", "f g h x", "a c e g i", "b d f x x"], ["a b c d e", "f g h y", "x x x x x", "b d f h y"]]


def test_subsets_are_scored_with_all_references() -> None:
    [system] = compare(
        Compared([System("one", "words", HYPS, REFS)], SOURCES, None, None), None, False, "multi-bleu"
    ).bins[:1]
    expected = score("multi-bleu", HYPS[:2], [ref[:2] for ref in REFS]).value
    assert (system.sentences, system.scores) == (2, [expected])
    assert expected != score("multi-bleu", HYPS[:2], [REFS[0][:2]]).value


def test_systems_are_tested_only_on_equal_references() -> None:
    """Models that tokenise differently have different words, but the same text."""
    texts = (HYPS, REFS[:1])
    one = System("one", "words", HYPS, REFS[:1], *texts)
    other = System("other", "letters", HYPS, [[f"{ref} ." for ref in REFS[0]]], *texts)
    same, different = (
        {
            difference.metric
            for difference in compare(Compared([one, each], SOURCES, None, None), "bs", False, "TER").differences
        }
        for each in (one, other)
    )
    assert same - different == set(WORD_METRICS)
    assert "sacreBLEU-13a" in different


@pytest.mark.parametrize(("test", "times", "warned"), [("bs", 12, True), ("bs", 13, False), ("ar", 1, False)])
def test_a_bootstrap_of_few_sentences_is_warned_of(
    test: Test, times: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    one = System("one", "words", HYPS * times, [REFS[0] * times])
    compare(Compared([one, one], (), None, None), test, False, "multi-bleu")
    assert ("48 sentences: with fewer than 50, the bootstrap's p and intervals are too small" in caplog.text) == warned


def test_names_are_all_counted_and_those_that_the_vocabulary_lacks_once_more() -> None:
    system = System("one", "words", ["Xi met him"], [["Xi met Yo"]])
    found = compare(Compared([system], [["Xi", "met", "Yo"]], None, {"Xi", "met"}), None, False, "multi-bleu")
    assert (found.names, found.unknown_names) == ([Names(2, 1)], [Names(1, 0)])
