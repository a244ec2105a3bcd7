import re
import time
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from nmtkit.documents.markdown import read
from nmtkit.documents.segment import Segment
from tests.documents.files import MARKDOWN, upper

ROOT = Path(__file__).parents[2]


def page(text: str) -> str:
    """A Markdown text as HTML, in which white space is single spaces."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(front_matter_plugin).use(footnote_plugin)
    return re.sub(r"\s+", " ", re.sub(r"<br />\s*", "<br />", parser.disable("footnote_inline").render(text)))


def same(text: str) -> str:
    file = read(text.encode())
    return file.write(file.segments).decode()


def capitals(text: str) -> str:
    file = read(text.encode())
    return file.write([upper(segment) for segment in file.segments]).decode()


def put(text: str, translated: str) -> str:
    """A text of one segment with another in its place."""
    file = read(text.encode())
    return file.write([Segment(translated, segment.marks) for segment in file.segments]).decode()


@pytest.mark.parametrize("name", [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("recipes/*/*.md"))])
def test_a_translation_into_itself_looks_the_same(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert page(same(text)) == page(text)


awkward = st.text(st.sampled_from("ab 12.*_`[]()<>!#+-=~|\\&;:^\n\"'/"), max_size=60)


@given(awkward)
def test_any_text_translated_into_itself_looks_the_same(text: str) -> None:
    assert page(same(text)) == page(text)


@given(awkward)
def test_any_translation_is_plain_text(translated: str) -> None:
    expected = " ".join(translated.split()) or "a"
    assert unescape(page(put("word", expected))) == f"<p>{expected}</p> "


def test_code_links_and_what_is_not_text_stay() -> None:
    text = "see `code` and [the page](http://x.org 'y') or <http://z.org>, ![an image](i.png) and [here][Ref][^n]"
    rest = " <kbd>x</kbd>\n\n[Ref]: u\n[^n]: note\n"
    changed = 'SEE `code` AND [THE PAGE](http://x.org "y") OR <http://z.org>, ![an image](i.png) AND [HERE][ref][^n]'
    assert capitals(text + rest) == changed + rest.replace("x<", "X<").replace("note", "NOTE")


@pytest.mark.parametrize("code", ["``a `it` ``", "`` a` ``", "``a`  ``", "`` `it` b``", "`` ` ``"])
def test_code_that_contains_backticks_keeps_its_fences_without_the_space_at_its_edge(code: str) -> None:
    text = f"run {code} now\n"
    assert page(same(text)) == page(text)
    file = read(text.encode())
    [segment] = file.segments
    [mark] = segment.marks
    words = segment.text[mark.start : mark.end]
    start = mark.start + len(words) - len(words.lstrip())
    moved = replace(segment, marks=(mark._replace(start=start, end=start + len(words.strip())),))
    written = page(file.write([moved]).decode())
    assert written == page(f"run `` {words.strip()} `` now\n")


def test_a_tab_is_a_space() -> None:
    assert read(b"some\twords").segments == [Segment("some words")]


def test_paragraphs_become_one_line_and_keep_their_place() -> None:
    changed = capitals(MARKDOWN)
    assert "# A HEADING WITH *EMPHASIS* #\n" in changed
    assert "**BOLD *WORDS***. ITS SECOND LINE\\\nAND ONE AFTER A BREAK.\n" in changed
    assert "> QUOTED WORDS\n" in changed
    assert "| NAME | WHAT \\| OR |\n|------|------------|\n| SOME *X* | MORE WORDS |\n" in changed
    assert "- AN ITEM GOES ON\n  1. WITHIN\n" in changed
    assert changed.startswith("---\ntitle: left alone\n---\n")
    assert "```\ncode\n```\n" in changed


@pytest.mark.parametrize(
    "image",
    ["[![a b](i.png)](http://x.org)", "[![a][i]\\\n![b](j)](x)", "<a href='x'><img src='i'></a>", "**![a](i)**"],
)
def test_a_link_around_an_image_stays_around_it(image: str) -> None:
    for text in (f"{image} some words", f"some {image} words", f"**some {image} words**"):
        text += "\n\n[i]: i.png\n"
        [segment] = read(text.encode()).segments
        assert "a" not in segment.text
        assert page(same(text)) == page(text)


def test_an_image_in_a_link_without_text_goes_with_its_link() -> None:
    file = read(b"see [![a](i) ![b](j)](x) now")
    [mark] = file.segments[0].marks
    assert file.write([Segment("now see", (mark._replace(start=4, end=4),))]) == b"now [![a](i) ![b](j)](x) see"


@pytest.mark.parametrize(
    "text",
    [
        '+++\ntitle = "left alone"\n\n[more]\n+++\n\nTEXT\n',
        "::: warning a title\nTEXT\n\n:::{note}\n- TEXT\n:::\nTEXT\n",
        "# TEXT {#a .b}\n\n## *TEXT* {.b} ##\n\nTEXT {.b}\n===\n",
        "THE $a_1*b*c$ AND $$x + y$$\n\n$$\nz the\n$$\n",
    ],
)
def test_containers_attributes_and_mathematics_are_copied(text: str) -> None:
    assert capitals(text.replace("TEXT", "text").replace("THE", "the").replace("AND", "and")) == text


def test_prices_are_no_mathematics_and_a_translation_has_none() -> None:
    text = "from $5 to $10, $6-$7 or $ x $ or \\$y\\$"
    assert read(text.encode()).segments == [Segment(text.replace("\\", ""))]
    assert put("word", "a $b$") == "a \\$b\\$"


@pytest.mark.parametrize("tag", ["<br>", "<br/>", "<BR />"])
def test_words_beside_a_break_are_not_joined(tag: str) -> None:
    text = f"some words{tag}and more\n\n| a |\n| - |\n| x{tag}y |\n"
    assert [segment.text for segment in read(text.encode()).segments] == ["some words and more", "a", "x y"]
    assert capitals(text) == text.upper().replace("BR", tag.strip("</ >"))
    assert capitals("see `<br>` there") == "SEE `<br>` THERE"


@pytest.mark.parametrize("mark", ["  ", "\\"])
def test_breaks_are_written_as_they_were(mark: str) -> None:
    text = f"> a *b{mark}\n> c* d{mark}\n> e\n\n- [![f{mark}\n  ![g](h)](i)] j\n"
    assert capitals(text) == f"> A *B{mark}\n> C* D{mark}\n> E\n\n- [![f{mark}\n  ![g](h)](i)] J\n"
    assert capitals("a   \nb\\\nc") == "A\\\nB\\\nC"


def test_breaks_beside_each_other_do_not_end_the_paragraph() -> None:
    file = read(b"a  \nb  \nc")
    [segment] = file.segments
    for place, written in ((0, b"\\\n\\\nd e"), (1, b"d  \n\\\ne")):
        marks = tuple(mark._replace(start=place, end=place) for mark in segment.marks)
        assert file.write([Segment("d e", marks)]) == written


def test_the_boxes_of_tasks_stay() -> None:
    assert capitals("- [ ] a\n- [x] *b*\n  c\n1. [X] d\n") == "- [ ] A\n- [x] *B* C\n1. [X] D\n"
    assert [segment.text for segment in read(b"- [X] d\n").segments] == ["d"]
    assert capitals("[x] a\n\n[x]: b\n") == "[X][x] A\n\n[x]: b\n"


def test_the_mark_of_an_alert_stays_on_its_own_line() -> None:
    text = "> [!NOTE]\n> read *this*\n> first\n\n- > [!TIP]  \n  > two words\n\n> [!WARNING]\n>\n> mind the gap\n"
    assert capitals(text) == text.replace("read *this*\n> first", "READ *THIS* FIRST").replace(
        "two words", "TWO WORDS").replace("mind the gap", "MIND THE GAP")  # fmt: skip


def test_the_title_of_a_callout_is_a_line_of_its_own() -> None:
    text = "> [!note] A *TITLE*  \n> SOME WORDS\n\n- > [!my-tip]-\n  > MORE\n  >\n  > AFTER\n\n> [!x]+ ALONE\n"
    lower = re.sub("[A-Z]", lambda letter: letter[0].lower(), text)
    segments = [segment.text for segment in read(lower.encode()).segments]
    assert segments == ["a title", "some words", "more", "after", "alone"]
    assert capitals(lower) == text
    assert capitals("> [!note] a *b\n> c* `d\n> e` f\n") == "> [!note] A *B C* `d e` F\n"


def test_admonitions_and_definitions_keep_their_paragraphs() -> None:
    text = (
        '!!! note\n    a dog\n\n    it runs\n\n??? tip inline end "a title"\n    a cat\n\n'
        "a term\n: its meaning\n: another\n\na *word*\n\n:   so\n\n    it is\n"
    )
    segments = [segment.text for segment in read(text.encode()).segments]
    assert segments == "a dog|it runs|a title|a cat|a term|its meaning|another|a word|so|it is".split("|")
    changed = re.sub("|".join(sorted(segments, key=len)), lambda match: match[0].upper(), text)
    assert capitals(text) == changed.replace("a *word*", "A *WORD*")


def test_notes_are_no_text_and_words_around_a_subscript_are_copied() -> None:
    text = "a man<sup>[1](#n)</sup><sup>\\*</sup> in H<sub>2</sub>O"
    [segment] = read(text.encode()).segments
    assert (segment.text, segment.keep) == ("a man in H2O", ((9, 12),))
    assert capitals(text) == text.replace("a man", "A MAN").replace("in", "IN")


@pytest.mark.slow
def test_footnotes_stay_and_take_time_in_proportion_to_their_number() -> None:
    text = "".join(f"see[^{i}] that\n\n" for i in range(2_000)) + "".join(f"[^{i}]: note\n\n" for i in range(2_000))
    began = time.process_time()
    assert capitals(text) == text.replace("see", "SEE").replace("that", "THAT").replace("note", "NOTE")
    assert time.process_time() - began < 10


def test_line_ends_of_windows_stay() -> None:
    assert capitals("# a\r\n\r\nb\r\nc\r\n") == "# A\r\n\r\nB C\r\n"


def test_emphasis_that_asterisks_cannot_write_is_in_tags() -> None:
    file = read(b"an *emphasis* here")
    [segment] = file.segments
    [mark] = segment.marks
    moved = Segment("foo bar baz", (mark._replace(start=3, end=8),))
    assert file.write([moved]) == b"foo<em> bar </em>baz"


def test_markdown_in_a_translation_is_text() -> None:
    assert put("word", "# 5 * 3 * 2") == "\\# 5 * 3 * 2"
    assert put("word", "a *b* `c`") == "a \\*b\\* \\`c\\`"
    assert capitals("**\n*  \nb") == "\\** *  \nB"
    assert put("word", "1. one") == "1\\. one"
    assert put("| a |\n|---|\n", "x | y") == "| x \\| y |\n|---|\n"


def test_many_spaces_are_read_in_linear_time() -> None:
    for mark in (b"# ", b"!!! note\n    "):
        [segment] = read(mark + b"One" + b" " * 200_000 + b"two").segments
        assert segment.text.split() == ["One", "two"]
    assert read(b"!!! note" + b" " * 200_000 + b"two").segments == []


@pytest.mark.parametrize(
    ("link", "text"), [("[\n](u)", "one   two"), ("[我\n](u)", "one 我  two"), ("[\n我](u)", "one  我 two")]
)
def test_a_line_break_may_begin_or_end_the_text_of_a_link(link: str, text: str) -> None:
    assert [segment.text for segment in read(f"one {link} two".encode()).segments] == [text]
