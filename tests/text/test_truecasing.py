from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesDetruecaser, MosesTruecaser

from nmtkit.errors import UserError
from nmtkit.text.reversible import tokenize
from nmtkit.text.truecasing import Truecaser, count_cases, detruecased, learn_truecaser

words = st.text(st.sampled_from("abowlnr@</>s\u00e9"), min_size=1)


@given(st.lists(st.sampled_from(["The", "the", "THE", "cat", "Cat", ".", ":", '"', "(", "1", "Rome", "rome", "x|y"])))
def test_truecasing_is_that_of_moses(tmp_path_factory: pytest.TempPathFactory, sentence: list[str]) -> None:
    training = ["a the cat the The Rome".split(), "x Rome ( cat Cat cat .".split()]
    path = tmp_path_factory.mktemp("model") / "truecase.src"
    path.write_text(learn_truecaser(count_cases(training), "en"), encoding="utf-8")
    moses = MosesTruecaser(str(path))
    expected = moses.truecase(" ".join(sentence), use_known=True)
    assert Truecaser.load(path, "en").apply(sentence) == expected


@given(st.lists(st.sampled_from(["the", "x", ".", ":", '"', "(", "&quot;", "&#91;", "1", "rome", "ñandu", "￭"])))
def test_sentences_get_their_capitals_again_as_in_moses(sentence: list[str]) -> None:
    assert detruecased(sentence, "en") == MosesDetruecaser().detruecase(" ".join(sentence))


def test_joiners_do_not_hide_the_end_of_a_sentence() -> None:
    assert detruecased(["one", "￭.", "(￭", "two"], "en") == ["One", "￭.", "(￭", "Two"]


def test_the_joiners_of_reversible_tokens_change_no_case() -> None:
    truecaser = Truecaser({"the": "the", "rome": "Rome"}, {"The"})
    assert truecaser.apply(tokenize("Is it? The (The")) == tokenize("Is it? the (The")
    assert truecaser.apply(["The", "The"]) == ["the", "The"]


def test_a_truecasing_model_is_text_that_moses_reads() -> None:
    counts = count_cases(["x the the The".split(), "x Rome".split()])
    assert learn_truecaser(counts, "en") == "the (2/3) The (1)\nRome (1/1)\n"


@pytest.mark.parametrize("line", ["the", "the (2/3) The", ""])
def test_a_damaged_truecasing_model_is_reported_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "truecase.src").write_text(f"a (1/1)\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"truecase.src:2: expected 'word \(count/total\)"):
        Truecaser.load(tmp_path / "truecase.src", "en")
