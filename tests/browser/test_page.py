"""The page in a real browser, with a real server. ``make browser`` installs the requirements and runs this."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Server
from tests.browser.models import NUMBERS, STRONG, WEAK

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]

# The words that are lit, with the strength from 0 to 1, and the word that is pointed at.
LIGHTS = """side => Object.fromEntries([...document.querySelectorAll(`${side} .word.lit`)].map(
    word => [word.textContent, Math.round(100 * word.style.getPropertyValue("--weight") ** 2) / 100]))"""
HERE = """side => [...document.querySelectorAll(`${side} .word.here`)].map(word => word.textContent)"""
SOURCE, TARGET = "#mirror", ".output"


@pytest.fixture
def page(open_page: Open) -> "Page":
    return open_page()


def lights(page: "Page", side: str) -> dict[str, float]:
    found: dict[str, float] = page.evaluate(LIGHTS, side)
    return found


def here(page: "Page", side: str) -> list[str]:
    found: list[str] = page.evaluate(HERE, side)
    return found


def translate(page: "Page", text: str, panel: int = 0) -> "Locator":
    """Write a text into the source, and wait for its translation by the model of a panel, which is returned."""
    page.fill("#source", text)
    output = page.locator(".output").nth(panel)
    output.locator(".word").first.wait_for()
    page.wait_for_function("n => !document.querySelectorAll('.panel.target')[n].matches('.waiting')", arg=panel)
    return output


def shown(page: "Page", text: str) -> None:
    """Wait until this is the translation, with all its white space."""
    page.wait_for_function("text => document.querySelector('.output').textContent === text", arg=text)


def stop_the_clock(page: "Page") -> None:
    """From here on, the test controls time."""
    page.clock.install(time=0)
    page.clock.pause_at(1000)


def word(page: "Page", side: str, text: str) -> "Locator":
    return page.locator(f"{side} .word", has_text=re.compile(f"^{re.escape(text)}$")).first


def point_at(page: "Page", side: str, text: str) -> None:
    """Move the mouse to a word; those of the source are behind its text box."""
    box = word(page, side, text).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def note(page: "Page") -> str:
    return page.locator(".note").first.inner_text()


# ---- Translating ----


def test_typed_text_is_translated(page: "Page") -> None:
    page.keyboard.type("a b c")  # the source has the focus from the beginning
    shown(page, "a b c")
    page.keyboard.type(" d")
    shown(page, "a b c d")


def test_white_space_and_lines_are_those_of_the_source(page: "Page", server: Server) -> None:
    text = "a b.\n\n  c d\n\te  f\n"
    output = translate(page, text)
    assert (
        output.evaluate("element => element.textContent")
        == server.ask(model="soft", text=text, replace_unk=True)["text"]
    )
    assert output.inner_text().count("\n") == text.count("\n")


def test_an_empty_source_has_no_translation(page: "Page") -> None:
    translate(page, "a b")
    page.get_by_role("button", name="Clear").click()
    page.wait_for_selector(".output.empty")
    assert page.locator(".inside").is_hidden()
    assert page.evaluate("document.activeElement.id") == "source"


def test_only_the_last_of_many_texts_is_translated(page: "Page") -> None:
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json["text"]))
    page.locator("#source").press_sequentially("a b c d e", delay=20)
    shown(page, "a b c d e")
    assert asked == ["a b c d e"]


def test_a_late_response_for_an_old_text_is_dropped(page: "Page") -> None:
    page.evaluate("""() => {
        const ask = window.fetch, late = [];
        window.answers = late;
        // The first answer comes when it is let go, even though nobody wants it any more.
        window.fetch = (path, options) => late.length
            ? ask(path, options)
            : new Promise(done => ask(path, {...options, signal: undefined})
                .then(answer => late.push(() => done(answer))));
    }""")
    page.fill("#source", "a")
    page.wait_for_function("() => window.answers.length === 1")
    page.fill("#source", "b")
    shown(page, "b")
    page.evaluate("window.answers[0]()")
    page.wait_for_timeout(200)
    assert page.locator(".output").inner_text() == "b"


def test_control_and_enter_translate_immediately(page: "Page") -> None:
    stop_the_clock(page)  # so that nothing happens by itself
    page.locator("#source").press_sequentially("a b")
    page.keyboard.press("Control+Enter")
    page.clock.run_for(1)
    page.wait_for_selector(".output .word")


def test_waiting_is_shown_and_announced_to_screen_readers(page: "Page") -> None:
    held = list["Route"]()
    page.route("**/v1/translate", lambda route: held.append(route))
    page.fill("#source", "a")
    page.wait_for_selector(".panel.waiting")
    assert page.locator(".output").get_attribute("aria-busy") == "true"
    held[0].continue_()
    page.wait_for_selector(".panel.target:not(.waiting) .word")
    assert page.locator(".output").get_attribute("aria-busy") == "false"


def test_a_translation_is_copied_whole(open_page: Open) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    translate(page, "a b\n  c\n")
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "a b\n  c\n"


# ---- Where the model looked ----


def test_pointing_at_a_word_highlights_the_source_words_it_attends_to(page: "Page", server: Server) -> None:
    translate(page, "a b c")
    point_at(page, TARGET, "b")
    assert here(page, TARGET) == ["b"]
    assert lights(page, SOURCE) == {"b": STRONG, "c": WEAK}
    assert note(page) == "b attends to b 75%, c 25%."
    [sentence] = server.ask(model="soft", text="a b c", attention=True)["sentences"]
    assert sentence["translations"][0]["attention"][1] == [0, STRONG, WEAK, 0]
    page.mouse.move(5, 5)
    assert (lights(page, SOURCE), here(page, TARGET)) == ({}, [])


def test_pointing_at_a_source_word_highlights_the_words_that_attend_to_it(page: "Page") -> None:
    translate(page, "a b c")
    point_at(page, SOURCE, "b")
    assert here(page, SOURCE) == ["b"]
    assert lights(page, TARGET) == {"b": STRONG, "a": WEAK}
    assert note(page) == "b is attended to by b 75%, a 25%."
    page.mouse.move(5, 5)
    assert lights(page, TARGET) == {}


def test_the_caret_highlights_the_words_that_attend_to_its_word(page: "Page") -> None:
    translate(page, "a b c")
    page.locator("#source").press("Home")
    assert (here(page, SOURCE), lights(page, TARGET)) == (["a"], {"a": STRONG})
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert (here(page, SOURCE), lights(page, TARGET)) == (["b"], {"b": STRONG, "a": WEAK})


def test_subwords_of_a_word_are_highlighted_together(page: "Page") -> None:
    translate(page, "a lower b")  # low@@ er
    point_at(page, TARGET, "lower")
    # The mean of its two pieces: all that low@@ looked at is in the word, and three quarters of what er did.
    assert lights(page, SOURCE) == pytest.approx({"lower": (1 + STRONG) / 2, "b": WEAK / 2}, abs=0.01)
    assert page.locator("td.cell").count() == 4 * 4
    page.get_by_label("Show subwords").check()
    assert page.locator("td.cell").count() == 5 * 5
    assert page.locator("tbody th").all_inner_texts() == ["a", "low@@", "er", "b", "end"]


def test_a_word_highlights_only_its_own_sentence(page: "Page") -> None:
    translate(page, "a b\na b")
    second = page.locator(".output .word").nth(3)
    second.hover()
    lit = page.evaluate(
        "[...document.querySelectorAll('#mirror .word.lit')].map(word => word.previousSibling.textContent)"
    )
    assert lit == [" "]
    assert page.locator("#mirror .word.lit").evaluate("word => word === word.parentElement.children[6]")


def test_characters_of_two_code_units_do_not_shift_highlights(page: "Page") -> None:
    translate(page, "😀 a b")
    point_at(page, TARGET, "b")
    assert lights(page, SOURCE) == {"b": STRONG}


def test_the_map_of_attention_has_the_weights_of_the_api(page: "Page", server: Server) -> None:
    translate(page, "a b c")
    table = page.get_by_role("table")
    assert table.locator("thead th").all_inner_texts() == ["a", "b", "c", "end"]
    assert table.locator("tbody th").all_inner_texts() == ["a", "b", "c", "end"]
    [sentence] = server.ask(model="soft", text="a b c", attention=True)["sentences"]
    weights = [weight for row in sentence["translations"][0]["attention"] for weight in row]
    assert table.locator("td.cell").all_text_contents() == [str(round(100 * weight)) for weight in weights]
    assert "in percent" in str(table.locator("caption").text_content())
    table.locator("td.cell").nth(5).hover()
    assert table.locator("th.pointed").all_inner_texts() == ["b", "b"]
    assert lights(page, SOURCE) == {"b": STRONG, "c": WEAK}


def test_a_model_without_attention_says_so(page: "Page") -> None:
    translate(page, "a b")
    page.get_by_label("Model").select_option(label="blind")
    page.wait_for_function(
        "() => document.querySelector('.note').textContent.startsWith('This model has no attention')"
    )
    point_at(page, TARGET, "b")
    assert lights(page, SOURCE) == {}
    assert page.get_by_role("table").is_hidden()
    assert page.locator(".alternatives li").count() == 3


# ---- Alternatives, several sentences, two models, unknown words ----


def test_alternatives_have_scores_and_can_be_chosen(page: "Page", server: Server) -> None:
    translate(page, "a b")
    [sentence] = server.ask(model="soft", text="a b", n_best=3, replace_unk=True)["sentences"]
    rows = page.locator(".alternatives button")
    expected = [f"{each['text']}score {each['score']:.2f}".replace("-", "−") for each in sentence["translations"]]
    assert rows.all_text_contents() == expected
    assert [row.get_attribute("aria-pressed") for row in rows.all()] == ["true", "false", "false"]
    rows.nth(1).click()
    assert page.locator(".output").inner_text() == sentence["translations"][1]["text"]
    assert [row.get_attribute("aria-pressed") for row in rows.all()] == ["false", "true", "false"]
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_an_alternative_of_one_sentence_leaves_the_others(page: "Page") -> None:
    translate(page, "a b\n\nc d\n")
    assert page.locator("#which").inner_text() == "Sentence 2 of 2"  # where the caret is
    page.get_by_role("button", name="Previous sentence").click()
    assert page.locator("#which").inner_text() == "Sentence 1 of 2"
    page.locator(".alternatives button").nth(1).click()
    text = page.locator(".output").evaluate("element => element.textContent")
    assert text.endswith("\n\nc d\n")
    assert not text.startswith("a b\n")


def test_the_sentence_of_the_caret_is_shown_in_detail(page: "Page") -> None:
    translate(page, "a b\nc d\ne f")
    assert page.locator("#which").inner_text() == "Sentence 3 of 3"
    page.locator("#source").press("ArrowUp")
    assert page.locator("#which").inner_text() == "Sentence 2 of 3"
    assert page.locator("tbody th").all_inner_texts() == ["c", "d", "end"]
    page.get_by_role("button", name="Next sentence").click()
    assert page.get_by_role("button", name="Next sentence").is_disabled()
    word(page, TARGET, "a").click()
    assert page.locator("tbody th").all_inner_texts() == ["a", "b", "end"]


def test_two_models_are_shown_side_by_side_with_differences_marked(page: "Page") -> None:
    translate(page, "a b c d c")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("2 words differ").wait_for()
    outputs = page.locator(".output")
    assert outputs.all_inner_texts() == ["a b c d c", "a b d d d"]
    assert page.locator(".output").nth(0).locator(".differs").all_inner_texts() == ["c", "c"]
    assert page.locator(".output").nth(1).locator(".differs").all_inner_texts() == ["d", "d"]
    boxes = [page.locator(".panel").nth(i).bounding_box() for i in range(3)]
    assert len({box["y"] for box in boxes if box}) == 1  # beside each other
    point_at(page, SOURCE, "b")
    assert [page.locator(".output").nth(i).locator(".lit").count() for i in range(2)] == [2, 2]
    page.get_by_role("button", name="Stop comparing").click()
    assert page.locator(".panel.target").count() == 1
    assert page.locator(".differs").count() == 0
    assert page.evaluate("document.activeElement.textContent") == "Compare"


def test_only_models_of_the_same_languages_are_compared(page: "Page") -> None:
    groups = page.get_by_label("Model").locator("optgroup")
    assert [group.get_attribute("label") for group in groups.all()] == ["English to English", "English to Hebrew"]
    page.get_by_role("button", name="Compare").click()
    assert page.get_by_label("Model").nth(1).locator("option").all_inner_texts() == ["soft", "other", "blind"]
    page.get_by_label("Model").nth(0).select_option(label="hebrew")
    assert page.locator(".panel.target").count() == 1
    assert page.get_by_role("button", name="Compare").is_hidden()


def test_unknown_words_are_underlined_and_show_their_replacement(page: "Page") -> None:
    page.get_by_label("Model").select_option(label="hebrew")  # reads whole words
    translate(page, "a Zebulonka b")
    replaced = page.locator(".output .replaced")
    assert replaced.all_inner_texts() == ["Zebulonka"]
    assert replaced.evaluate("word => getComputedStyle(word).textDecorationStyle") == "dotted"
    replaced.hover()
    assert note(page).startswith("Zebulonka replaces an unknown word: a copy of Zebulonka. It attends to")
    page.get_by_label("Replace unknown words").uncheck()
    page.wait_for_function("() => document.querySelector('.output').textContent.includes('<unk>')")
    assert page.locator(".output .replaced").count() == 0
    page.get_by_label("Replace unknown words").check()
    page.wait_for_function("() => document.querySelector('.output').textContent.includes('Zebulonka')")


# ---- Keyboard and screen readers ----


def test_everything_works_with_the_keyboard(page: "Page") -> None:
    page.keyboard.type("a b c")
    page.wait_for_selector(".output .word")
    order = []
    for _ in range(10):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.className || document.activeElement.textContent"))
    alternatives = page.locator(".alternatives button").all_text_contents()
    assert order[:2] == ["soft", "Translate a file"]  # the first opens the terms
    assert order[2:] == ["model", "compare", "output", "copy", *alternatives, "scroll"]
    page.locator(".output").focus()
    page.keyboard.press("ArrowRight")
    assert here(page, TARGET) == ["b"]
    assert lights(page, SOURCE) == {"b": STRONG, "c": WEAK}
    active = page.locator(".output").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").inner_text() == "b"
    page.wait_for_function("() => document.getElementById('announcer').textContent === 'b attends to b 75%, c 25%.'")
    page.keyboard.press("End")
    assert here(page, TARGET) == ["c"]
    page.keyboard.press("ArrowRight")  # there is nothing beyond the last one
    assert here(page, TARGET) == ["c"]
    page.keyboard.press("Home")
    assert here(page, TARGET) == ["a"]
    page.keyboard.press("Escape")
    assert here(page, TARGET) == []
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the second alternative
    assert page.locator(".alternatives button").nth(1).get_attribute("aria-pressed") == "true"


def test_a_screen_reader_is_told_the_translation(page: "Page") -> None:
    page.get_by_role("textbox", name="English", exact=True).fill("a b")
    page.wait_for_selector(".output .word")
    output = page.get_by_role("textbox", name="English translation by soft")
    assert output.get_attribute("aria-readonly") == "true"
    page.wait_for_function("() => document.getElementById('announcer').textContent === 'English: a b'")
    assert page.get_by_role("region", name="Attention").count() == 1
    assert page.get_by_role("list", name="Alternatives").count() == 1


# ---- Errors ----


def refuse(page: "Page", status: int, body: str, **headers: str) -> list[str]:
    """Answer requests for translations with this response until ``unroute``; returns the requests."""
    asked = list[str]()

    def answer(route: "Route") -> None:
        asked.append(route.request.post_data_json["text"])
        route.fulfill(status=status, body=body, headers={"Content-Type": "application/json", **headers})

    page.route("**/v1/translate", answer)
    return asked


def test_a_busy_server_is_asked_again_after_its_retry_time(page: "Page") -> None:
    asked = refuse(page, 503, '{"error": "the queue is full"}', **{"Retry-After": "1"})
    page.fill("#source", "a b")
    alert = page.get_by_role("alert")
    alert.get_by_text("The queue is full. Retrying in 1 s.").wait_for()
    page.unroute("**/v1/translate")
    page.locator(".output .word").first.wait_for()
    assert asked == ["a b"]
    assert alert.inner_text().strip() == ""


@pytest.mark.parametrize(
    ("status", "body", "shown", "again"),
    [
        (
            413,
            '{"error": "the text has 9 characters; the limit is 3"}',
            "The text has 9 characters; the limit is 3.",
            False,
        ),
        (400, '{"error": "`n_best`: 9 is more than 5"}', "`n_best`: 9 is more than 5.", False),
        (504, '{"error": "no search could begin in 60 seconds"}', "No search could begin in 60 seconds.", True),
        (502, "<html>Bad Gateway</html>", "The server answered with status 502 and no explanation.", True),
        (200, "<html>Sign in</html>", "The server answered with status 200 and no explanation.", False),
    ],
)
def test_an_error_is_a_sentence(page: "Page", status: int, body: str, shown: str, again: bool) -> None:
    translate(page, "a")
    refuse(page, status, body)
    page.fill("#source", "a b")
    page.get_by_role("alert").get_by_text(shown, exact=True).wait_for()
    assert page.locator("#source").input_value() == "a b"
    assert page.locator(".panel.target").evaluate("panel => panel.matches('.stale')")  # the old one, dimmed
    page.unroute("**/v1/translate")
    button = page.get_by_role("button", name="Try now")
    assert button.is_visible() is again
    if again:
        button.click()
    else:
        page.fill("#source", "b")
    page.wait_for_selector(".panel.target:not(.stale)")
    assert page.get_by_role("alert").inner_text().strip() == ""


def test_an_unreachable_server_is_asked_until_it_responds(page: "Page") -> None:
    stop_the_clock(page)
    page.route("**/v1/translate", lambda route: route.abort("connectionrefused"))
    page.locator("#source").fill("a b c")
    page.clock.run_for(300)
    waits = [2, 4, 8, 15, 30, 30]
    for number, seconds in enumerate(waits):
        page.get_by_role("alert").get_by_text(f"The server cannot be reached. Retrying in {seconds} s.").wait_for()
        page.clock.run_for(1000 * seconds - 1)
        assert page.locator(".output").inner_text() == "The translation appears here."
        if number == len(waits) - 1:
            page.unroute("**/v1/translate")
        page.clock.run_for(1)
    page.wait_for_selector(".output .word")
    assert page.get_by_role("alert").inner_text().strip() == ""


def test_a_server_that_starts_again_is_found_again(open_page: Open, tmp_path: Path) -> None:
    server = Server(tmp_path, ["soft"])
    try:
        page = open_page(server.address)
        translate(page, "a b")
        stop_the_clock(page)  # else the page might find the server before the button is pressed
        server.stop()
        page.fill("#source", "a b c")
        page.clock.run_for(300)
        page.get_by_role("alert").get_by_text("The server cannot be reached.").wait_for()
        assert page.locator("#source").input_value() == "a b c"
        server.start()
        page.get_by_role("button", name="Try now").click()
        page.locator(".output .word").nth(2).wait_for()
        assert page.locator(".output").inner_text() == "a b c"
    finally:
        server.stop()


def test_a_text_beyond_a_limit_is_sent_without_alternatives_or_attention_or_not_at_all(
    open_page: Open, tmp_path: Path
) -> None:
    server = Server(tmp_path, ["soft"], "--limit-characters", "40", ATTENTION=20)
    try:
        page = open_page(server.address)
        assert translate(page, "a b c").inner_text() == "a b c"
        assert page.locator(".alternatives li").count() == 3
        page.fill("#source", "a b c d e f")  # too long for alternatives with attention
        shown(page, "a b c d e f")
        assert page.locator(".alternatives li").count() == 1
        point_at(page, TARGET, "b")
        assert lights(page, SOURCE) == {"b": STRONG, "c": WEAK}
        page.fill("#source", "a b c d e f a b c d e f")  # for attention
        shown(page, "a b c d e f a b c d e f")
        assert note(page) == "This text is too long to show where its words came from."
        asked = refuse(page, 500, "{}")
        page.fill("#source", "a b c d e f " * 4)
        page.get_by_text("48 of 40 characters").wait_for()
        page.wait_for_timeout(500)
        assert asked == []
    finally:
        server.stop()


def test_the_api_key_is_sent_to_the_server(open_page: Open, tmp_path: Path) -> None:
    server = Server(tmp_path, ["soft"], "--api-key", "secret")
    try:
        page = open_page(server.address)
        page.fill("#source", "a b")
        page.get_by_role("alert").get_by_text("The API key is missing or wrong.").wait_for()
        page.get_by_label("API key").fill("secret")
        page.keyboard.press("Enter")
        page.locator(".output .word").first.wait_for()
    finally:
        server.stop()


# ---- How it looks ----


def test_text_is_never_read_as_html(page: "Page") -> None:
    page.get_by_label("Model").select_option(label="hebrew")
    text = "<img/src=x> <script>alert(1)</script>"
    translate(page, text)
    assert page.locator("main img, main script").count() == 0
    assert page.locator("#mirror").inner_text().strip("\u200b") == text


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_nothing_is_wider_than_the_window(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    translate(page, "a b c d e f g h " * 5 + "lower" * 20)
    page.get_by_role("button", name="Compare").click()
    page.locator(".output").nth(1).locator(".word").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tops = [box["y"] for box in (page.locator(".panel").nth(i).bounding_box() for i in range(3)) if box]
    below = {360: [0, 1, 2], 800: [0, 1, 1], 1400: [0, 0, 0]}  # in which row of panels each is
    assert [sorted(set(tops)).index(top) for top in tops] == below[width]


@pytest.mark.parametrize("width", [360, 1400])
def test_the_highlighted_copy_breaks_lines_like_the_source(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    texts = ["a b c " * 60, "a\n\n\nb\n", "a" * 300, "a\tb  c   d " * 40, "", "abc-def/ghi " * 30, "שלום עולם " * 40]
    for text in texts:
        page.fill("#source", text)
        heights = page.evaluate("""() => {
            const both = [document.getElementById("source"), document.getElementById("mirror")];
            const set = (name, value) => { for (const { style } of both) style.setProperty(name, value); };
            const grown = both.map(each => each.getBoundingClientRect().height);
            set("overflow", "hidden"), set("min-height", "0"), set("height", "0");
            const own = both.map(each => each.scrollHeight); // how high each would be by itself
            for (const { style } of both) style.cssText = "";
            return [...grown, ...own];
        }""")
        assert heights[0] == heights[1], text
        assert heights[2] == heights[3], text


def test_right_to_left_text_is_displayed_right_to_left(page: "Page") -> None:
    page.get_by_label("Model").select_option(label="hebrew")
    output = translate(page, "a b c")
    assert output.inner_text() == " ".join(NUMBERS[:3])
    assert (output.get_attribute("dir"), output.get_attribute("lang")) == ("rtl", "he")
    first, second = (output.locator(".word").nth(i).bounding_box() for i in range(2))
    assert first is not None
    assert second is not None
    assert first["x"] > second["x"] + second["width"]
    assert first["x"] > 1000  # at the right edge of its panel
    output.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")  # onwards
    assert here(page, TARGET) == [NUMBERS[1]]
    assert lights(page, SOURCE) == {"b": STRONG, "c": WEAK}


CONTRAST = """() => {
    // Of every text that is seen, the least contrast with what lies behind it, by WCAG 2.
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const parse = colour => { canvas.fillStyle = colour; canvas.clearRect(0, 0, 1, 1); canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
    const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
    const light = ([r, g, b]) => [r, g, b].map(each => each / 255)
        .map(each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
        .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => { const chain = [];
        for (let each = element; each; each = each.parentElement)
            chain.unshift(parse(getComputedStyle(each).backgroundColor));
        return chain.reduce((under, top) => over(top, under), [255, 255, 255, 1]); };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
        if (!own || !element.checkVisibility() || element.closest(".unseen, #mirror, :disabled, option")) continue;
        const back = behind(element), front = over(parse(getComputedStyle(element).color), back);
        const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
        found.push([(high + 0.05) / (low + 0.05), element.className + " " + element.textContent.slice(0, 20)]);
    }
    return found.sort((a, b) => a[0] - b[0]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(open_page: Open, scheme: str) -> None:
    page = open_page(color_scheme=scheme, reduced_motion="reduce")
    translate(page, "a b c d\nc z")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("words differ").wait_for()
    # Every word lit as strongly as can be; the source's words have its text in front of them.
    page.evaluate("""() => {
        for (const element of document.querySelectorAll(".output .word, #mirror .word")) element.classList.add("lit");
        for (const element of document.querySelectorAll(".lit, td.cell")) element.style.setProperty("--weight", 1);
        document.querySelector(".why").textContent = "The queue is full.";
    }""")
    found = page.evaluate(CONTRAST)
    assert len(found) > 50
    assert found[0][0] >= 4.5, found[:5]
    front, back = page.evaluate("""() => [getComputedStyle(document.getElementById("source")).color,
        getComputedStyle(document.querySelector("#mirror .lit")).backgroundColor]""")
    assert front != back


def test_the_accessibility_checker_axe_finds_nothing(open_page: Open) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme, bypass_csp=True)
        for text in (None, "a b c\nd Zebulonka"):
            if text is not None:
                translate(page, text)
                page.get_by_role("button", name="Compare").click()
                page.get_by_text("word differs").wait_for()
            results = Axe().run(page)
            assert results.violations_count == 0, results.generate_report()


# ---- Files ----


def test_a_file_is_translated_and_saved(page: "Page") -> None:
    content = b"<p>a <b>b</b></p>"
    with page.expect_download() as download:
        page.set_input_files("#file", {"name": "x.html", "mimeType": "text/html", "buffer": content})
    assert re.fullmatch(r"x\.\w+\.html", download.value.suggested_filename)
    assert Path(download.value.path()).read_bytes() == content
    assert page.locator("#told").inner_text() == "x.html has been translated."
    assert page.get_by_role("button", name="Translate a file").is_enabled()


def test_the_columns_of_a_table_are_asked_for(page: "Page") -> None:
    table, columns = b"id,text\n1,a\n", page.get_by_label("Columns")
    assert columns.is_hidden()
    page.set_input_files("#file", {"name": "x.csv", "mimeType": "text/csv", "buffer": table})
    assert page.evaluate("document.activeElement.id") == "columns"
    columns.press("Enter")
    page.locator("#told.failed", has_text="is a table").wait_for()
    columns.fill("text")
    with page.expect_download() as download:
        page.get_by_role("button", name="Translate", exact=True).click()
    assert Path(download.value.path()).read_bytes() == table
    page.set_input_files("#file", {"name": "x.html", "mimeType": "text/html", "buffer": b"<p>a"})
    page.locator("#told", has_text="x.html has been translated.").wait_for()
    assert columns.is_hidden()


def test_a_file_that_cannot_be_translated_is_refused_in_a_sentence(page: "Page") -> None:
    page.set_input_files("#file", {"name": "x.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"})
    page.locator("#told.failed", has_text="cannot be translated").wait_for()
    assert page.get_by_role("button", name="Translate a file").is_enabled()
