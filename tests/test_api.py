import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import nmtkit
from nmtkit import api
from nmtkit.api import FIRST_WINDOW, LARGEST_WINDOW, Translator, windows
from nmtkit.errors import UserError
from nmtkit.search.beam import Hypothesis, Search
from tests.echo import load_echo, write_folder


@pytest.fixture
def translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    monkeypatch.setattr(api, "load_model", load_echo)
    return nmtkit.load(write_folder(tmp_path / "run"), device="cpu")


def test_a_translator_answers_every_line_in_order(translator: Translator) -> None:
    assert list(translator.translate(["a b", "", "c", "  ", "lower z"])) == ["a b", "", "c", "", "lower <unk>"]


def test_translate_answers_before_the_lines_end(translator: Translator) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a b c"

    answers = translator.translate(endless())
    assert [next(answers) for _ in range(3)] == ["a b c"] * 3


def test_an_n_best_list_is_sorted_and_has_scores_under_the_penalty(translator: Translator) -> None:
    averaged = replace(translator, search=replace(translator.search, length_penalty="avg"))
    [found, blank] = averaged.n_best(["a b", ""], 3)
    assert len(found) == 3
    assert found[0].text == "a b"
    assert math.isclose(found[0].log_prob, 3 * math.log(0.9), rel_tol=1e-5)
    assert math.isclose(found[0].score, math.log(0.9), rel_tol=1e-5)
    assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    assert [(t.text, t.score, t.tokens) for t in blank] == [("", 0.0, [])]


def test_alignment_joins_the_pieces_of_a_word_unless_tokenized(translator: Translator) -> None:
    [[joined]] = translator.n_best(["a lower b"], 1, alignment=True)
    assert joined.tokens == ["a", "low@@", "er", "b"]
    assert joined.alignment == [(0, 0), (1, 1), (2, 2)]
    [[pieces], [blank]] = translator.n_best(["a low@@ er b", ""], 1, tokenized=True, alignment=True)
    assert pieces.text == "a low@@ er b"
    assert pieces.alignment == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert blank.alignment == []


def test_a_word_for_which_the_model_looks_at_the_end_mark_is_not_aligned() -> None:
    attention = np.array([[0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]], dtype=np.float32)
    assert api.look_alignment(Hypothesis([5, 6], 0.0, 0.0, attention)) == [(1, 0)]


def test_a_model_without_attention_says_that_it_cannot_align(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "load_model", load_echo)
    blind = nmtkit.load(write_folder(tmp_path / "blind"), device="cpu")
    assert list(blind.translate(["a"])) == ["a"]
    with pytest.raises(UserError, match="this model cannot align: it has no attention"):
        blind.n_best(["a"], 1, alignment=True)


def test_a_translation_is_one_line(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator.tgt_pipeline, "text", lambda tokens: "\r\n".join(tokens))
    assert list(translator.translate(["a b"])) == ["a  b"]


def test_windows_grow_and_lose_nothing() -> None:
    sizes = [len(window) for window in windows(range(10_000), lambda: True)]
    assert sizes[:3] == [FIRST_WINDOW, 2 * FIRST_WINDOW, 4 * FIRST_WINDOW]
    assert max(sizes) == LARGEST_WINDOW
    assert [i for window in windows(range(10_000), lambda: True) for i in window] == list(range(10_000))


def test_a_window_ends_where_the_next_line_would_have_to_be_waited_for() -> None:
    at_hand = iter([True, False, False, True, False])
    assert list(windows("abcde", lambda: next(at_hand))) == [["a", "b"], ["c"], ["d", "e"]]


def test_the_device_is_a_gpu_only_where_there_is_one() -> None:
    assert api.choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert api.choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["toaster", "cuda:99"])
def test_a_device_that_cannot_be_used_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=f"--device {name}: cannot be used here .*; auto and cpu always can"):
        api.choose_device(name)


def test_search_settings_are_replaced_by_value(translator: Translator) -> None:
    assert translator.search == Search(beam_size=3, length_penalty="none")
    assert replace(translator, search=Search(beam_size=1)).search.beam_size == 1
