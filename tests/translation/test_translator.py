import itertools
import math
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import nmtkit
from nmtkit.align.posunk import Replacement, most_looked_at
from nmtkit.config import dump_yaml, to_dict
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.ops.precision import Products
from nmtkit.ops.tree import Tree
from nmtkit.search.batching import translate_each
from nmtkit.search.beam import Hypothesis, Search
from nmtkit.symbols import EOS
from nmtkit.text.settings import Prep, Side
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translator
from tests.echo import WORDS, Echo, forced, load_echo, with_lexicon, write_folder, write_model

REPLACING, PREFIXED = Request(replace_unk=True), Request(prefixes=True)


@pytest.fixture
def translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    monkeypatch.setattr(loading, "load_model", load_echo)
    return nmtkit.load(write_folder(tmp_path / "run"), device="cpu")


def test_a_translator_translates_every_line_in_order(translator: Translator) -> None:
    assert list(translator.translate(["a b", "", "c", "  ", "lower z"])) == ["a b", "", "c", "", "lower <unk>"]


def test_translate_yields_translations_before_the_lines_end(translator: Translator) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a b c"

    answers = translator.translate(endless())
    assert [next(answers) for _ in range(3)] == ["a b c"] * 3


def test_an_n_best_list_is_sorted_and_has_scores_under_the_penalty(translator: Translator) -> None:
    averaged = replace(translator, search=replace(translator.search, length_penalty="avg"))
    [found, blank] = averaged.answer(["a b", ""], Request(n_best=3))
    assert len(found) == 3
    assert found[0].text == "a b"
    assert math.isclose(found[0].log_prob, 3 * math.log(0.9), rel_tol=1e-5)
    assert math.isclose(found[0].score, math.log(0.9), rel_tol=1e-5)
    assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    assert [(t.text, t.score, t.tokens) for t in blank] == [("", 0.0, [])]


def test_alignment_joins_the_subwords_of_a_word_unless_tokenized(translator: Translator) -> None:
    [[joined]] = translator.answer(["a lower b"], Request(alignment=True))
    assert joined.tokens == ["a", "low@@", "er", "b"]
    assert joined.alignment == [(0, 0), (1, 1), (2, 2)]
    [[pieces], [blank]] = translator.answer(["a low@@ er b", ""], Request(tokenized=True, alignment=True))
    assert pieces.text == "a low@@ er b"
    assert pieces.alignment == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert blank.alignment == []


def test_a_word_that_attends_most_to_eos_is_not_aligned() -> None:
    attention = np.array([[0.2, 0.7, 0.1], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]], dtype=np.float32)
    assert most_looked_at(dict(enumerate(attention[:-1].tolist()))) == [(1, 0)]


def test_a_model_without_attention_says_that_it_cannot_align(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    blind = nmtkit.load(write_folder(tmp_path / "blind"), device="cpu")
    assert list(blind.translate(["a"])) == ["a"]
    with pytest.raises(UserError, match="this model cannot align words: it has no attention"):
        blind.answer(["a"], Request(alignment=True))


def test_a_window_does_not_hold_the_attention_of_all_its_lines(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrices = []
    held = []

    def watched(*arguments: Any, **options: Any) -> Iterator[tuple[int, list[Hypothesis]]]:
        for i, hypotheses in translate_each(*arguments, **options):
            matrices.append(weakref.ref(hypotheses[0].attention))
            held.append(sum(matrix() is not None for matrix in matrices))
            yield i, hypotheses

    monkeypatch.setattr("nmtkit.translation.translator.translate_each", watched)
    one_by_one = replace(translator, search=replace(translator.search, max_tokens=1))
    found = one_by_one.answer(["a b"] * 10, Request(alignment=True))
    assert [best[0].alignment for best in found] == 10 * [[(0, 0), (1, 1)]]
    assert len(held) == 10
    assert max(held) <= 2  # that of this batch, and the one replaced next


def test_an_unknown_word_is_translated_by_the_lexicon_or_copied(translator: Translator) -> None:
    [[copied]] = with_lexicon(translator, {}).answer(["a z lower"], REPLACING)
    assert (copied.text, copied.tokens, copied.alignment) == ("a z lower", ["a", "<unk>", "low@@", "er"], None)
    [[translated], [blank]] = with_lexicon(translator, {"z": "\r\u017e", "a": "no"}).answer(
        ["a z", ""], Request(alignment=True, replace_unk=True)
    )
    assert (translated.text, translated.alignment) == ("a  \u017e", [(0, 0), (1, 1)])
    assert blank.text == ""


def test_unknown_subwords_of_a_word_are_copied_one_by_one(translator: Translator) -> None:
    lines = ["Zürich b", "b Žižkov"]
    assert [best.text for [best] in with_lexicon(translator, {}).answer(lines, REPLACING)] == lines
    [[pieces]] = with_lexicon(translator, {}).answer(["Z@@ ü@@ rich b"], Request(tokenized=True, replace_unk=True))
    assert pieces.text == "Z@@ ü@@ rich b"


class Says:
    """Produces the same for any source, without attention."""

    def __init__(self, ids: list[int], words: int) -> None:
        self.ids, self.words = [*ids, EOS], words

    def parameters(self) -> list[Tensor]:
        return []

    def for_search(self, precision: Products) -> "Says":
        """The model itself, which has no products."""
        return self

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        return None, torch.zeros(len(src), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        assert isinstance(state, Tensor)
        said = torch.tensor(self.ids)[state.clamp(max=len(self.ids) - 1)]
        return torch.nn.functional.one_hot(said, self.words).float().log(), state + 1, None


@pytest.mark.parametrize("members", [1, 2])
def test_positions_predicted_by_an_annotated_model_lead_to_the_users_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: int
) -> None:
    folder = write_folder(tmp_path / "run")
    side = Side("en", lowercase=True, segmentation="words")
    (folder / "prep.yaml").write_text(dump_yaml(to_dict(Prep(side, side))))
    vocabulary = Vocabulary.choose(Counter({"monsieur": 2, "arrive": 1}).items(), None, 1, annotated=True)
    vocabulary.save(folder / "vocab.tgt")
    said = [vocabulary.words.index(word) for word in ("monsieur", "<unkpos_0>", "arrive", "<unkpos_-1>", "<unkpos_7>")]
    search = SimpleNamespace(search=Search(beam_size=1))
    monkeypatch.setattr(loading, "load_model", lambda *_: (Says(said, len(vocabulary)), search))
    blind = nmtkit.load([folder] * members, device="cpu")
    line = "Mr. McPherson comes to Rome."
    assert blind.answer([line], Request())[0][0].text == "monsieur <unkpos_0> arrive <unkpos_-1> <unkpos_7>"
    with pytest.raises(UserError, match=r"^`unk`: .*run.* writes the positions of unknown words instead"):
        blind.answer([line], Request(unk=False))
    assert with_lexicon(blind, {}).answer([line], REPLACING)[0][0].text == "monsieur McPherson arrive Rome <unk>"
    assert (
        with_lexicon(blind, {"rome": "Roma"}).answer([line], REPLACING)[0][0].text
        == "monsieur McPherson arrive Roma <unk>"
    )


class Squints(Echo):
    """Copies the source, and attends more to the word after the copied one."""

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        log_probs, state, look = super().step(memory, state, y)
        assert isinstance(look, Tensor)
        return log_probs, state, 0.3 * look + 0.7 * look.roll(1, dims=1)


@pytest.mark.parametrize("members", [1, 2])
def test_unknown_words_are_matched_to_plausible_source_words_unless_the_papers_rule_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: int
) -> None:
    monkeypatch.setattr(loading, "load_model", lambda *_: (Squints(looks=True), SimpleNamespace(search=Search())))
    folder = write_folder(tmp_path / "run")
    (folder / "lexicon.tsv").write_text("y\tY\t1\t1\n")
    squinting = nmtkit.load([folder] * members, device="cpu")
    papers = Request(replace_unk=True, unk_origin="papers")
    lines = ["a x b", "y c z", "a b c", ""]
    assert list(squinting.translate(lines, papers)) == ["a b b", "c c <unk>", "a b c", ""]
    assert list(squinting.translate(lines, REPLACING)) == ["a x b", "Y c z", "a b c", ""]
    every = Request(n_best=20, beam_size=20)
    [plain] = squinting.answer(["x a"], every)
    [replaced] = squinting.answer(["x a"], replace(every, replace_unk=True))
    assert replaced[0].text == "x a"
    assert {"<unk>" in best.tokens for best in plain} == {True, False}
    for before, after in zip(plain, replaced, strict=True):
        assert before.tokens == after.tokens
        assert before.text == after.text or "<unk>" in before.tokens


def test_an_ensemble_has_the_attention_of_members_with_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"blind": Echo(looks=False), "echo": Echo(looks=True), "squints": Squints(looks=True)}
    search = SimpleNamespace(search=Search())
    monkeypatch.setattr(loading, "load_model", lambda folder, *_: (models[folder.name], search))
    folders = {name: write_folder(tmp_path / name) for name in models}
    papers = Request(replace_unk=True, unk_origin="papers", n_best=2, beam_size=2)
    line = ["a x b"]
    # A squint has 0.7 beside the right word, so together with a right model 0.65 of the attention is right.
    for members, said in (
        (("blind", "echo"), "a x b"),
        (("squints", "blind"), "a b b"),
        (("squints", "blind", "echo"), "a x b"),
    ):
        ensemble = nmtkit.load([folders[name] for name in members], device="cpu")
        assert ensemble.answer(line, papers)[0][0].text == said
        assert ensemble.answer(line, replace(papers, unk_origin=None))[0][0].text == "a x b"


class Guesses(Says):
    """Produces the same for any source, and attends to given positions."""

    def __init__(self, said: str, looks: list[int]) -> None:
        super().__init__([WORDS.index(word) for word in said.split()], len(WORDS))
        self.looks = looks

    def begin(self, src: Tensor, src_mask: Tensor) -> tuple[Tree, Tree]:
        return src, torch.zeros(len(src), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, y: Tensor) -> tuple[Tensor, Tree, Tensor | None]:
        log_probs, after, _ = super().step(memory, state, y)
        assert isinstance(state, Tensor)
        assert isinstance(memory, Tensor)
        places = torch.tensor(self.looks)[state.clamp(max=len(self.looks) - 1)]
        return log_probs, after, torch.nn.functional.one_hot(places, memory.size(1)).float()


def annotated(folder: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Translator:
    """A translator with a vocabulary of ``nmtkit vocab --unkpos`` that says these words, one per source word."""
    write_folder(folder)
    vocabulary = Vocabulary.choose(Counter({"b": 2}).items(), None, 1, annotated=True)
    vocabulary.save(folder / "vocab.tgt")
    model = Guesses("b", [*range(len(said))])
    model.ids, model.words = [*map(vocabulary.words.index, said), EOS], len(vocabulary)
    monkeypatch.setattr(loading, "load_model", lambda *_: (model, SimpleNamespace(search=Search(beam_size=1))))
    return nmtkit.load(folder, device="cpu")


def test_what_replaces_unknown_words_does_not_depend_on_what_else_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = with_lexicon(annotated(tmp_path / "run", monkeypatch, ["b", "<unkpos_null>", "b"]), {})
    for more in ({}, {"alignment": True}, {"attention": True}, {"quality": True}):
        assert list(translator.translate(["b a b"], replace(REPLACING, **more))) == ["b a b"]


def test_a_name_misspelled_by_subwords_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = Guesses("a low@@ er b", [0, 1, 3, 4, 5])
    monkeypatch.setattr(loading, "load_model", lambda *_: (guesses, SimpleNamespace(search=Search(beam_size=2))))
    folder = write_folder(tmp_path / "run")
    unknown = Request(replace_unk=True)
    assert list(nmtkit.load(folder, device="cpu").translate(["a Xyz b"], unknown)) == ["a lower b"]  # no lexicon
    (folder / "lexicon.tsv").write_text("a\ta\t1\t9\nb\tb\t1\t9\nXyzzy\tlower\t1\t9\n")
    translator = nmtkit.load(folder, device="cpu")
    assert list(translator.translate(["a Xyz b", "a xyz b"], unknown)) == ["a Xyz b", "a lower b"]
    assert list(translator.translate(["a X@@ y@@ z b"], replace(unknown, tokenized=True))) == ["a Xyz b"]
    assert list(translator.translate(["a Xyz b"], replace(unknown, unk_origin="papers"))) == ["a lower b"]
    assert list(translator.translate(["a Xyz b"])) == ["a lower b"]
    [[best]] = translator.answer(["a Xyz b"], unknown)
    assert (best.tokens, best.written) == (["a", "low@@", "er", "b"], ["a", "Xyz", "", "b"])
    assert (best.replaced, best.unknown) == ([Replacement(1, 1, False)], (0, 1, 0))
    # Of a line in pieces every piece has its names.
    [[long]] = translator.answer(["a Xyz b a Uvw b"], replace(unknown, max_input_length=5))
    assert (long.text, long.pieces) == ("a Xyz b a Uvw b", 2)
    (folder / "pieces.tsv").write_text("a\ta\t1\t9\nlow@@\tlow@@\t1\t9\n")
    of_pieces = nmtkit.load(folder, "cpu", lexicon=folder / "pieces.tsv")
    assert list(of_pieces.translate(["a Xyz b"], unknown)) == ["a lower b"]


@pytest.mark.parametrize("said", ["a low@@ er b", "a d e b"])
def test_the_alignment_is_that_of_the_text_in_which_a_copied_name_replaces_tokens_or_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    guesses = Guesses(said, [0, 1, 3, 4, 5])
    monkeypatch.setattr(loading, "load_model", lambda *_: (guesses, SimpleNamespace(search=Search(beam_size=2))))
    folder = write_folder(tmp_path / "run")
    (folder / "lexicon.tsv").write_text("a\ta\t1\t9\nb\tb\t1\t9\n")
    request = Request(replace_unk=True, alignment=True)
    translator = nmtkit.load(folder, device="cpu")
    [[words]] = translator.answer(["a Xyz b"], request)
    assert (words.text, words.alignment) == ("a Xyz b", [(0, 0), (1, 1), (2, 2)])
    [[tokens]] = translator.answer(["a X@@ y@@ z b"], replace(request, tokenized=True))
    assert (tokens.text, tokens.alignment) == ("a Xyz b", [(0, 0), (1, 1), (3, 1), (4, 2)])
    [[pieces]] = translator.answer(["a Xyz b a Xyz b"], replace(request, max_input_length=5))
    assert (pieces.text, pieces.alignment) == ("a Xyz b a Xyz b", [(n, n) for n in range(6)])


@pytest.mark.parametrize("n_best", [1, 3])
def test_a_translation_without_unknown_words_and_names_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_best: int
) -> None:
    monkeypatch.setattr(loading, "load_model", lambda *_: (Squints(looks=True), SimpleNamespace(search=Search())))
    folder = write_folder(tmp_path / "run")
    (folder / "lexicon.tsv").write_text("a\tb\t1\t9\n")
    translator = nmtkit.load(folder, device="cpu")
    lines = ["a b c", "lower a", "", "h", "x a"]
    plain = Request(n_best=n_best, beam_size=3)
    for before, after in zip(
        itertools.chain(*translator.answer(lines, plain)),
        itertools.chain(*translator.answer(lines, replace(plain, replace_unk=True))),
        strict=True,
    ):
        if "<unk>" not in before.tokens:
            assert after == replace(before, replaced=[])


def test_replacing_unknown_words_without_attention_or_positions_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    blind = nmtkit.load(write_folder(tmp_path / "blind"), device="cpu")
    with pytest.raises(UserError, match=r"cannot replace unknown words: it has no attention .* \(`unkpos`\)"):
        with_lexicon(blind, {}).answer(["a"], REPLACING)
    assert with_lexicon(blind, {}).answer([""], REPLACING)[0][0].text == ""


def test_scores_of_given_translations_are_those_of_search(translator: Translator) -> None:
    lines = ["a b", "lower", "", "c"]
    found = [best[0] for best in translator.answer(lines, Request())]
    again = forced(translator, lines, [t.text for t in found])
    assert [(t.text, t.tokens) for t in again] == [(t.text, t.tokens) for t in found]
    np.testing.assert_allclose([t.score for t in again], [t.score for t in found], atol=1e-4)


def test_an_unknown_word_of_a_given_translation_is_a_symbol_that_an_annotated_model_has_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = annotated(tmp_path / "run", monkeypatch, ["b", "<unkpos_null>"])
    [[found]] = translator.answer(["b a"], Request())
    [[scored]] = translator.answer(["b a"], Request(references=True), ["b P"])
    [[log_probs]] = translator.score_candidates(["b a"], [["b P"]])
    [[prefixed]] = translator.answer(["b a"], Request(prefixes=True), ["b P"])
    assert (scored.tokens, prefixed.tokens) == (["b", "<unkpos_null>"], ["b", "P"])
    assert scored.log_probs == prefixed.log_probs == found.log_probs == log_probs.tolist()


@pytest.mark.parametrize("options", [{}, {"prefixes": True}, {"references": True}])
def test_lines_of_an_open_file_are_those_without_their_line_ends(
    translator: Translator, options: dict[str, Any]
) -> None:
    lines, targets = ["a low@@ er", "", "c b"], ["a low@@", "", "c b"] if options else None
    for request in (Request(**options), Request(tokenized=True, **options)):
        ended = [None if texts is None else [f"{text}\n" for text in texts] for texts in (lines, targets)]
        plain, found = translator.answer(lines, request, targets), translator.answer(ended[0] or [], request, ended[1])
        for [ours], [theirs] in zip(plain, found, strict=True):
            assert (ours.text, ours.tokens, ours.source) == (theirs.text, theirs.tokens, theirs.source)
            np.testing.assert_array_equal(ours.log_probs, theirs.log_probs)


def test_given_translations_are_aligned_like_those_of_search(translator: Translator) -> None:
    lines, look = ["a b", "lower a", ""], {"alignment": True, "attention": True, "quality": True}
    found = [best[0] for best in translator.answer(lines, Request(**look))]
    again = translator.answer(lines, Request(references=True, **look), [each.text for each in found])
    for searched, [given] in zip(found, again, strict=True):
        assert given.alignment == searched.alignment
        np.testing.assert_array_equal(given.attention, searched.attention)
        assert given.quality == pytest.approx(searched.quality, abs=1e-4)
    [[dumb]] = translator.answer([""], Request(references=True, **look), ["a b"])
    assert dumb.alignment == []
    [[half], *_] = translator.answer(["a b c d"], Request(references=True, quality=True), ["a b"])
    assert half.quality < math.exp(np.mean(half.log_probs))  # half of the source has no attention


def test_given_translations_are_scored_with_the_penalty_of_the_request_by_the_model_for_scoring(
    translator: Translator,
) -> None:
    [[given]] = translator.answer(["a b"], Request(references=True, length_penalty="avg"), ["a b c"])
    assert given.score == pytest.approx(given.log_prob / 4)
    certain = replace(translator, given=Says([WORDS.index("d")], len(WORDS)))
    assert [each.score for each in forced(certain, ["a b"], ["d"])] == [0.0]


def test_any_translation_can_be_scored(translator: Translator) -> None:
    said, unknown, blank, dumb = forced(translator, ["a", "a", "a", ""], ["a  b", "z", "", "b"])
    rest = math.log(0.1 / 13)
    np.testing.assert_allclose(said.log_probs, [math.log(0.9), rest, math.log(0.9)], rtol=1e-5)
    assert (said.text, said.tokens) == ("a  b", ["a", "b"])
    np.testing.assert_allclose(unknown.log_probs, [rest, math.log(0.9)], rtol=1e-5)
    np.testing.assert_allclose(blank.log_probs, [rest], rtol=1e-5)
    assert (dumb.score, dumb.tokens) == (-math.inf, ["b"])


def test_a_translation_begins_with_its_prefix(translator: Translator) -> None:
    found = translator.answer(["a b c", "a b", ""], PREFIXED, ["d", "", "e"])
    assert [best[0].text for best in found] == ["d b c", "a b", ""]


@pytest.mark.parametrize("lexicon", [None, {}, {"a": "A", "b": "B", "x": "X"}])
@pytest.mark.parametrize("prefix", ["z", "\U0001f600 d", "x lower", "Zürich", "a z b z c z d z"])
def test_a_prefix_is_kept_literally_even_with_out_of_vocabulary_words(
    translator: Translator, lexicon: dict[str, str] | None, prefix: str
) -> None:
    for line in ("a b c", "x a x b . " * 40):  # the second one is translated in pieces
        request = Request(alignment=True, prefixes=True, replace_unk=lexicon is not None)
        [[best], [blank]] = with_lexicon(translator, lexicon or {}).answer([line, ""], request, [prefix] * 2)
        tokens = translator.tgt_pipeline.tokens(prefix)
        assert best.tokens[: len(tokens)] == best.written[: len(tokens)] == tokens
        assert best.text.split()[: len(prefix.split())] == prefix.split()
        assert all(each.target >= len(tokens) for each in best.replaced or ())
        assert {t for _, t in best.alignment or ()} <= {*range(len(best.text.split()))}
        assert (blank.text, blank.tokens) == ("", [])


def test_unknown_words_after_a_prefix_are_replaced(translator: Translator) -> None:
    [[plain]] = translator.answer(["a x b"], PREFIXED, ["z"])
    [[replaced]] = with_lexicon(translator, {"x": "X"}).answer(
        ["a x b"], Request(prefixes=True, replace_unk=True), ["z"]
    )
    assert (plain.text, replaced.text, replaced.replaced) == ("z <unk> b", "z X b", [Replacement(1, 1, True)])


def test_no_name_is_copied_into_a_prefix_or_a_term(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = Guesses("a low@@ er b", [0, 1, 3, 4, 5])
    monkeypatch.setattr(loading, "load_model", lambda *_: (guesses, SimpleNamespace(search=Search(beam_size=2))))
    folder = write_folder(tmp_path / "run")
    (folder / "lexicon.tsv").write_text("a\ta\t1\t9\nb\tb\t1\t9\nXyzzy\tlower\t1\t9\n")
    translator = nmtkit.load(folder, device="cpu")
    request = Request(replace_unk=True, prefixes=True, tokenized=True)
    for prefix in ("", "a", "a low@@", "a low@@ er"):
        [[best]] = translator.answer(["a X@@ y@@ z b"], request, [prefix])
        assert best.text == ("a low@@ er b" if "low" in prefix else "a Xyz b")
    [[best]] = translator.answer(
        ["a X@@ y@@ z b"], Request(replace_unk=True, terms=(("X@@ y@@ z", "low@@ er"),), tokenized=True)
    )
    assert best.text == "a low@@ er b"


def test_attention_is_kept_when_requested(translator: Translator) -> None:
    [[plain]] = translator.answer(["a lower"], Request())
    [[looked], [blank]] = translator.answer(["a lower", ""], Request(attention=True))
    assert plain.attention is None
    assert looked.attention is not None
    assert looked.source == looked.tokens == ["a", "low@@", "er"]
    assert looked.attention.tolist() == np.eye(4).tolist()
    assert blank.attention is None


def test_a_translation_is_one_line(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator.tgt_pipeline, "text", lambda tokens: "\r\n".join(tokens))
    assert list(translator.translate(["a b"])) == ["a  b"]


def test_search_settings_are_replaced_by_value(translator: Translator) -> None:
    assert translator.search == Search(beam_size=3, length_penalty="none")
    assert replace(translator, search=Search(beam_size=1)).search.beam_size == 1


@pytest.mark.parametrize("segmentation", ["bpe", "words"])
def test_a_lexicon_is_read_only_if_needed(translator: Translator, tmp_path: Path, segmentation: str) -> None:
    prep = tmp_path / "run" / "prep.yaml"
    prep.write_text(prep.read_text().replace("segmentation: bpe", f"segmentation: {segmentation}"))
    for request in (REPLACING, Request(shortlist=0)):
        lacking = nmtkit.load(tmp_path / "run", "cpu", lexicon=tmp_path / "none.tsv")
        lacking.check(Request())
        with pytest.raises(UserError, match=r"none\.tsv: cannot be read: No such file"):
            lacking.check(request)


def test_a_lexicon_of_subwords_cannot_make_a_shortlist(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "pieces.tsv").write_text("a\ta\t1\t1\nlow@@\tlow@@\t1\t1\n")
    of_pieces = nmtkit.load(tmp_path / "run", "cpu", lexicon=tmp_path / "pieces.tsv")
    with pytest.raises(UserError, match=r"pieces.tsv: has subwords; a shortlist needs whole words"):
        of_pieces.answer(["a"], Request(shortlist=0))
    with pytest.raises(UserError, match="has subwords"):
        of_pieces.translate(["a"], Request(shortlist=0))  # before the first translation is taken
    with pytest.raises(
        UserError, match=r"`shortlist`: .*run has no lexicon; give one made by nmtkit align as `lexicon`"
    ):
        translator.answer(["a"], Request(shortlist=0))


def test_a_shortlist_has_frequent_words_translations_and_source_words(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "rnnsearch")
    lexicon = model / "lexicon.tsv"
    lexicon.write_text("a\tb\t0.5\t1\na\tlower\t0.5\t1\nlower\tc\t1\t1\nh\tg\t1\t1\n")
    translator = nmtkit.load(model, device="cpu")
    every = {token for best in translator.answer(["a lower d"], Request(n_best=5)) for t in best for token in t.tokens}
    narrow = Request(n_best=5, shortlist=0)
    produced = {token for best in translator.answer(["a lower d"], narrow) for t in best for token in t.tokens}
    assert every - {"<unk>", "a", "b", "c", "d", "low@@", "er"}
    assert produced <= {"<unk>", "a", "b", "c", "d", "low@@", "er"}
    assert produced - {"<unk>"}
    whole = translator.answer(["a b", ""], Request(n_best=3, shortlist=100))
    assert whole == translator.answer(["a b", ""], Request(n_best=3))


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda t: t.translate("one string"), "`lines`: a single text, where several are expected; put it into a list"),
        (lambda t: t.answer("one string", Request()), "`lines`: a single text, where several are expected"),
        (lambda t: t.answer(["a"], PREFIXED, "b"), "`prefixes`: a single text, where several are expected"),
        (lambda t: t.answer(["a", None], Request()), "`lines`: number 2 is None, not text"),
        (lambda t: t.answer(["a", b"b"], Request()), "`lines`: number 2 is b'b', not text"),
        (lambda t: t.answer(["a"], Request(n_best=0)), "`n_best`: 0 is not between 1 and 10000"),
        (lambda t: t.answer(["a"], Request(sample=True, seed=-1)), "`seed`: -1 is less than 0"),
        (lambda t: t.answer(["a"], Request(sample=True, prefixes=True), ["a"]), "or attention; leave `prefixes` out"),
        (lambda t: t.answer(["a"], Request(alignment=True, sample=True)), "or attention; leave `alignment` out"),
        (lambda t: t.answer(["a", "b"], PREFIXED, ["a"]), "`prefixes`: 1 of them for 2 lines; give one for each"),
        (lambda t: t.answer(["a"], PREFIXED, ["a", "b"]), "`prefixes`: 2 of them for 1 line; give one for each"),
        (lambda t: forced(t, ["a"], []), "`references`: 0 of them for 1 line; give one for each"),
        (lambda t: t.answer(["a"], Request(), ["b"]), "`prefixes`: given, but not requested"),
        (lambda t: t.answer(["a"], Request(references=True)), "`references`: missing"),
        (lambda t: t.translate(["a"], beam_size=0), "`beam_size`: 0 is not between 1 and"),
        (lambda t: t.translate(["a"], Request(sample=True), beam_size=2), "`sample`: sampling does not support"),
        (lambda t: t.translate(["a"], sample=False, seed=1), "`seed`: has no effect without `sample`; add it"),
        (lambda t: t.answer(["a"], Request(n_best=4)), "4 best translations need a beam size of at least 4, not 3"),
        (lambda t: t.answer([], Request(max_len_b=0)), "`max_len_b`: 0 is not between 1 and 1000000"),
    ],
)
def test_errors_have_the_names_of_arguments(
    translator: Translator, call: Callable[[Translator], object], complaint: str
) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        call(translator)


def test_lines_and_prefixes_may_be_any_iterables(translator: Translator) -> None:
    found = translator.answer((line for line in ("a b", "c")), PREFIXED, (prefix for prefix in ("d", "")))
    assert [best.text for [best] in found] == ["d b", "c"]


def test_a_translator_is_shown_in_a_line(translator: Translator, tmp_path: Path) -> None:
    assert repr(translator) == f"<Translator {tmp_path / 'run'}: en to en, 0.0 MB on cpu>"


def test_a_translation_is_shown_in_a_line_and_is_its_text(translator: Translator) -> None:
    [[best]] = translator.answer(["a b"], Request())
    assert repr(best) == f"<Translation 'a b', score {best.score:.3f}>"
    assert str(best) == "a b"


def test_options_may_be_arguments_and_lines_are_read_as_needed(translator: Translator) -> None:
    read = []

    def lines() -> Iterator[str]:
        for line in ("a b", "", "c") * 30:
            read.append(line)
            yield line

    answers = translator.translate(lines(), beam_size=2, n_best=2)
    assert read == []
    first = next(answers)
    assert first[0].text == "a b"
    assert len(first) == 2
    assert 0 < len(read) < 90
    assert len(list(answers)) == 89
    asked = Request(beam_size=3, n_best=1)
    assert [len(best) for best in translator.translate(["a", "b"], asked, n_best=3)] == [3, 3]
    assert list(translator.translate(["low@@ er"], tokenized=True)) == ["low@@ er"]


def test_an_argument_overrides_the_requests_field_even_with_false(translator: Translator) -> None:
    replacing, tokenized = REPLACING, Request(tokenized=True)
    assert list(translator.translate(["a z"], replacing)) == ["a z"]
    assert list(translator.translate(["a z"], replacing, replace_unk=False)) == ["a <unk>"]
    assert list(translator.translate(["low@@ er"], tokenized)) == ["low@@ er"]
    given = list(translator.translate(["low@@ er"]))
    assert given != ["low@@ er"]
    assert list(translator.translate(["low@@ er"], tokenized, tokenized=False)) == given


def test_request_is_part_of_the_python_api(translator: Translator) -> None:
    request = nmtkit.Request(replace_unk=True, beam_size=1)
    assert list(translator.translate(["a z"], request)) == ["a z"]
