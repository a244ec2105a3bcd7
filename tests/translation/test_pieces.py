"""Long lines: where they are cut, the work for them, and results that are those of the whole line."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

import nmtkit
from nmtkit.config import dump_yaml, to_dict
from nmtkit.ops.tree import Tree
from nmtkit.text.pipeline import Segmenter, TextPipeline
from nmtkit.text.settings import Prep, Side
from nmtkit.translation import loading
from nmtkit.translation.pieces import Part, best_combinations, cuts, same_cuts, slices
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translator
from tests.echo import Echo, forced, load_echo, with_lexicon, write_folder, write_model

PIPELINE = TextPipeline(
    Side("en", normalize=False, tokenizer="none"), segmenter=Segmenter("#version: 0.2\nl o\nlo w\ne r</w>\n")
)
LONG = "a b c d . e f g h , a b c lower d e ! f g h a b"


def pieces(text: str, limit: int) -> list[str]:
    tokens = text.split(" ")
    return [" ".join(piece) for piece in slices(tokens, cuts(tokens, limit, PIPELINE))]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("a b c d", 4, ["a b c d"]),
        ("a b c . d e", 5, ["a b c .", "d e"]),
        ('a b . " c d e', 5, ['a b . "', "c d e"]),  # the quote belongs to the sentence that it closes
        ('a b c d " e', 4, ["a b c", 'd " e']),  # before a quote is no better than between any other words
        ("a b , c d e", 5, ["a b ,", "c d e"]),
        ("a , b . c d", 5, ["a , b .", "c d"]),
        ("a , b ። c d", 5, ["a , b ።", "c d"]),
        ("a , b ￭፡፡ c d", 5, ["a , b ￭፡፡", "c d"]),
        ("a , b ￭។ c d", 5, ["a , b ￭។", "c d"]),
        ("a b c d ￭، e", 5, ["a b c d ￭،", "e"]),
        ("a b c ￭་ d ￭། e", 6, ["a b c ￭་ d ￭།", "e"]),
        ("a b ￭၊ c ￭။ d", 5, ["a b ￭၊ c ￭။", "d"]),  # a comma and a full stop
        ("a b ￭፡￭ c ￭፣ d", 5, ["a b ￭፡￭ c ￭፣", "d"]),  # a space and a comma
        ("a b c . ” d , e f g h i j k", 10, ["a b c . ”", "d , e f g h i j k"]),
        ("a b c d e f", 5, ["a b c", "d e f"]),
        ("a low@@ er b c", 4, ["a low@@ er", "b c"]),
        ("l@@ o@@ w@@ l@@ o@@ w", 4, ["l@@ o@@ w@@", "l@@ o@@ w"]),
        ("a b c", 1, ["a", "b", "c"]),
    ],
)
def test_a_line_is_cut_at_the_best_place(text: str, limit: int, expected: list[str]) -> None:
    assert pieces(text, limit) == expected


@example([".", "a", "b", "c", "d"], 4)  # the second half of the limit has no end of a sentence
@given(st.lists(st.sampled_from(["a", "low@@", ".", ",", "”", "b"]), max_size=200), st.integers(1, 30))
def test_pieces_concatenate_to_the_line_and_their_number_is_proportional_to_its_length(
    tokens: list[str], limit: int
) -> None:
    parts = slices(tokens, cuts(tokens, limit, PIPELINE))
    assert [token for part in parts for token in part] == tokens
    assert all(max(1, limit // 2) <= len(part) <= limit for part in parts[:-1])
    assert len(parts[-1]) <= limit


def test_another_tokenisation_is_cut_at_the_same_characters() -> None:
    assert same_cuts([0, 2, 3], ["lower", "a", "lower", "b"], ["low@@", "er", "a", "l@@", "ower", "b"]) == [0, 3, 5]


@given(st.lists(st.lists(st.integers(-9, 0), min_size=1, max_size=4), min_size=1, max_size=4), st.integers(1, 9))
def test_the_best_combinations_are_those_with_the_highest_sums(scores: list[list[int]], n: int) -> None:
    parts = [[Part([], [], None, float(score), [], [], None, [], None) for score in group] for group in scores]
    expected = sorted((sum(combination) for combination in itertools.product(*scores)), reverse=True)[:n]
    assert [sum(part.score for part in chosen) for chosen in best_combinations(parts, n)] == expected


@pytest.fixture
def translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    """Copies the source, and attends to the copied word."""
    monkeypatch.setattr(loading, "load_model", load_echo)
    return nmtkit.load(write_folder(tmp_path / "run"), device="cpu")


def test_a_line_in_pieces_is_translated_whole(translator: Translator) -> None:
    request = Request(max_input_length=5, alignment=True, attention=True, replace_unk=True)
    [[whole]] = translator.answer([LONG], replace(request, max_input_length=100))
    [[joined], [blank], [short]] = translator.answer([LONG, "", "a b"], request)
    assert (joined.text, joined.tokens, joined.source) == (LONG, whole.tokens, whole.source)
    assert joined.alignment == whole.alignment
    assert joined.attention is not None
    assert whole.attention is not None
    np.testing.assert_array_equal(joined.attention, whole.attention)
    assert [whole.pieces, blank.pieces, short.pieces] == [1, 1, 1]
    assert joined.pieces == 5


def test_scores_of_a_line_in_pieces_are_of_the_whole_line(translator: Translator) -> None:
    averaged = replace(translator, search=replace(translator.search, length_penalty="avg"))
    [[joined]] = averaged.answer([LONG], Request(max_input_length=5))
    assert len(joined.log_probs) == len(joined.tokens) + 1
    np.testing.assert_allclose(joined.log_probs[:-1], math.log(0.9), rtol=1e-4)
    assert joined.log_probs[-1] == pytest.approx(joined.pieces * math.log(0.9), rel=1e-4)  # every piece has its end
    assert joined.score == pytest.approx(joined.log_prob / len(joined.log_probs))


def test_the_coverage_penalties_of_the_pieces_add_up(translator: Translator) -> None:
    """Attends to one word more than it may produce, for EOS: the last word of each piece gets no attention."""
    request = Request(max_input_length=4, coverage_penalty=0.5, length_penalty="avg", max_len_a=0.0, max_len_b=2)
    [[joined]] = translator.answer(["a b c d a b c d"], request)
    unread = 2 * 0.5 * math.log(1e-10)
    assert joined.tokens == ["a", "b"] * 2
    assert joined.score == pytest.approx(joined.log_prob / 5 + unread, rel=1e-4)


@pytest.mark.parametrize("penalty", ["none", "avg", "gnmt"])
def test_the_n_best_of_a_line_in_pieces_are_different_and_sorted(translator: Translator, penalty: Any) -> None:
    request = Request(n_best=20, beam_size=20, length_penalty=penalty, max_input_length=4)
    [best] = translator.answer(["a b c d e f g"], request)
    assert best[0].text == "a b c d e f g"
    assert len({tuple(translation.tokens) for translation in best}) == 20
    assert [t.score for t in best] == sorted((t.score for t in best), reverse=True)


def test_samples_of_a_line_in_pieces_do_not_depend_on_its_position(translator: Translator) -> None:
    request = Request(n_best=3, sample=True, seed=7, max_input_length=4)
    [alone] = translator.answer(["a b c d e f g h"], request)
    _, beside = translator.answer(["c", "a b c d e f g h"], request)
    assert alone == beside
    assert len(alone) == 3


def test_the_samples_of_the_pieces_of_a_line_are_combined_at_random(translator: Translator) -> None:
    [whole] = translator.answer(["a b c d a b c d"], Request(n_best=20, sample=True, seed=7, max_input_length=4))
    [half] = translator.answer(["a b c d"], Request(n_best=20, sample=True, seed=7))  # the same, sorted by score
    assert len({tuple(sample.tokens) for sample in half}) > 5
    assert sorted(sample.tokens for sample in whole) != sorted(2 * sample.tokens for sample in half)
    assert sum(sample.log_prob for sample in whole) == pytest.approx(2 * sum(sample.log_prob for sample in half))


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("g", "g b c d e f a b c d e"),
        ("g low@@", "g low@@ c d e f a b c d e"),
        ("g g g g g g", "g g g g g g b c d e"),  # half of it is all of the first piece's
        ("g g g g g g g g g g g g", "g g g g g g g g g g g g"),
    ],
)
def test_a_line_in_pieces_begins_with_its_prefix(translator: Translator, prefix: str, text: str) -> None:
    request = Request(max_input_length=4, prefixes=True, tokenized=True)
    [[joined], [free]] = translator.answer(["a b c d e f a b c d e"] * 2, request, [prefix, ""])
    assert joined.text == text
    assert free.text == "a b c d e f a b c d e"


def test_unknown_words_of_every_piece_are_replaced(translator: Translator) -> None:
    [[joined]] = with_lexicon(translator, {"y": "e"}).answer(["x b c d y f z h"], Request(replace_unk=True))
    [[pieces]] = replace(translator).answer(["x b c d y f z h"], Request(max_input_length=3, replace_unk=True))
    assert joined.text == "x b c d e f z h"
    assert pieces.text == "x b c d y f z h"
    assert pieces.pieces == 3


@pytest.mark.parametrize("segmentation", ["words", "bpe"])
def test_words_of_every_piece_of_lower_cased_text_are_copied_as_they_were_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segmentation: Any
) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folder = write_folder(tmp_path / "run")
    side = Side("en", normalize=False, tokenizer="none", lowercase=True, segmentation=segmentation)
    (folder / "prep.yaml").write_text(dump_yaml(to_dict(Prep(side, side))))
    (folder / "lexicon.tsv").write_text("a\ta\t1\t9\nb\tb\t1\t9\n")
    line = "a Lower b a a b Uvw"
    [[joined]] = nmtkit.load(folder, device="cpu").answer([line], Request(replace_unk=True, max_input_length=4))
    assert joined.text == line
    assert joined.pieces > 1


def test_chinese_pieces_are_joined_without_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folder = write_folder(tmp_path / "run")
    side = Side("zh", normalize=False, tokenizer="reversible", segmentation="words")
    (folder / "prep.yaml").write_text(dump_yaml(to_dict(Prep(side, side))))
    for name in ("vocab.src", "vocab.tgt"):
        text = (folder / name).read_text()
        for letter, word in (("a", "我"), ("b", "￭去"), ("c", "￭。")):
            text = text.replace(f"\n{letter}\t", f"\n{word}\t")
        (folder / name).write_text(text, encoding="utf-8")
    [[joined]] = nmtkit.load(folder, device="cpu").answer(["我去。 我去。 我去。"], Request(max_input_length=4))
    assert (joined.text, joined.pieces) == ("我去。我去。我去。", 3)


def test_references_are_scored_whole(translator: Translator) -> None:
    [whole] = forced(translator, ["a " * 300], ["a " * 300])
    assert whole.pieces == 1
    np.testing.assert_allclose(whole.log_probs, [math.log(0.9)] * 301, rtol=1e-3)


def test_members_of_an_ensemble_read_the_same_pieces(tmp_path: Path) -> None:
    models = [write_model(tmp_path / f"m{seed}", "rnnsearch", seed) for seed in range(2)]
    (models[1] / "bpe.src").write_text("#version: 0.2\nl o\n")
    mixed = nmtkit.load(models, "cpu")
    line, request = "lower a lower b", Request(max_input_length=3, max_len_a=0.0, max_len_b=5, alignment=True)
    [[joined]] = mixed.answer([line], request)
    [[first], [second]] = mixed.answer(["lower a", "lower b"], request)
    assert joined.tokens == first.tokens + second.tokens
    assert joined.pieces == 2


class Counting(Echo):
    """Counts the rows of its steps."""

    rows = 0

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        Counting.rows += len(y)
        return super().step(memory, state, y)


def test_the_work_for_a_line_is_proportional_to_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rows times source tokens, the cost of a step: without pieces, four times the length costs 16 times as much."""
    model: Any = Counting(looks=True)
    monkeypatch.setattr(loading, "load_model", lambda *_: (model, load_echo(tmp_path, torch.device("cpu"))[1]))
    translator = nmtkit.load(write_folder(tmp_path / "run"), device="cpu")
    done = []
    for words in (1000, 4000):
        Counting.rows = 0
        [[best]] = translator.answer(["a b c d " * (words // 4)], Request(alignment=True))
        assert len(best.tokens) == words
        done.append(Counting.rows)
    assert done[1] < 4.5 * done[0]
