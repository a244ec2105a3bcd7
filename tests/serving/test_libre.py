import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from nmtkit.serving.libre import _between_tags
from nmtkit.serving.search import Description, describe
from tests.serving.conftest import Start


@pytest.fixture
def address(start: Start) -> Iterator[str]:
    """A server on a port of this machine, which asks for a key."""
    app = start(key="secret").app
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_the_client_from_pypi_works_unchanged(address: str) -> None:
    client = LibreTranslateAPI(address, api_key="secret")
    assert client.translate("a b\n\nlower", "en", "en") == "a b\n\nlower"
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["en"]}]


def test_a_key_is_asked_for_in_the_body_too(start: Start) -> None:
    client = start(key="secret")
    asked = {"q": "a", "source": "en", "target": "en"}
    for values, status in ((asked, 403), (asked | {"api_key": "no"}, 403), (asked | {"api_key": "secret"}, 200)):
        assert client.post("/translate", json=values).status_code == status
        assert client.post("/translate", data=values).status_code == status
    assert client.get("/frontend/settings").json()["keyRequired"] is True


@pytest.fixture
def client(start: Start) -> TestClient:
    return start()


def test_a_list_of_texts_has_a_list_of_translations(client: TestClient) -> None:
    asked = {"q": [" a b ", "", "c\n"], "source": "en", "target": "en", "format": "text"}
    assert client.post("/translate", json=asked).json() == {"translatedText": [" a b ", "", "c\n"]}


def test_alternatives_are_further_translations_of_the_whole_text(client: TestClient) -> None:
    asked = {"q": "a b", "source": "auto", "target": "en", "alternatives": 2}
    answer = client.post("/translate", json=asked).json()
    assert answer["translatedText"] == "a b"
    assert len({"a b", *answer["alternatives"]}) == 3
    assert answer["detectedLanguage"] == {"confidence": 100, "language": "en"}
    assert client.post("/translate", data=asked).json() == answer


def test_html_keeps_its_tags_and_what_is_no_text(client: TestClient) -> None:
    html = "<p class='a b'>a <b>b</b></p><!-- c > d --><SCRIPT>if (a < b) c</SCRIPT ><style>a > b {}</style> &lt; d<br"
    answer = client.post("/translate", json={"q": html, "source": "en", "target": "en", "format": "html"})
    assert answer.json()["translatedText"] == html.replace("&lt;", "&lt;unk&gt;")


@pytest.mark.parametrize(
    ("html", "translated"),
    [
        ("<b title=\"a > b\" class = 'c > d'>lower</b> e", None),
        ("<p title=don't>a</p> <a href=\"b>c</a> d", None),  # quotes that hold no value, or are not closed
        ("a < b <3 c<b>d</b>", "a &lt;unk&gt; b &lt;unk&gt; &lt;unk&gt; c<b>d</b>"),
        ("a</b><?c d?><!DOCTYPE e>f", None),
        ("<!-->a<!--->b<script>if</script\xa0>if</script\n>c", None),  # comments that end at once; no white space
    ],
)
def test_a_tag_ends_outside_quotes_and_begins_with_a_letter(client: TestClient, html: str, translated: str) -> None:
    answer = client.post("/translate", json={"q": html, "source": "en", "target": "en", "format": "html"})
    assert answer.json()["translatedText"] == (translated or html)


def test_spaces_that_html_spells_in_letters_stay_where_they_are_around_a_text(client: TestClient) -> None:
    html = "<p>&nbsp;</p>a&nbsp;<b>&#160;e f ? &nbsp;A&nbsp;b</b>&#xA0;"
    answer = client.post("/translate", json={"q": html, "source": "en", "target": "en", "format": "html"})
    assert answer.json()["translatedText"] == html.replace("?", "&lt;unk&gt;").replace("A&nbsp;b", "&lt;unk&gt; b")


@pytest.mark.parametrize("part", ["<b>", "<b =", "<b ='", "='<b ", "<script", "</script ", "<!", "<!--"])
def test_a_megabyte_of_what_may_be_tags_takes_no_time_that_grows_with_its_square(part: str) -> None:
    html = part * (1_000_000 // len(part))
    began = time.process_time()
    assert sum(end - start for start, end in _between_tags(html)) == part.find("<")
    assert time.process_time() - began < 5


def test_many_blank_texts_are_refused_at_once(client: TestClient) -> None:
    asked = {"q": [""] * 900_000, "source": "en", "target": "en"}
    began = time.process_time()
    answer = client.post("/translate", json=asked)
    assert time.process_time() - began < 1
    reason = "the text has 900000 lines or sentences, more than 10000"
    assert (answer.status_code, answer.json()) == (413, {"error": reason})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"source": "en", "target": "en"}, "`q`: a text or a list of texts is missing"),
        ({"q": ["a", 1], "source": "en", "target": "en"}, "`q`: a text or a list"),
        ({"q": "a", "source": "en"}, "the request: target: missing"),
        ({"q": "a", "source": "en", "target": "fr"}, "there is no model from en to fr; there are: en to en"),
        ({"q": "a", "source": "en", "target": "en", "format": "pdf"}, "the request: format: expected one of"),
        ({"q": "a", "source": "en", "target": "en", "alternatives": 20}, "`alternatives`: 20 is not less than 20"),
        ({"q": "a", "source": "en", "target": "en", "alternatives": -1}, "the request: alternatives: -1 is less"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(client: TestClient, values: dict[str, object], complaint: str) -> None:
    answer = client.post("/translate", json=values)
    assert answer.status_code == 400
    assert re.match(re.escape(complaint), answer.json()["error"])


def test_auto_is_refused_where_models_have_several_source_languages(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(*given: Any) -> list[Description]:
        first, second = describe(*given)
        return [first, second._replace(source="fr")]

    monkeypatch.setattr("tests.serving.conftest.describe", described)
    answer = start("run", "other").post("/translate", json={"q": "a", "source": "auto", "target": "en"})
    reason = "`source`: auto is ambiguous, because there are several source languages; name one of them"
    assert (answer.status_code, answer.json()) == (400, {"error": reason})


def test_a_form_that_cannot_be_read_is_answered_with_a_sentence(client: TestClient) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    for content, reason in ((b"q=%ff", "the form is not UTF-8"), (b"a=&" * 30, "the form has more than 20 fields")):
        answer = client.post("/translate", content=content, headers=form)
        assert (answer.status_code, answer.json()) == (400, {"error": reason})
