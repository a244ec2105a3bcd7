"""The page's functions of texts, tokens and attention weights, run by QuickJS instead of a browser."""

import json
import re
from importlib import resources
from itertools import combinations
from typing import Any

import pytest
import quickjs
from hypothesis import given, settings
from hypothesis import strategies as st

PROGRAM = resources.files("nmtkit").joinpath("serving/static/text.js").read_text("utf-8")

WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6)
LIMITS = {"limits": {"characters": 100, "attention": 40}, "n_best": 20}


class Script:
    """The exported functions of ``text.js``, with arguments and results in JSON."""

    def __init__(self) -> None:
        exported = re.findall(r"^export (?:const|function|class) (\w+)", PROGRAM, re.MULTILINE)
        self.context = quickjs.Context()
        self.context.module(f"{PROGRAM}\nObject.assign(globalThis, {{ {', '.join(exported)} }});")

    def evaluate(self, expression: str, **values: Any) -> Any:
        """The value of an expression in which these names have these values; a Set becomes a list."""
        names = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
        shown = "(key, value) => value instanceof Set ? [...value] : value"
        return json.loads(self.context.eval(f"(() => {{ {names} return JSON.stringify({expression}, {shown}); }})()"))


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


def test_a_word_is_doubtful_if_its_tokens_are_unlikely(script: Script) -> None:
    cases = [([-0.1], False), ([-1.7], True), ([-0.1, -2.0], False), ([-0.1, -4.0], True), ([-0.1, None], True)]
    for log_probs, doubtful in cases:
        assert script.evaluate("isDoubtful(each)", each=log_probs) is doubtful


def test_a_sentence_is_doubtful_if_its_quality_is_below_the_limit_of_the_server(script: Script) -> None:
    made = "new Hypothesis({source: 'a', tokens: ['a']}, {text: 'b', tokens: ['b'], quality: 0.3}, limit).doubtful"
    assert [script.evaluate(made, limit=limit) for limit in (0.3, 0.4)] == [False, True]


def test_terms_are_lines_with_an_equals_sign_or_a_tab(script: Script) -> None:
    text = "dog = chien\nred\trouge | rousse\n\ncat\ncat =\n = chat\na = b|\na = b = c"
    assert script.evaluate("termPairs(text)", text=text) == [["dog", "chien"], ["red", "rouge | rousse"]]


def test_a_key_that_no_header_can_have_is_sent_as_a_wrong_key(script: Script) -> None:
    keys = {"s3cret ~!": "s3cret ~!", "ключ": "????", "é\n": "??"}
    assert {key: script.evaluate("keyInHeader(key)", key=key) for key in keys} == keys


def test_only_a_table_has_columns_which_are_separated_by_commas(script: Script) -> None:
    names = ["a.csv", "b.TSV", "csv", "a.csv.html", "a.json"]
    assert [script.evaluate("isTable(name)", name=name) for name in names] == [True, True, False, False, False]
    lists = {"text": ["text"], " 2, more text ,,": ["2", "more text"], " ": []}
    assert {text: script.evaluate("columnNames(text)", text=text) for text in lists} == lists


@pytest.mark.parametrize(
    ("text", "words", "positions"),
    [
        ("a dog, b", ["a", "dog", ",", "b"], [[0, 1], [2, 5], [5, 6], [7, 8]]),
        # Tokens may differ from the text in their case, quotes, spaces and entities.
        (
            "‘Ab,’ CD …x\u00a0y.",
            ["'", "ab", ",", "'", "cd", "...", "x", "y", "."],
            [[0, 1], [1, 3], [3, 4], [4, 5], [6, 8], [9, 10], [10, 11], [12, 13], [13, 14]],
        ),
        ("a & b", ["a", "&amp;", "b"], [[0, 1], [2, 3], [4, 5]]),
        # A word does not begin in the middle of another one.
        ("bath a", ["tub", "a"], [[0, 4], [5, 6]]),
        ("cab a", ["x", "a"], [[0, 3], [4, 5]]),
        ("कार र", ["x", "र"], [[0, 3], [4, 5]]),
        ("𞤢𞤣 𞤣", ["x", "𞤣"], [[0, 4], [5, 7]]),
        # Characters outside the Basic Multilingual Plane have two code units.
        ("😀 a", ["😀", "a"], [[0, 2], [3, 4]]),
        # A word whose lower case is longer keeps the others at their positions.
        ("İ a", ["i̇", "a"], [[0, 1], [2, 3]]),
        ("", ["a"], [None]),
        ("a", [], []),
    ],
)
def test_words_are_located_in_the_text_they_were_tokenised_from(
    script: Script, text: str, words: list[str], positions: list[list[int] | None]
) -> None:
    assert script.evaluate("locate(text, words)", text=text, words=words) == positions


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20), st.lists(st.text(min_size=1, max_size=4), max_size=5))
def test_positions_of_any_words_in_any_text_are_within_it_and_in_order(
    script: Script, text: str, words: list[str]
) -> None:
    found = [place for place in script.evaluate("locate(text, words)", text=text, words=words) if place]
    edges = [edge for place in dict.fromkeys(map(tuple, found)) for edge in place]
    assert edges == sorted(edges)
    assert all(0 <= edge <= len(text.encode("utf-16-le", "surrogatepass")) // 2 for edge in edges)
    assert all(start < end for start, end in found)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("abcÄß😀", min_size=1, max_size=4), max_size=8))
def test_words_with_spaces_between_them_are_located_exactly(script: Script, words: list[str]) -> None:
    text = " ".join(words)
    found = script.evaluate("locate(text, words).map(([start, end]) => text.slice(start, end))", text=text, words=words)
    assert found == words


@given(st.text(max_size=20))
def test_the_offset_of_a_code_point_is_that_of_its_first_code_unit(script: Script, text: str) -> None:
    units = [len(text[:i].encode("utf-16-le", "surrogatepass")) // 2 for i in range(len(text) + 1)]
    assert script.evaluate("codePointOffsets(text)", text=text) == units


def test_subwords_are_joined_into_words(script: Script) -> None:
    assert script.evaluate('groupSubwords(["a", "low@@", "er", "b"])') == [[0], [1, 2], [3]]
    assert script.evaluate('groupSubwords(["a@@"])') == [[0]]
    assert script.evaluate("groupSubwords([])") == []
    pieces = "▁a ▁low er ▁ b c ▁".split()
    assert script.evaluate("groupSubwords(tokens)", tokens=pieces) == [[0], [1, 2], [3, 4, 5], [6]]
    assert script.evaluate("groupSubwords(tokens)", tokens="low@@ er ▁ b".split()) == [[0, 1], [2], [3]]


def test_words_of_sentencepiece_are_located_without_its_marks(script: Script) -> None:
    text, tokens = "A lower b, Rex", "▁A ▁low er ▁ b ▁￭ , ▁ <unk>".split()
    made = """new Hypothesis({source: text, tokens}, {text, tokens, replaced: [{token: 8, by: "▁Rex"}]}).target"""
    words = script.evaluate(made, text=text, tokens=tokens)
    assert [word["form"] for word in words] == ["A", "lower", "b", ",", "Rex"]
    assert [word["position"] for word in words] == [[0, 1], [2, 7], [8, 9], [9, 10], [11, 14]]


HYPOTHESIS = """(() => {
    const sentence = {source: "Lower b", tokens: ["low@@", "er", "b"]};
    const translation = {text: "x lower Rex", score: -1, tokens: ["x", "low@@", "er", "<unk>"], attention,
        replaced: [{token: 3, by: "Rex", how: "copied", source: 2}]};
    return new Hypothesis(sentence, translation); })()"""


def test_a_hypothesis_has_the_words_of_both_sides_and_replacements(script: Script) -> None:
    hypothesis = script.evaluate(HYPOTHESIS, attention=None)
    assert [(word["form"], word["position"], word["subwords"]) for word in hypothesis["source"]] == [
        ("lower", [0, 5], ["low@@", "er"]),
        ("b", [6, 7], ["b"]),
    ]
    assert [(word["form"], word["position"], "replaced" in word) for word in hypothesis["target"]] == [
        ("x", [0, 1], False),
        ("lower", [2, 7], False),
        ("Rex", [8, 11], True),
    ]


@pytest.mark.parametrize(("tokens", "by"), [("a Ro@@ w@@ y b", "Rowdy"), ("▁a ▁Ro w y ▁b", "▁Rowdy")])
def test_a_name_that_is_copied_takes_the_place_of_all_subwords_of_a_word(script: Script, tokens: str, by: str) -> None:
    made = "new Hypothesis({source: '', tokens: []}, {text: 'a Rowdy b', tokens, replaced: [{token: 1, by}]}).target"
    words = script.evaluate(made, tokens=tokens.split(), by=by)
    assert [word["form"] for word in words] == ["a", "Rowdy", "b"]
    assert [word["position"] for word in words] == [[0, 1], [2, 7], [8, 9]]


def test_words_are_shown_without_the_joiners_of_the_reversible_tokenizer(script: Script) -> None:
    tokens = ["(￭", "don't", "￭)", "￭@@", "!"]
    made = """new Hypothesis({source: text, tokens}, {text, tokens, score: -1}).target"""
    words = script.evaluate(made, text="(don't)!", tokens=tokens)
    assert [word["form"] for word in words] == ["(", "don't", ")", "!"]
    assert [word["position"] for word in words] == [[0, 1], [1, 6], [6, 7], [7, 8]]


def test_the_attention_of_words_is_summed_over_the_source_and_averaged_over_the_target(script: Script) -> None:
    rows = [
        [0.1, 0.2, 0.3, 0.4],
        [1.0, 0.0, 0.0, 0.0],
        [0.2, 0.2, 0.5, 0.1],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ]
    weights = script.evaluate(f"[0, 1, 2].map(t => [0, 1].map(s => {HYPOTHESIS}.weight(t, s)))", attention=rows)
    assert weights == [pytest.approx([0.3, 0.3]), pytest.approx([0.7, 0.25]), pytest.approx([0.0, 1.0])]
    assert script.evaluate(f"{HYPOTHESIS}.weight(0, 0)", attention=None) == 0


def test_the_largest_weights_are_at_most_three_and_visible(script: Script) -> None:
    assert script.evaluate("largest([0.1, 0.5, 0.02, 0.2, 0.15])") == [1, 3, 4]
    assert script.evaluate("largest([0.01, 0.02])") == []


def common(ours: list[str], theirs: list[str]) -> int:
    """The length of the longest common subsequence, by exhaustive search."""
    sequences = [{c for n in range(len(words) + 1) for c in combinations(words, n)} for words in (ours, theirs)]
    return max(map(len, sequences[0] & sequences[1]))


@settings(deadline=None)
@given(WORDS, WORDS)
def test_differences_leave_a_longest_common_subsequence(script: Script, ours: list[str], theirs: list[str]) -> None:
    found = script.evaluate("differences(ours, theirs)", ours=ours, theirs=theirs)
    left = [[w for i, w in enumerate(words) if i not in out] for words, out in zip((ours, theirs), found, strict=True)]
    assert left[0] == left[1]
    assert len(left[0]) == common(ours, theirs)


def test_long_texts_differ_between_a_common_prefix_and_a_common_suffix(script: Script) -> None:
    ours, theirs = ["a", *map(str, range(2000)), "z"], ["a", *map(str, reversed(range(2000))), "z"]
    assert script.evaluate("differences(ours, theirs)", ours=ours, theirs=theirs) == [list(range(1, 2001))] * 2


@pytest.mark.parametrize(
    ("length", "attends", "asked"),
    [
        (8, True, {"n_best": 5, "attention": True}),
        (9, True, {"n_best": 1, "attention": True}),  # five times 9 characters are beyond the limit
        (41, True, {"n_best": 1, "attention": False}),
        (8, False, {"n_best": 5, "attention": False}),
    ],
)
def test_a_long_text_loses_its_alternatives_first_and_then_its_attention(
    script: Script, length: int, attends: bool, asked: dict[str, object]
) -> None:
    model = {"beam_size": 10, "attention": attends}
    assert script.evaluate("requestOptions(text, model, page)", text="a" * length, model=model, page=LIMITS) == asked


def test_no_more_alternatives_are_asked_for_than_the_beam_or_the_server_has(script: Script) -> None:
    for beam, most in ((3, 20), (10, 3)):
        page, model = {**LIMITS, "n_best": most}, {"beam_size": beam, "attention": True}
        assert script.evaluate('requestOptions("a", model, page).n_best', model=model, page=page) == 3


def test_messages_are_sentences_and_numbers_are_readable(script: Script) -> None:
    assert script.evaluate('asSentence("the queue is full")') == "The queue is full."
    assert script.evaluate('asSentence("Why?")') == "Why?"
    assert script.evaluate("[0.004, 0.126, 1].map(percent)") == ["0%", "13%", "100%"]
    assert script.evaluate("characterCount(40, 100)") == "40 characters"
    assert script.evaluate("characterCount(60, 100)") == "60 of 100 characters"
    assert script.evaluate("[0, 1, 2, 3, 4, 5, 99].map(delayAfter)") == [2, 4, 8, 15, 30, 30, 30]
