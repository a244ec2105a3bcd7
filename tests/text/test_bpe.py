import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from nmtkit.errors import UserError
from nmtkit.text.bpe import Segmenter, learn_merges

CORPUS = "the lower lowest newer wider new low a@@ b@@b < / s > <s> été über" * 3
MERGES = learn_merges(Counter(CORPUS.split()), 30)

UNITS = {
    "".join(line.split()).removesuffix("</w>") + "@@" * (not line.endswith("</w>")) for line in MERGES.split("\n")[1:-1]
}
LETTERS = {letter + mark for letter in "abowlnr@</>s\u00e9" for mark in ("", "@@")}
words = st.text(st.sampled_from("abowlnr@</>s\u00e9"), min_size=1)


@given(st.lists(words))
def test_words_survive_segmentation_even_if_they_look_segmented(sentence: list[str]) -> None:
    assert Segmenter.join(Segmenter(MERGES).apply(sentence)) == sentence


def test_a_word_that_is_learnt_whole_survives_even_if_it_ends_like_a_subword() -> None:
    segmenter = Segmenter(learn_merges(Counter({"a@@": 9, "b": 9}), 9))
    for sentence in (["a@@", "b"], ["b", "a@@"], ["a@@"]):
        assert Segmenter.join(segmenter.apply(sentence)) == sentence


@given(st.lists(words))
def test_segmentation_is_that_of_subword_nmt(sentence: list[str]) -> None:
    sentence = [word for word in sentence if not word.endswith("@@")]
    assert Segmenter(MERGES).apply(sentence) == BPE(io.StringIO(MERGES)).segment_tokens(sentence)


@given(st.lists(words), st.sets(st.sampled_from(sorted(UNITS))))
def test_units_that_a_vocabulary_lacks_are_split_into_those_that_it_has(sentence: list[str], lacking: set[str]) -> None:
    known = {*UNITS, *LETTERS} - {unit for unit in lacking if unit not in LETTERS}
    segmenter = Segmenter(MERGES, known)
    pieces = segmenter.apply(sentence)
    assert Segmenter.join(pieces) == sentence
    assert {*pieces} <= {*known, "@", "@@@"}  # the marks in the text are split where they would be ambiguous


def test_segmentation_does_not_depend_on_the_size_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Segmenter(MERGES).apply(CORPUS.split())
    monkeypatch.setattr("nmtkit.text.bpe._CACHED_WORDS", 3)
    segmenter = Segmenter(MERGES)
    assert segmenter.apply(CORPUS.split()) == expected
    assert segmenter._split.cache_info().currsize == 3
    assert not segmenter._bpe.cache


def test_masks_of_placeholders_stay_whole_and_are_no_text_to_learn_from() -> None:
    counts = Counter(CORPUS.split())
    assert learn_merges(counts + Counter({"ǁ1ǁ": 90, "l'ǁ2ǁ": 90}), 30) == MERGES
    assert Segmenter(MERGES).apply(["ǁ1ǁ", "l'ǁ2ǁ"]) == ["ǁ1ǁ", "l@@", "'@@", "ǁ2ǁ"]


def test_a_word_that_a_translation_leaves_unfinished_ends_with_the_sentence() -> None:
    assert Segmenter.join(["lo@@", "wer", "n@@", "ew@@"]) == ["lower", "new"]


def test_merges_learnt_from_counts_are_those_subword_nmt_learns_from_lines(capsys: pytest.CaptureFixture[str]) -> None:
    output = io.StringIO()
    learn_bpe(io.StringIO(CORPUS.replace(" ", "\n")), output, 12)
    capsys.readouterr()
    assert learn_merges(Counter(CORPUS.split()), 12) == output.getvalue()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("sentence", ["", "a b c", "ab cd"])
def test_where_no_pair_of_letters_occurs_twice_there_is_nothing_to_learn(sentence: str) -> None:
    with pytest.raises(UserError, match=r"too little text to learn BPE: .* use whole `words`"):
        learn_merges(Counter(sentence.split()), 10)


def test_merges_that_are_not_two_symbols_are_reported_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "bpe.src").write_text("#version: 0.2\na b\na b c\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"bpe.src:3: expected two symbols to merge, found 'a b c'"):
        Segmenter.load(tmp_path / "bpe.src")


def test_merges_of_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bpe.src").write_text("#version: 0.3\na b\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"bpe.src:1: '#version: 0.3' is not a version that subword-nmt"):
        Segmenter.load(tmp_path / "bpe.src")


@pytest.mark.parametrize("text", ["", "#version: 0.2\n"])
def test_a_file_without_merges_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bpe.src").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"bpe\.src: has no merges; make it with nmtkit prep"):
        Segmenter.load(tmp_path / "bpe.src")
