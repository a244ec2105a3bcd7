"""Upper and lower case in the languages where they differ from Unicode's default."""

from typing import cast
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.text.casing import capitalised, is_capitalised, lower
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.settings import Side, Tokenizer
from nmtkit.text.truecasing import Truecaser, count_cases, learn_truecaser


@given(st.text(), st.sampled_from(["en", "de", "xx", "gn"]))
def test_lower_case_is_unicode_s_in_most_languages(text: str, language: str) -> None:
    assert lower(text, language) == text.lower()


@pytest.mark.parametrize("language", ["tr", "tr-TR", "tur_Latn", "az", "azj", "crh"])
def test_turkish_has_two_letters_i(language: str) -> None:
    assert lower("Iğdır İyi IŞIK", language) == "ığdır iyi ışık"
    assert lower(normalize("NFD", "Iğdır İyi"), language) == normalize("NFD", "ığdır iyi")
    assert [capitalised(word, language) for word in ("iyi", "ışık", "su", "")] == ["İyi", "Işık", "Su", ""]


def test_a_capital_is_a_title_letter() -> None:
    words = {"დედა": "დედა", "ǆep": "ǅep", "ﬁne": "Fine", "über": "Über", "word": "Word", "1a": "1a"}
    assert {word: capitalised(word, "en") for word in words} == words


@pytest.mark.parametrize(
    ("word", "expected"), [("Rome", True), ("rome", False), ("ᎦᎵᏦᏕ", False), ("Éa", True), ("", False)]
)
def test_cherokee_words_are_no_capitalised_words(word: str, expected: bool) -> None:
    assert is_capitalised(word) == expected


def test_moses_knows_no_exceptions() -> None:
    for tokenizer, written in (("reversible", "ısı"), ("moses", "isi"), ("none", "isi")):
        side = Side("tr", tokenizer=cast(Tokenizer, tokenizer), lowercase=True, segmentation="words")
        assert TextPipeline(side).tokens("ISI") == [written]


@pytest.mark.parametrize("language", ["tr", "ka"])
def test_truecased_text_comes_back_with_its_capitals(language: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = {"tr": ["İyi ışık var. Işık iyi.", "İyi su. Işık var iyi ışık."], "ka": ["დედა მიდის. ბავშვი დედა."]}[
        language
    ]
    side = Side(language, normalize=False, tokenizer="reversible", truecase=True, segmentation="words")
    path = tmp_path_factory.mktemp("model") / "truecase.src"
    plain = TextPipeline(Side(language, normalize=False, tokenizer="reversible", segmentation="words"))
    path.write_text(learn_truecaser(count_cases(map(plain.tokens, lines)), language), encoding="utf-8")
    pipeline = TextPipeline(side, Truecaser.load(path, language))
    assert [pipeline.text(pipeline.tokens(line)) for line in lines] == lines
    assert pipeline.tokens(lines[0])[0] == lines[0].split()[0].replace("İ", "i")
