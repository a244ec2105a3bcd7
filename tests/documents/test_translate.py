"""Whole paragraphs are translated; markup and placeholders are where their words are, each as often as it must be."""

import re
from pathlib import Path
from random import Random
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align.lexicon import NO_LEXICON, Lexicon
from nmtkit.documents.alignment import Aligned, align, balanced, characters, probabilities
from nmtkit.documents.placeholders import find, patterns, stand_ins
from nmtkit.documents.segment import Mark, Segment
from nmtkit.documents.sentences import Span
from nmtkit.documents.translate import Plan, plan
from nmtkit.errors import UserError
from nmtkit.text.placeholders import PLACEHOLDERS
from nmtkit.translation import loading
from nmtkit.translation.request import Request
from nmtkit.translation.translator import Translator
from tests.documents.laws import WORDS, check, segments, tree
from tests.echo import load_echo, write_folder

NAMES = ("Tom", "Mary", "Anna", "Bob", "Sue", "Max", "Eve", "Jim", "Kim", "Leo")


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A model that copies its source."""
    monkeypatch.setattr(loading, "load_model", load_echo)
    return loading.load([write_folder(tmp_path / "echo")], "cpu")


def spans(text: str) -> list[Span]:
    return [Span(*word.span()) for word in re.finditer(r"\w+|[^\w\s]", text)]


def aligned(source: str, target: str, links: str) -> Aligned:
    """A translation in which each target word looks at one source word: links "0 2 1" are their numbers."""
    words, weights = (spans(source), spans(target)), np.zeros((len(spans(target)), len(spans(source))), np.float32)
    for row, link in zip(weights, links.split(), strict=True):
        row[int(link)] = 1
    return Aligned(target, *words, weights)


def planned(segment: Segment) -> Plan:
    return plan([segment], "en", "fr", NAMES)


def translated(translator: Translator, given: list[Segment]) -> list[Segment]:
    todo = plan(given, "en", "fr", stand_ins(translator))
    answers = translator.answer(todo.sentences, Request(attention=True))
    return todo.finish(align(translator, line, best) for line, [best] in zip(todo.sentences, answers, strict=True))


def marked(segment: Segment) -> str:
    """A segment with its marks as tags: <0>a</0>, and <1/> for an empty one."""
    text, places = "", list[tuple[int, str]]()
    for mark in segment.marks:
        while places and places[-1][0] <= mark.start and (mark.start < mark.end or places[-1][0] <= mark.start):
            end, tag = places.pop()
            text += segment.text[len(re.sub("<[^>]*>", "", text)) : end] + tag
        text += segment.text[len(re.sub("<[^>]*>", "", text)) : mark.start]
        text += f"<{mark.element}>" if mark.start < mark.end else f"<{mark.element}/>"
        if mark.start < mark.end:
            places.append((mark.end, f"</{mark.element}>"))
    for end, tag in reversed(places):
        text += segment.text[len(re.sub("<[^>]*>", "", text)) : end] + tag
    return text + segment.text[len(re.sub("<[^>]*>", "", text)) :]


@pytest.mark.parametrize(
    ("marks", "written"),
    [
        ([Mark(4, 8, 0, True)], "la <0>fille</0> boit de l'eau"),
        ([Mark(4, 8, 0, True), Mark(9, 21, 1, False)], "la <0>fille</0> <1>boit de l'eau</1>"),
        ([Mark(0, 21, 0, False), Mark(16, 21, 1, True)], "<0>la fille boit <1>de l'eau</1></0>"),
        ([Mark(8, 8, 0, False)], "la fille<0/> boit de l'eau"),
        ([Mark(9, 9, 0, False)], "la fille <0/>boit de l'eau"),
        ([Mark(0, 0, 0, False), Mark(21, 21, 1, False)], "<0/>la fille boit de l'eau<1/>"),
        ([Mark(8, 8, 0, False), Mark(8, 8, 1, False)], "la fille<0/><1/> boit de l'eau"),
    ],
)
def test_marks_are_around_the_words_that_look_at_theirs(marks: list[Mark], written: str) -> None:
    source = "the girl drinks water"
    answer = aligned(source, "la fille boit de l'eau", "0 1 2 3 3 3 3")
    [segment] = planned(Segment(source, tuple(marks))).finish([answer])
    assert marked(segment) == written


@pytest.mark.parametrize(
    ("splits", "written"), [(True, "je <0>gebe</0> es <0>auf</0>"), (False, "je <0>gebe</0> es auf")]
)
def test_a_mark_that_splits_is_around_each_part_and_another_around_the_first(splits: bool, written: str) -> None:
    source = "I give_up it"
    answer = aligned(source, "je gebe es auf", "0 1 2 1")
    [segment] = planned(Segment(source, (Mark(2, 9, 0, splits),))).finish([answer])
    assert marked(segment) == written


@pytest.mark.parametrize(
    ("shares", "written"),
    [
        ([0.55, 0.55, 0.45], "<0>x y</0> z"),
        ([0.5, 0.9, 0.5], "x <0>y</0> z"),
        ([0.2, 0.1, 0.15], "<0>x</0> y z"),
        ([0.0, 0.05, 0.09], "x y <0/>z"),
    ],
)
def test_a_mark_is_around_words_with_most_of_their_attention_on_it_or_else_the_best_with_a_tenth(
    shares: list[float], written: str
) -> None:
    weights = np.array([[1 - share, share] for share in shares], np.float32)
    answer = Aligned("x y z", spans("a b"), spans("x y z"), weights)
    [segment] = planned(Segment("a b", (Mark(2, 3, 0, False),))).finish([answer])
    assert marked(segment) == written


@pytest.mark.parametrize(
    ("target", "written"),
    [("x z y", "<1/><0>x z y</0>"), ("x y z y", "<1/><0>x y z y</0>"), ("x y y z y", "<0>x y y z y</0><1/>")],
)
def test_an_empty_mark_is_not_in_another_that_its_word_was_drawn_into_but_at_the_nearer_end(
    target: str, written: str
) -> None:
    looks = {"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0], "z": [0.0, 0.4, 0.6]}
    weights = np.array([looks[word] for word in target.split()], np.float32)
    parts = planned(Segment("a b c", (Mark(0, 3, 0, False), Mark(4, 4, 1, False))))
    [segment] = parts.finish([Aligned(target, spans("a b c"), spans(target), weights)])
    assert marked(segment) == written


def test_a_mark_may_span_sentences_and_an_empty_one_stays_between_two() -> None:
    parts = planned(Segment("Girls sing. They drink.", (Mark(6, 16, 0, False), Mark(11, 11, 1, False))))
    first, second = (
        aligned("Girls sing.", "Elles chantent.", "0 1 2"),
        aligned("They drink.", "Elles boivent.", "0 1 2"),
    )
    [segment] = parts.finish([first, second])
    assert marked(segment) == "Elles <0>chantent.<1/> Elles</0> boivent."


@given(segments(), st.randoms(use_true_random=False))
def test_whatever_the_model_does_markup_stays_nested_and_nothing_kept_is_lost(segment: Segment, random: Random) -> None:
    parts, answers = planned(segment), []
    for line in parts.sentences:
        source = spans(line)
        chosen = [random.choice(source) for _ in range(random.randrange(len(source) + 2))]
        target = "".join(line[start:end] + random.choice(["", " "]) for start, end in chosen)
        weights = np.random.default_rng(random.randrange(1_000)).random((len(spans(target)), len(source)))
        answers.append(Aligned(target, source, spans(target), balanced(weights, [[True] * n for n in weights.shape])))
    [translated] = parts.finish(answers, warn=False)
    check(segment, translated)
    around, full = dict(tree(segment.marks)), {mark.element for mark in translated.marks if mark.start < mark.end}
    for element, parent in tree(translated.marks):
        assert parent == around[element] or around[element] not in full  # what is in an empty one stands beside it
    for word in filter(PLACEHOLDERS.fullmatch, WORDS):
        assert translated.text.count(word) == segment.text.count(word)


def test_a_placeholder_is_copied_once_where_its_stand_in_is() -> None:
    parts = planned(Segment("Hello {name}, it is %1$s."))
    assert parts.sentences == ["Hello Tom, it is Mary."]
    [segment] = parts.finish([aligned("Hello Tom, it is Mary.", "Mary, bonjour Tom Tom.", "5 2 0 1 1 6")])
    assert segment.text == "%1$s, bonjour {name} ."


@pytest.mark.parametrize("text", ["现在叫Tom来", "เรียกTomตอนนี้", "קראו לTom עכשיו"])
def test_a_stand_in_may_touch_the_letters_of_a_script_without_case(text: str) -> None:
    answer = Aligned(text, spans("call Tom now"), [Span(0, len(text))], np.array([[0.5, 0.3, 0.2]], np.float32))
    [segment] = planned(Segment("call {name} now")).finish([answer])
    assert segment.text == text.replace("Tom", "{name}")


def test_a_name_in_the_sentence_stands_for_no_placeholder() -> None:
    assert planned(Segment("Tom sees {name}. Mary sees %s.")).sentences == ["Tom sees Mary.", "Mary sees Tom."]


def test_markup_around_a_placeholder_leaves_out_the_brackets_that_touch_it() -> None:
    parts = planned(Segment("a (%s) b", (Mark(3, 5, 0, False),)))
    [segment] = parts.finish([aligned("a (Tom) b", "x (Tom) y", "0 1 2 3 4")])
    assert marked(segment) == "x (<0>%s</0>) y"


def test_sentences_are_joined_as_the_target_language_does() -> None:
    parts = plan([Segment("Girls sing. They drink.")], "en", "zh", NAMES)
    first, second = aligned("Girls sing.", "她唱。", "0 2"), aligned("They drink.", "她喝。", "0 2")
    assert [segment.text for segment in parts.finish([first, second])] == ["她唱。她喝。"]


def test_the_markup_in_a_copied_word_is_where_it_was() -> None:
    parts = planned(Segment("a H2O b c", (Mark(2, 7, 0, False), Mark(3, 4, 1, True)), ((2, 5),)))
    assert parts.sentences == ["a Tom b c"]
    [segment] = parts.finish([aligned("a Tom b c", "c a Tom b", "3 0 1 2")])
    assert marked(segment) == "c a <0>H<1>2</1>O b</0>"


def test_copied_words_with_markup_may_be_more_than_the_stand_ins() -> None:
    parts = plan([Segment("a H2O b", (Mark(3, 4, 1, True),), ((2, 5),))], "en", "fr", ())
    assert parts.sentences == ["a  b"]
    [segment] = parts.finish([aligned("a b", "b a", "1 0")], warn=False)
    assert segment.text.count("H2O") == 1


def test_tags_and_entities_touch_the_words_beside_them_as_before() -> None:
    parts = planned(Segment("a <b>big</b> red&nbsp;dog"))
    assert parts.sentences == ["a Tom big Mary red Anna dog"]
    for words, links, written in (
        ("un Tom grand Mary chien Anna rouge", "0 1 2 3 6 5 4", "un <b>grand</b> chien&nbsp;rouge"),
        ("un grand chien rouge", "0 2 6 4", "un <b>grand</b> chien rouge&nbsp;"),  # without a copy of any
    ):
        [segment] = parts.finish([aligned(parts.sentences[0], words, links)], warn=False)
        assert segment.text == written


def test_without_a_copy_the_words_that_look_at_the_stand_in_are_replaced() -> None:
    [segment] = planned(Segment("I see {name} now")).finish(
        [aligned("I see Tom now", "je vois le Thomas là", "0 1 2 2 3")]
    )
    assert segment.text == "je vois {name} là"


def test_a_placeholder_without_a_place_follows_its_neighbour_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    [segment] = planned(Segment("I see {name} now")).finish([aligned("I see Tom now", "je vois là", "0 1 3")])
    assert segment.text == "je vois {name} là"
    assert caplog.messages == ["paragraph 1: the model omitted {name}, so its position is a guess: je vois {name} là"]


def test_a_placeholder_without_a_place_that_begins_the_sentence_begins_the_translation() -> None:
    [segment] = planned(Segment("{name} sees it")).finish([aligned("Tom sees it", "voit cela", "1 2")])
    assert segment.text == "{name} voit cela"


def test_what_has_no_words_of_its_own_is_not_translated() -> None:
    parts = planned(Segment("{name}: %s", (Mark(0, 6, 0, True),)))
    assert (parts.sentences, parts.finish([])) == ([], [Segment("{name}: %s", (Mark(0, 6, 0, True),))])
    [segment] = (parts := planned(Segment("a\t42\tb"))).finish([aligned("a", "x", "0"), aligned("b", "y", "0")])
    assert (parts.sentences, segment.text) == (["a", "b"], "x\t42\ty")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{name} %1$s %(count)d {{ x }} %@ %lu", ["{name}", "%1$s", "%(count)d", "{{ x }}", "%@", "%lu"]),
        ('$t(a.b) by $t(c, {"n": {{n}} }), $t', ["$t(a.b)", '$t(c, {"n": {{n}} })']),
        ('<x id="1"/> a&nbsp;b &#160; c', ['<x id="1"/>', "&nbsp;", "&#160;"]),
        ("a <b>c</b>d &quot;e&quot;", ["<b>", "</b>", "&quot;", "&quot;"]),
        ("caf&eacute; it&#39;s {a}b", ["caf&eacute;", "it&#39;s", "{a}b"]),
        ("see https://x.org/a?b={id}, www.y.org. or me@x.org.", ["https://x.org/a?b={id}", "www.y.org", "me@x.org"]),
        ("请访问https://x.org/a了解更多，或a@x.org联系", ["https://x.org/a", "a@x.org"]),  # touched by words
        ("https://ja.x.org/wiki/日本語?a=東京#b を見る", ["https://ja.x.org/wiki/日本語?a=東京#b"]),
        ("v%s %dpx 100% sure, 5 % of a < b > c & d", ["v%s", "%dpx"]),
    ],
)
def test_placeholders_are_found_with_the_letters_that_belong_to_them(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in find(text, [PLACEHOLDERS])] == found


@pytest.mark.parametrize("of_pattern", ["NFC", "NFD"])
@pytest.mark.parametrize("of_text", ["NFC", "NFD"])
def test_a_pattern_matches_text_in_every_normal_form(of_text: str, of_pattern: str) -> None:
    text = normalize(of_text, "Él, Ñandú: 한국 ệ 12")  # type: ignore[arg-type]
    written = [normalize(of_pattern, pattern) for pattern in ("Ñandú", "[éÉ]l", "한.", "ệ", "[0-9]+")]  # type: ignore[arg-type]
    found = [normalize("NFC", text[start:end]) for start, end in find(text, patterns(written))]
    assert found == ["Él", "Ñandú", "한국", "ệ", "12"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match=r"`keep`: '\(' is not a regular expression: "):
        patterns(["a", "("])


def test_masks_of_the_training_text_stand_for_placeholders_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folder = write_folder(tmp_path / "masks")
    for side in ("src", "tgt"):
        path = folder / f"vocab.{side}"
        path.write_text(path.read_text().replace("g\t", "ǁ1ǁ\t"))
    translator = loading.load([folder], "cpu")
    assert stand_ins(translator)[:2] == ("ǁ1ǁ", "12")
    [found] = translated(translator, [Segment("a {x} b %s")])
    assert found.text == "a {x} b %s"


def test_words_are_found_in_a_text_that_spells_some_of_them_otherwise() -> None:
    assert characters(["“", "Hello", ",", "WORLD", "!"], '"hello, world !') == [
        (0, 0), (1, 6), (6, 7), (8, 13), (14, 15)
    ]  # fmt: skip


def test_a_document_is_translated_with_its_markup_by_a_model_that_looks(echo: Translator) -> None:
    given = [Segment("a b lower c", (Mark(2, 9, "x", False), Mark(4, 9, "y", True))), Segment(""), Segment("d {n} e")]
    assert translated(echo, given) == given


@pytest.mark.parametrize("word", ["lo\u00adwer", "lower\u200b", "\ufefflo\u2060wer"])
def test_invisible_characters_hide_no_word_with_markup(echo: Translator, word: str) -> None:
    sentence = f"a {word} b"
    [[best]] = echo.answer([sentence], Request(attention=True))
    aligned = align(echo, sentence, best)
    assert aligned.text == "a lower b"
    assert [sentence[start:end].strip("\u200b\ufeff") for start, end in aligned.source] == [
        "a", word.strip("\u200b\ufeff"), "b"
    ]  # fmt: skip
    [found] = translated(echo, [Segment(sentence, (Mark(2, 2 + len(word), "x", False),))])
    assert found == Segment("a lower b", (Mark(2, 7, "x", False),))


def test_invisible_characters_in_a_vocabulary_hide_no_word_with_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folder = write_folder(tmp_path / "hyphens")
    path = folder / "vocab.tgt"
    path.write_text(path.read_text().replace("low@@\t", "lo\u00adw@@\t"))
    translator = loading.load([folder], "cpu")
    [[best]] = translator.answer(["a lower b"], Request(attention=True))
    aligned = align(translator, "a lower b", best)
    assert aligned.text == "a lo\u00adwer b"
    assert aligned.target == [(0, 1), (2, 8), (9, 10)]


def test_words_are_aligned_with_their_translations_in_the_lexicon_where_attention_looks_elsewhere() -> None:
    source, target = ["The", "girl", "saw", "Rome"], ["Rome", "vit", "la", "Fille"]
    lexicon = Lexicon("lexicon", lambda: {"the": {"le": 0.5, "la": 0.4}, "girl": {"fille": 0.9}, "saw": {"vit": 0.7}})
    links = probabilities(source, target, lexicon)
    assert links.shape == (4, 4)
    assert links[2, 0] == pytest.approx(0.4, abs=0.01)  # The as the lexicon's the
    aligned = balanced(np.full((4, 4), 0.25, np.float32) * links, [[True] * 4, [True] * 4])
    assert [source[s] for s in aligned.argmax(axis=1)] == ["Rome", "saw", "The", "girl"]


def test_words_to_which_nothing_else_points_are_aligned_along_the_diagonal() -> None:
    links = balanced(np.full((4, 4), 0.25, np.float32), [[True] * 4, [True] * 4])
    assert links.argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_without_a_lexicon_only_copies_are_more_probable_than_others() -> None:
    links = probabilities(["in", "Rome"], ["Rome", "à"], NO_LEXICON)
    assert links[0, 1] > links[0, 0] == links[1, 0] == links[1, 1] > 0


def test_a_paragraph_is_doubtful_if_one_of_its_sentences_is() -> None:
    parts = planned(Segment("Girls sing. They drink."))
    sure = aligned("Girls sing.", "Elles chantent.", "0 1 2")
    unsure = aligned("They drink.", "Elles boivent.", "0 1 2")._replace(doubtful=True)
    answers = ([sure, sure], [sure, unsure], [unsure, sure])
    assert [parts.finish(pair)[0].doubtful for pair in answers] == [False, True, True]
