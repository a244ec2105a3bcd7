from collections import Counter
from pathlib import Path

import pytest

from nmtkit.align.lexicon import Lexicon, load_translations, write_lexicon
from nmtkit.errors import UserError


def test_probability_is_the_share_of_all_links_and_a_pair_must_exceed_the_threshold(tmp_path: Path) -> None:
    counts = Counter({("a", "x"): 3, ("a", "y"): 6, ("a", "z"): 1, ("b", "x"): 2})
    assert write_lexicon(tmp_path / "lexicon", counts, 2) == 2
    assert (tmp_path / "lexicon").read_text() == "a\ty\t0.6\t6\na\tx\t0.3\t3\n"
    assert write_lexicon(tmp_path / "lexicon", counts, 0) == 4
    assert Lexicon.load(tmp_path / "lexicon").best == {"a": "y", "b": "x"}


def test_probabilities_have_six_digits_and_equally_frequent_translations_are_in_alphabetical_order(
    tmp_path: Path,
) -> None:
    write_lexicon(tmp_path / "lexicon", Counter({("a", "z"): 1, ("a", "x"): 1, ("a", "y"): 1}), 0)
    assert (tmp_path / "lexicon").read_text() == "a\tx\t0.333333\t1\na\ty\t0.333333\t1\na\tz\t0.333333\t1\n"


def test_a_word_has_its_twenty_best_translations(tmp_path: Path) -> None:
    (tmp_path / "lexicon").write_text("".join(f"a\tx{n}\t{n / 100}\t{n}\n" for n in range(1, 31)))
    assert [*Lexicon.load(tmp_path / "lexicon").translations["a"]] == [f"x{n}" for n in range(30, 10, -1)]


def test_the_most_probable_translation_wins_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "lexicon").write_text("a\tx\t0.2\t2\na\ty\t0.5\t5\na\tz\t0.3\t3\n")
    assert Lexicon.load(tmp_path / "lexicon").best == {"a": "y"}


def test_the_most_probable_translations_come_first(tmp_path: Path) -> None:
    (tmp_path / "lexicon").write_text("a\tx\t0.2\t2\na\ty\t0.5\t5\nb\tx\t1\t3\na\tz\t0.3\t3\n")
    for most, best in ((2, [("y", 0.5), ("z", 0.3)]), (9, [("y", 0.5), ("z", 0.3), ("x", 0.2)])):
        found = load_translations(tmp_path / "lexicon", most)
        assert {word: list(translations.items()) for word, translations in found.items()} == {
            "a": best,
            "b": [("x", 1)],
        }


@pytest.mark.parametrize(
    "line",
    ["a", "a\tb", "a\tb\t0.5", "a\tb\tx\t2", "a\tb\t2\t2", "a\tb\t0\t2", "a\tb\t0.5\t0", "a a\tb\t0.5\t2", "\tb\t1\t2"],
)
def test_an_invalid_entry_is_reported_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "lexicon").write_text(f"a\tb\t1\t2\n{line}\n")
    with pytest.raises(UserError, match="lexicon:2: expected source word, target word, probability and count"):
        assert Lexicon.load(tmp_path / "lexicon").best
