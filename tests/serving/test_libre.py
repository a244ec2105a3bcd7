import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from nmtkit.documents.html import Html
from nmtkit.documents.translate import plan
from nmtkit.errors import UserError
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
    several = client.post("/translate", json=asked | {"q": ["a b", "c"], "alternatives": 1}).json()
    assert several["translatedText"] == ["a b", "c"]
    assert [len(others) for others in several["alternatives"]] == [1, 1]
    assert several["detectedLanguage"] == [answer["detectedLanguage"]] * 2


def test_what_a_client_leaves_out_may_be_null_or_empty_and_numbers_may_be_text(client: TestClient) -> None:
    asked = {"q": "a b", "source": "en", "target": "en"}
    answer = client.post("/translate", json=asked).json()
    for nothing in (None, ""):
        values = {**asked, "format": nothing, "alternatives": nothing, "api_key": nothing}
        assert client.post("/translate", json=values).json() == client.post("/translate", data=values).json() == answer
    assert len(client.post("/translate", json={**asked, "alternatives": "2"}).json()["alternatives"]) == 2
    for name in ("source", "target"):
        for missing in (None, ""):
            answer = client.post("/translate", json={**asked, name: missing})
            assert (answer.status_code, answer.json()) == (400, {"error": f"the request: {name}: missing"})


def html_answer(client: TestClient, html: str) -> str:
    answer = client.post("/translate", json={"q": html, "source": "en", "target": "en", "format": "html"})
    text: str = answer.json()["translatedText"]
    return text


@pytest.mark.parametrize(
    ("html", "translated"),
    [
        ('<p class="a b">a <b>b</b></p><!-- c > d --><script>if (a < b) c</script><style>a > b {}</style> d<br>', None),
        ('<b title="a > b">lower</b> e', '<b title="a &gt; b">lower</b> e'),
        ('<p>a <b>b <a href="x">c</a></b> <i>d</i><img src="y"> e</p>', None),
        ("<p>&nbsp;</p> a <b>{name} c</b>", "<p>\xa0</p> a <b>{name} c</b>"),
        ("a < b <b>d", "a &lt;unk&gt; b <b>d</b>"),
        ('<code>zebra a</code> b <span translate="no">zebra</span>', None),
        (
            '<html><head><meta charset="latin-1"></head><body>a <code>&eacute;</code></body></html>',
            '<html><head><meta charset="latin-1"></head><body>a <code>é</code></body></html>',
        ),
    ],
)
def test_html_keeps_its_markup_and_what_is_no_text(client: TestClient, html: str, translated: str | None) -> None:
    assert html_answer(client, html) == (translated or html)


def test_a_page_keeps_its_markup_beside_one_that_has_none(client: TestClient) -> None:
    pages = ["a b", "<p>lower <b>b</b> c</p>"]
    answer = client.post("/translate", json={"q": pages, "source": "en", "target": "en", "format": "html"})
    assert answer.json()["translatedText"] == pages


def test_there_may_be_more_alternatives_than_the_models_beam_has(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": "a b", "source": "en", "target": "en", "alternatives": 7}).json()
    assert len(set(answer["alternatives"])) == 7


def test_alternatives_of_html_have_its_markup(client: TestClient) -> None:
    asked = {"q": "<p>a <b>b</b></p>", "source": "en", "target": "en", "format": "html", "alternatives": 2}
    answer = client.post("/translate", json=asked).json()
    assert len(answer["alternatives"]) == 2
    assert all(each.startswith("<p>") and "<b>" in each for each in answer["alternatives"])


@pytest.mark.slow
@pytest.mark.parametrize("part", ["<b>", "<b =", "<b ='", "='<b ", "<script", "</script ", "<!", "<!--", "a <br> "])
def test_the_time_for_many_possible_tags_does_not_grow_with_the_square_of_their_number(part: str) -> None:
    html = part * (200_000 // len(part))
    began = time.process_time()
    with suppress(UserError):  # one that is nested too deeply is refused
        _ = plan(Html(html.encode(), "en").segments, "en", "en", (), split=False).sentences
    assert time.process_time() - began < 3


def test_many_blank_texts_are_refused_at_once(client: TestClient) -> None:
    asked = {"q": [""] * 900_000, "source": "en", "target": "en"}
    began = time.process_time()
    answer = client.post("/translate", json=asked)
    assert time.process_time() - began < 1
    reason = "`q`: a list of 900000 items; the limit is 10000"
    assert (answer.status_code, answer.json()) == (413, {"error": reason})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"source": "en", "target": "en"}, "`q`: a text or a list of texts is missing"),
        ({"q": ["a", 1], "source": "en", "target": "en"}, "`q`: a text or a list"),
        ({"q": "a", "source": "en"}, "the request: target: missing"),
        ({"q": "a", "source": "en", "target": "fr"}, "there is no model from en to fr; available: en to en"),
        ({"q": "a", "source": "en", "target": "en", "format": "pdf"}, "the request: format: expected one of"),
        ({"q": "a", "source": "en", "target": "en", "alternatives": 20}, "`alternatives`: 20 is not from 0 to 19"),
        ({"q": "a", "source": "en", "target": "en", "alternatives": -1}, "`alternatives`: -1 is not from 0 to 19"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(client: TestClient, values: dict[str, object], complaint: str) -> None:
    answer = client.post("/translate", json=values)
    assert answer.status_code == 400
    assert re.match(re.escape(complaint), answer.json()["error"])


@pytest.mark.parametrize(
    ("alternatives", "complaint"),
    [
        (-1, "`alternatives`: -1 is not from 0 to 19"),
        (10**9, "`alternatives`: 1000000000 is not from 0 to 19"),
        ("a", "the request: alternatives: expected a whole number, found str 'a'"),
    ],
)
def test_a_form_is_told_the_same_of_a_wrong_number(client: TestClient, alternatives: object, complaint: str) -> None:
    asked = {"q": "a", "source": "en", "target": "en", "alternatives": alternatives}
    for answer in (client.post("/translate", json=asked), client.post("/translate", data=asked)):
        assert (answer.status_code, answer.json()) == (400, {"error": complaint})


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


def test_a_form_may_have_several_texts(client: TestClient) -> None:
    for texts in (["a b"], ["a b", "c"]):
        answer = client.post("/translate", data={"q": texts, "source": "en", "target": "en"})
        assert answer.json()["translatedText"] == (texts if len(texts) > 1 else texts[0])


def test_a_form_that_cannot_be_read_is_answered_with_a_sentence(client: TestClient) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    many, other = (b"a=&" * 30, "the form has more than 20 fields"), "the form is not UTF-8"
    for content, reason in ((b"q=%ff", other), (b"q=\xff", other), many):
        answer = client.post("/translate", content=content, headers=form)
        assert (answer.status_code, answer.json()) == (400, {"error": reason})


@pytest.mark.parametrize("escaped", [False, True])
def test_the_text_of_a_form_may_be_escaped_or_not(client: TestClient, escaped: bool) -> None:
    text = quote("“a”") if escaped else "“a”"
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/translate", content=f"q={text}&source=en&target=en".encode(), headers=form)
    assert answer.status_code == 200
    assert answer.json() == client.post("/translate", json={"q": "“a”", "source": "en", "target": "en"}).json()
