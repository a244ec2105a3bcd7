"""Reversible tokenisation: text of every language detokenises exactly."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.text.pipeline import TextPipeline, letters
from nmtkit.text.reversible import JOINER, join, tokenize
from nmtkit.text.round_trip import RoundTrip, describe_loss, round_trip
from nmtkit.text.settings import Side

# Made text with the traits of text that other tokenizers break.
TRAITS = {
    "apostrophes inside words and at their ends": "omokyre'ÿ bua'ë 'uka e' ma’ajo ŕi'rí ch’usa ʼawa ‘ina rock'n'roll",
    "a plus sign that is a vowel": "k+naya pepi+ +ka m+k+",
    "combining marks, composed": unicodedata.normalize("NFC", "kèq îxñẽ u̱ e̱ ã́ ñandéva"),
    "combining marks, decomposed": unicodedata.normalize("NFD", "kèq îxñẽ u̱ e̱ ã́ ñandéva"),
    "a mark that stands alone": "\u0301 a \u0332",
    "hyphens": "well-known - co‑op –dash— a—b -x x- --option",
    "guillemets": "« Bonjour », dit-il. »Nein«, ‹so› „Zitat“ “quote”",
    "spaced punctuation": "¿ má tza ? ( 3 ) mí ; ke mu , kalé .",
    "abbreviations": "Dr. Smith et al., U.S.A., z. B. No. 5, 3.5 %, 1,000.00",
    "addresses": "http://www.example.org/a_b?q=1&r=%20#top me@example.org",
    "emoji": "fine 👩‍👩‍👧!!🙂🙂 ❤️ 🇵🇪",
    "mixed scripts": "我是人。Hello世界 привет-мир שלום ﷺ नमस्ते กขค か゛ﾊﾟ",
    "marks of BPE and SentencePiece": "@@ a@@ @@b a@@b ▁x",
    "brackets around words": '("Hi") [a] {b} <c> (d(e)f)',
}


@pytest.mark.parametrize("line", TRAITS.values(), ids=TRAITS.keys())
def test_text_detokenises_exactly(line: str) -> None:
    assert join(tokenize(line)) == line


@given(st.text())
def test_any_text_detokenises_exactly_except_white_space_and_joiners(line: str) -> None:
    assert join(tokenize(line)) == " ".join(line.replace(JOINER, "■").split())


@given(st.text())
def test_tokens_have_no_white_space_and_survive_as_a_line(line: str) -> None:
    tokens = tokenize(line)
    assert " ".join(tokens).split() == tokens
    assert all(tokens)


@given(st.text(alphabet="ab@'.,(￭ \u0301我"))
def test_subwords_of_any_tokens_join_back(line: str) -> None:
    from nmtkit.text.bpe import Segmenter

    pipeline = TextPipeline(
        Side("xx", normalize=False, tokenizer="reversible"), None, Segmenter("#version: 0.2\na b\n")
    )
    assert pipeline.text(pipeline.tokens(line)) == " ".join(line.replace(JOINER, "■").split())


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("Hello, world!", "Hello ￭, world ￭!"),
        ('("Don\'t!")', '(￭ "￭ Don\'t ￭! ￭" ￭)'),
        ("a—b... c", "a ￭—￭ b ￭... c"),
        ("我是A。", "我 ￭是 ￭A ￭。"),
        ("k+naya omokyre'ÿ 3.5", "k+naya omokyre'ÿ 3.5"),
        ("", ""),
    ],
)
def test_punctuation_carries_the_joiner_and_words_do_not(line: str, tokens: str) -> None:
    assert " ".join(tokenize(line)) == tokens


def test_a_run_of_marks_may_be_very_long() -> None:
    line = "." * 8_000_000
    assert join(tokenize(line)) == line


def test_a_word_is_the_same_token_in_every_position() -> None:
    assert {letters(token) for token in tokenize('word (word) "word", word! ¿word?')} >= {"word"}
    assert tokenize('word (word) "word", word! ¿word?').count("word") == 5


def test_the_first_word_of_a_sentence_is_truecased_behind_marks() -> None:
    from nmtkit.text.truecasing import Truecaser

    side = Side("en", normalize=False, tokenizer="reversible", truecase=True, segmentation="words")
    pipeline = TextPipeline(side, Truecaser({"the": "the"}, set()))
    assert pipeline.tokens('"The end. The end') == ['"￭', "the", "end", "￭.", "the", "end"]


def test_a_round_trip_counts_unchanged_lines_and_shows_the_first_changed_one() -> None:
    moses = TextPipeline(Side("gn", segmentation="words"))
    assert round_trip(moses, ["mba'e", "Hello, world!", "a  b"]) == RoundTrip(3, 2, "mba'e", "mba 'e")
    shown = describe_loss({"line": "a" * 99 + " mba'e" + " b" * 99, "becomes": "a" * 99 + " mba 'e" + " b" * 99})
    assert shown == f"""{"mba'e" + " b" * 14!r} becomes {"mba 'e" + " b" * 13 + " "!r}"""
    shown = describe_loss({"line": "a" * 99 + "+b", "becomes": "a" * 99 + " + b"})
    assert shown == f"{'a' * 30 + '+b'!r} becomes {'a' * 30 + ' + b'!r}"
    own = TextPipeline(Side("gn", normalize=False, tokenizer="reversible", lowercase=True, segmentation="words"))
    assert round_trip(own, ["Mba'e", "Hello,  world!"]) == RoundTrip(2, 2, None, None)
