"""HTML: paragraphs as segments, and everything else as it was."""

import codecs
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from nmtkit.documents.html import Html
from nmtkit.documents.segment import Mark, Segment
from nmtkit.errors import UserError


def read(text: str, language: str = "en") -> Html:
    """A page, to be translated into ``language``."""
    return Html(text.encode(), language)


def texts(text: str) -> list[str]:
    return [segment.text for segment in read(text).segments]


def test_a_paragraph_is_one_text_whatever_inline_markup_it_has() -> None:
    page = read("<p>The <b>girl</b>\n\tdrinks <a href='x'>cold <i>water</i></a>.</p>")
    assert page.segments == [
        Segment(
            "The girl drinks cold water.",
            (Mark(4, 8, 0, True), Mark(16, 26, 1, False), Mark(21, 26, 2, True)),
        )
    ]


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("a<div>b<p>c</p>d<br>e</div>f", ["a", "b", "c", "d e", "f"]),
        ("<a href='x'><div>a</div>b</a>", ["a", "b"]),
        ("<p>a<br>b<br><i>c</i><b><br>d</b><b>e<br></b>f<br><br>g</p>", ["a b c de f g"]),
        ("<p>a<i> </i>b<i>&nbsp;</i>c<b><i><br></i></b>d<i> <img></i>e<b> </b> f<i><img></i>g</p>", ["a b c d e fg"]),
        ("<div class='x notranslate'>a <p translate='yes'>b <i translate='no'>c</i></p> d</div>", ["b c"]),
        ("<ul><li>a<li>b <ul><li>c</ul></ul>", ["a", "b", "c"]),
        ("<table><tr><td>a</td><td><b>b</b></td></table>", ["a", "b"]),
        ("<!doctype html><title>a</title><script>b</script><p>c<select><option>d</select>", ["a", "c"]),
        ("<pre>a</pre><textarea>b</textarea><style>c</style><!-- d --><p translate=no>e <b>f</b></p>", []),
        ("<p>&nbsp;</p> \n <p><img src=x alt='a'></p>", []),
    ],
)
def test_blocks_end_a_text_and_what_is_no_text_is_none(page: str, lines: list[str]) -> None:
    assert texts(page) == lines


def test_code_and_what_is_not_to_be_translated_are_kept_within_a_text() -> None:
    page = read("Run <code>a <i>b</i></code> with <span translate=no>Word</span> <kbd>x</kbd>.")
    [segment] = page.segments
    assert [segment.text[start:end] for start, end in segment.keep] == ["a b", "Word", "x"]
    assert page.write(page.segments) == (
        b'Run <code>a <i>b</i></code> with <span translate="no">Word</span> <kbd>x</kbd>.'
    )


@pytest.mark.parametrize(
    ("page", "text", "kept"),
    [
        ('a man<sup><a href="x">1</a></sup> is', "a man is", []),
        ("a man.<sup>[12]</sup><sup>*</sup> Is", "a man. Is", []),
        ("5 m<sup>2</sup>, CO<sub>2</sub>", "5 m, CO", []),
        ('a man<a role="doc-noteref" href="x">b</a> is', "a man is", []),
        ("H<sub>2</sub>SO<sub>4</sub> is C<sub>6</sub>H<sub>12</sub>O", "H2SO is C6H12O", ["H2SO", "C6H12O"]),
        ("<sup>14</sup>C or m<sup>2</sup>/s", "14C or m2/s", ["14C"]),
        ("the 5<sup>th</sup> <sub>of them</sub>", "the 5th of them", []),
    ],
)
def test_notes_and_exponents_are_no_text_and_words_around_a_subscript_are_copied(
    page: str, text: str, kept: list[str]
) -> None:
    [segment] = read(page).segments
    assert segment.text == text
    assert [segment.text[start:end] for start, end in segment.keep] == kept
    assert read(page).write([segment]).decode() == page


@pytest.mark.parametrize(
    "page",
    [
        '<p class="a b" title="x &lt; y">a <b>b</b></p><!-- c > d --><script>if (a < b) c</script> &lt; d<br>',
        " a <div>\n<p> b <i>c</i> d\n</p> <b>e</b></div> f ",
        '<p><img src="i"> a <a href="x"><img src="j"> b<br></a>, c <b><i>d</i></b><br></p>',
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>é</title></head><body>a</body></html>\n',
        '<p>an <img src="i"> image, a <br> b</p>',
        '<p>a<br>b<br><br><i>c</i> <br>d<br> e</p><p>f <span class="notranslate">g</span><br>h</p>',
        '<p>a<br><img src="i">b</p>',
        "<p>a<i> </i>b<i> </i><b>c</b> <i> </i>d<b><br></b>e<b> <i>f</i> </b>g</p>",
        "<td>a</td>",
        "",
    ],
)
def test_what_is_not_translated_comes_back_as_it_was(page: str) -> None:
    assert read(page).write(read(page).segments).decode() == page


def test_markup_is_written_around_other_words_and_split_ones_are_repeated() -> None:
    page = read("<p>I <b class='x'>give it up</b> <a id='y'>now<img></a></p>")
    words = Segment("maintenant j' y renonce", (Mark(0, 10, 1, False), Mark(11, 13, 0, True), Mark(16, 23, 0, True)))
    assert page.write([words]).decode() == (
        '<p><a id="y">maintenant<img></a> <b class="x">j\'</b> y <b class="x">renonce</b></p>'
    )


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<b>name: </b><input>", "<b>name:</b> <input>"),
        ("<input><b> name</b>", "<input> <b>name</b>"),
        ("<a>b <img></a> c", "<a>b <img></a> c"),
        ("a <b><img><i> b</i></b>", "a <b><img> <i>b</i></b>"),
        ("<b>press </b><button>b</button>", "<b>press</b> <button>b</button>"),
    ],
)
def test_a_space_beside_what_is_no_text_stays_there(page: str, written: str) -> None:
    assert read(page).write(read(page).segments).decode() == written


def test_the_reading_of_a_word_is_no_text_and_stays_above_it() -> None:
    page = read("<p>in <ruby>to<rp>(</rp><rt>higashi</rt><rp>)</rp>kyo<rt>miyako</rt></ruby>.</p>")
    [segment] = page.segments
    assert segment.text == "in tokyo."
    written = page.write([replace(segment, text="IN TOKYO.")]).decode()
    assert written == ("<p>IN <ruby>TO<rp>(</rp><rt>higashi</rt><rp>)</rp>KYO<rt>miyako</rt></ruby>.</p>")


def test_copied_text_with_markup_is_copied_whole() -> None:
    [segment] = read("a <code><i>b</i> c</code>").segments
    assert [segment.text[start:end] for start, end in segment.keep] == ["b c"]


def test_copied_text_that_its_element_does_not_stand_around_is_written_once() -> None:
    page = read("<a>x <code>y</code></a> z <kbd>y z</kbd>")
    words = Segment("y z z x y", (Mark(6, 7, 0, False), Mark(6, 6, 1, False), Mark(9, 9, 2, False)))
    assert page.write([words]).decode() == "z <a><code>y</code>x</a> <kbd>y z</kbd>"


def test_a_page_may_be_written_more_than_once() -> None:
    page = read("<p>a <b>b</b></p>")
    assert page.write(page.segments) == page.write(page.segments)


def test_an_element_with_an_id_is_never_repeated() -> None:
    assert [mark.splits for mark in read("<b id=x>a</b> <b>b</b>").segments[0].marks] == [False, True]


def test_words_on_both_sides_of_a_stray_end_tag_are_not_joined() -> None:
    assert texts("<div>one</p>two</P >three</br>four</div>") == ["one two three four"]
    assert texts("<p>one</p>two") == ["one", "two"]


@pytest.mark.parametrize("before", ["", "<!DOCTYPE html>"])
def test_elements_without_content_have_no_end_tag(before: str) -> None:
    page = read(f"{before}<p>a<wbr>b <video><source src=x><track></video></p><script>'<wbr></wbr>'</script>")
    written = page.write(page.segments).decode()
    assert "<p>a<wbr>b <video><source src=\"x\"><track></video></p><script>'<wbr></wbr>'</script>" in written


def test_text_that_looks_like_markup_is_escaped() -> None:
    page = read("<p>a</p>b")
    assert page.write([Segment("<b>"), Segment("a & b")]) == b"<p>&lt;b&gt;</p> a &amp; b"


@pytest.mark.parametrize(
    ("declared", "language", "written"),
    [
        ('lang="en" dir="ltr"', "fr", 'lang="fr" dir="ltr"'),
        ('lang="en-GB" dir="ltr"', "nqo", 'lang="nqo" dir="rtl"'),
        ('dir="rtl" class="a"', "pt_BR", 'dir="ltr" class="a"'),
        ('lang="en" xml:lang="en"', "pt_BR", 'lang="pt-BR" xml:lang="pt-BR"'),
        ('class="a"', "ar", 'class="a" dir="rtl"'),
        ('class="a"', "fr", 'class="a"'),
    ],
)
@pytest.mark.parametrize("before", ["<!DOCTYPE html>\n", '<?xml version="1.0"?>\n'])
def test_a_page_declares_the_language_and_the_direction_of_its_translation(
    before: str, declared: str, language: str, written: str
) -> None:
    page = read(f'{before}<html {declared}><body><p lang="en">a</p></body></html>', language)
    assert page.write(page.segments).decode() == f'{before}<html {written}><body><p lang="en">a</p></body></html>'


def test_a_page_keeps_its_last_line_end() -> None:
    for page in ("<html><body>a</body></html>", "<html><body>a</body></html>\n"):
        assert read(page).write(read(page).segments).decode() == page


def test_xhtml_stays_xhtml() -> None:
    page = b'<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><p>a <i>b</i><br/></p></html>'
    assert Html(page, "fr").write(Html(page, "fr").segments) == page


@pytest.mark.parametrize(
    "page",
    [
        '<html><head><meta charset="iso-8859-1"></head><body><p>é</p></body></html>',
        '<meta charset="iso-8859-1"><p>é</p>',
    ],
)
def test_a_page_is_written_in_the_encoding_that_it_declares(page: str) -> None:
    document = Html(page.encode("latin-1"), "fr")
    assert document.write(document.segments).decode("latin-1") == page
    assert b"&#8364;" in document.write([Segment("€")])


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
@pytest.mark.parametrize("declared", ["", "utf-8", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize(
    "page",
    [
        '<html><head><meta charset="{}"></head><body><p>é</p></body></html>',
        '<meta content="{}"><p>é</p>',
        '<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><p title="{}">é</p></html>',
    ],
)
def test_a_byte_order_mark_takes_precedence_over_a_declaration_and_stays(
    mark: bytes, encoding: str, declared: str, page: str
) -> None:
    content = mark + page.format(declared).encode(encoding)
    document = Html(content, "fr")
    assert [segment.text for segment in document.segments] == ["é"]
    written = document.write(document.segments)
    assert Html(written, "fr").segments == document.segments
    assert written == content or page.startswith("<?xml")


@pytest.mark.parametrize("declared", ["utf-16", "UTF-16LE", "utf-32"])
def test_a_declaration_in_ascii_is_not_in_utf_16(declared: str) -> None:
    page = f'<html><head><meta charset="{declared}"></head><body><p>a dog, a café!</p></body></html>'
    assert texts(page) == ["a dog, a café!"]
    assert read(page).write(read(page).segments).decode() == page


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "page",
    [
        "<!DOCTYPE html>\n<html><!-- -->\n<body><p>a</p>\n<p>b</p></body></html>\n",
        '<?xml version="1.0"?>\n<html>\n<p>a</p>\n</html>\n',
        "<p>a</p>\n<!--\n--> b\n",
    ],
)
def test_a_page_keeps_its_line_ends(page: str, end: str) -> None:
    page = page.replace("\n", end)
    assert read(page).write(read(page).segments).decode() == page


def test_a_page_in_ascii_that_declares_no_encoding_stays_one() -> None:
    page = read("<html><body><p>a&nbsp;b</p></body></html>")
    assert page.write([Segment("a\xa0é")]) == b"<html><body><p>a&#160;&#233;</p></body></html>"


def test_bytes_that_are_not_utf_8_are_read_as_browsers_read_them() -> None:
    for declared in (b"", b"<meta charset=undefined>"):
        assert [segment.text for segment in Html(declared + b"<p>caf\xe9", "fr").segments] == ["café"]


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("<b>" * 3_000 + "a", "has elements nested more than 2000 deep"),
        ("<?xml version='1.0'?><p>a", "is not well-formed XML: "),
        ("<?xml version='1.0'?><p>&x;</p>", "is not well-formed XML: "),
    ],
)
def test_a_page_whose_text_would_be_lost_is_refused(page: str, complaint: str) -> None:
    with pytest.raises(UserError) as error:
        read(page)
    assert str(error.value).startswith(complaint)


TAGS = (
    "<b> </b> <p> </p> <i> </i> <a_href=x> </a> <code> </code> <span_translate=no> </span> <div> </div> <li> <img> "
    "<br> <sup> </sup> 2 <!--_x_--> _ w_ x &amp; &nbsp; <_"
).split()


@given(st.lists(st.sampled_from(TAGS), max_size=25).map("".join).map(lambda page: page.replace("_", " ")))
def test_no_text_and_no_element_is_lost_in_any_page(page: str) -> None:
    document = read(page)
    written = document.write(document.segments).decode()
    before, after = (html.fragment_fromstring(each, create_parent="div") for each in (page, written))
    assert "".join(after.text_content().split()) == "".join(before.text_content().split())
    assert sorted(str(each.tag) for each in after.iter()) == sorted(str(each.tag) for each in before.iter())


@pytest.mark.parametrize(
    ("damaged", "line"),
    [("<p>a\x00b\x0b</p>", "a b"), ("<p>a \ufffe b</p>", "a b"), ("<html\x00><body>a b", "a b")],
)
def test_characters_that_html_forbids_become_spaces(damaged: str, line: str) -> None:
    page = read(damaged)
    written = page.write([replace(segment, text=segment.text + "\x01") for segment in page.segments])
    assert [text.split() for text in texts(written.decode())] == [line.split()]


def test_a_page_without_elements_is_refused() -> None:
    with pytest.raises(UserError, match=r"^has no elements$"):
        read("<!doctype html")


def test_what_stands_behind_a_possible_line_break_is_translated() -> None:
    assert texts("<p>a <b>very<wbr>long word</b> c</p>") == ["a verylong word c"]
