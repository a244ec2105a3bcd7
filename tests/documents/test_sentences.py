import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nmtkit.documents.sentences import Span, between, sentences, whole_lines

awkward = st.text(
    st.one_of(
        st.sampled_from("\r\n\x0b\x0c\x1c\x85\u2028\t \u00a0\u200b.!?…。'\"()aA1Éß\U0001f600\x00"),
        st.characters(exclude_categories=["Cs"]),
    )
)


@given(awkward, st.booleans(), st.sampled_from(["en", "de", "zh", "ar", "xx"]))
@example("\u2028\u2028", True, "en")
def test_nothing_but_white_space_stands_between_sentences(text: str, split: bool, language: str) -> None:
    spans = sentences(text, language, split)
    ends = [0, *(end for span in spans for end in span), len(text)]
    assert ends == sorted(ends)
    assert all(text[start:end].strip() for start, end in spans)
    outside = "".join(text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True))
    assert not outside.strip()


@given(awkward, st.booleans())
def test_a_text_whose_sentences_stay_as_they_are_stays_as_it_is(text: str, split: bool) -> None:
    spans = sentences(text, "zh", split)
    parts = zip(between(text, spans, "zh", "zh"), [*(text[span.start : span.end] for span in spans), ""], strict=True)
    assert "".join(before + sentence for before, sentence in parts) == text


def test_a_tab_ends_a_sentence() -> None:
    text = "Name\tAge\t 42\r\tOne. Two."
    spans = sentences(text, "en", True)
    assert [text[a:b] for a, b in spans] == ["Name", "Age", "42", "One.", "Two."]
    assert between(text, spans, "en", "zh") == ["", "\t", "\t ", "\r\t", "", ""]


def test_unsplit_text_has_a_sentence_for_each_line_that_is_not_blank() -> None:
    text = " One. Two. \n\n\tThree.\r\nFour"
    assert [text[a:b] for a, b in sentences(text, "en", False)] == ["One. Two.", "Three.", "Four"]
    assert [text[a:b] for a, b in sentences(text, "en", True)] == ["One.", "Two.", "Three.", "Four"]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Dr. Smith paid $3.50, e.g. for tea.|He left."),
        ("de", "Am 3. Mai kam z. B. Dr. Maier.|Er blieb."),
        ("de_AT", "Am 3. Mai kam z. B. Dr. Maier.|Er blieb."),
        ("deu_Latn", "Am 3. Mai kam z. B. Dr. Maier.|Er blieb."),
        ("zh", "你好。|世界！"),
        ("ar", "كيف حالك؟|أنا بخير."),
    ],
)
def test_abbreviations_end_no_sentence(language: str, text: str) -> None:
    whole = text.replace("|", "" if language == "zh" else " ")
    assert [whole[a:b] for a, b in sentences(whole, language, True)] == text.split("|")


def test_sentences_without_spaces_between_them_get_some_in_a_language_that_has_them() -> None:
    spans = [Span(0, 3), Span(3, 6)]
    assert between("你好。世界！\n", spans, "zh", "en") == ["", " ", "\n"]
    assert between("你好。世界！\n", spans, "zh", "km") == ["", " ", "\n"]
    for language in ("ja", "zh-TW", "zh_Hant"):
        assert between("你好。世界！\n", spans, "ja", language) == ["", "", "\n"]


def test_sentences_of_chinese_have_no_spaces_between_them() -> None:
    spans = [Span(0, 2), Span(3, 5), Span(6, 8)]
    assert between("A. B.\nC.", spans, "en", "zh") == ["", "", "\n", ""]
    assert between("A. B.\nC.", spans, "en", "th") == ["", " ", "\n", ""]  # a space ends a sentence
    assert between("A. B.\nC.", spans, "my", "zho_Hans") == ["", "", "\n", ""]
    assert between("A. B.\nC.", spans, "ja", "zh") == ["", " ", "\n", ""]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("km", "ខ្ញុំស៊ីបាយ។|គាត់ទៅផ្ទះ៕|ចប់"),
        ("am", "ብዙ ሰው።|ሌላ ሰው ፡፡|ሦስት"),
        ("bo", "བོད་ཡིག།|བོད་སྐད།"),
        ("my", "မြန်မာနိုင်ငံ၏ မြို့တော်၊ နေပြည်တော်။|သူသွား၏။"),  # a comma and "of" end no sentence
    ],
)
def test_sentences_end_as_the_script_ends_them(language: str, text: str) -> None:
    whole = text.replace("|", " ")
    assert [whole[a:b] for a, b in sentences(whole, language, True)] == text.split("|")


@given(st.lists(st.text(), max_size=5))
def test_lines_stand_one_below_the_other(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert [text[span.start : span.end] for span in whole_lines(lines)] == lines


@pytest.mark.parametrize("unit", ["(", "“", "。", ". A", "a.", "!", "\n", "Dr. ", "“A. B.” "])
def test_the_time_is_in_proportion_to_the_text(unit: str) -> None:
    began = time.process_time()
    sentences(unit * (200_000 // len(unit)), "en", True)
    assert time.process_time() - began < 5


def test_sentences_of_a_long_line_are_those_of_its_parts() -> None:
    line = "He came at 3.15 p.m. to Mr. Jones. It was “late. Too late.” " * 200
    short = [line[a:b] for a, b in sentences(line[:59], "en", True)]
    assert len(short) >= 2
    assert [line[a:b] for a, b in sentences(line, "en", True)] == short * 200
