import re
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

from nmtkit.documents.formats import SUFFIXES
from nmtkit.documents.segment import Document
from nmtkit.serving import files, service
from nmtkit.serving.limits import FILE, MARKS, Limits
from tests.documents.files import odt, read
from tests.serving.conftest import Start

BROKEN, BOUNDED = {"content-type": "multipart/form-data"}, {"content-type": "multipart/form-data; boundary=x"}
BOTH = {"source": "en", "target": "en"}
PAGE = b"<p>a <b>b</b></p>"


@pytest.fixture
def client(start: Start) -> TestClient:
    return start()


def asked(client: TestClient, name: str, content: bytes, **fields: object) -> tuple[int, str]:
    """The status, and the path of the translation or the complaint."""
    answer = client.post("/translate_file", files={"file": (name, content)}, data={**BOTH, **fields})
    said = answer.json()
    return answer.status_code, said["error"] if answer.status_code != 200 else said["translatedFileUrl"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.odt", odt("<text:p>a <text:span>b</text:span> c</text:p>")),
        ("x.srt", b"1\n00:00:01,000 --> 00:00:02,000\na b\n\n2\n00:00:02,000 --> 00:00:03,000\nc\n\n"),
        ("x.html", PAGE),
        ("x.txt", b"a b\n\nc"),
    ],
)
def test_a_document_is_translated_and_can_be_downloaded(client: TestClient, name: str, content: bytes) -> None:
    status, url = asked(client, name, content)
    assert status == 200
    answer = client.get(url)
    saved = name.replace(".", ".en.")
    assert answer.headers["content-disposition"] == f"attachment; filename*=utf-8''{saved}"
    assert answer.headers["x-content-type-options"] == "nosniff"
    document = read(name, content)
    assert answer.content == document.write(document.segments)  # the model says its source again


def test_the_address_of_a_translation_is_that_of_the_proxy(start: Start) -> None:
    client = start(hosts=["testserver"])
    for sent, address in (
        ({}, "http://testserver/"),
        ({"X-Forwarded-Host": "a.example", "X-Forwarded-Proto": "https"}, "https://a.example/"),
        ({"X-Forwarded-Host": "a.example:81, b", "X-Forwarded-Prefix": "/nmt/"}, "http://a.example:81/nmt/"),
    ):
        client.headers = sent
        status, url = asked(client, "a.html", PAGE)
        assert status == 200
        assert url.startswith(f"{address}download_file/")


def test_the_configuration_of_nginx_lets_every_form_through_and_tells_the_address() -> None:
    text = (Path(__file__).parents[2] / "recipes/serve/nginx.conf").read_text("utf-8")
    [megabytes] = re.findall(r"^ *client_max_body_size (\d+)m;", text, re.MULTILINE)
    assert FILE < int(megabytes) << 20 < 2 * FILE
    assert int(megabytes) << 20 > Limits().body
    assert {"proxy_set_header X-Forwarded-Host $host;", "proxy_set_header X-Forwarded-Proto $scheme;"} <= {
        line.strip() for line in text.splitlines()
    }


def test_a_file_name_is_reduced_to_a_safe_and_short_one(client: TestClient) -> None:
    status, url = asked(client, "../../été\n1.html", PAGE)
    assert status == 200
    assert unquote(re.sub(r".*/download_file/[\w-]+\.", "", url)).endswith("1.en.html")
    assert client.get(url).content == PAGE
    status, url = asked(client, "x" * 300 + ".html", PAGE)
    assert status == 200
    assert len(url) < 250


def test_columns_of_a_table_and_a_model_by_its_name(client: TestClient) -> None:
    table = b"id,text,more\n1,a,b\n"
    assert asked(client, "a.csv", table)[0] == 400
    for columns in (["text"], ["text", "more"]):
        status, url = asked(client, "a.csv", table, columns=columns, model="run")
        assert status == 200
        assert client.get(url).content == table


def test_terms_are_in_a_document_too(client: TestClient) -> None:
    status, url = asked(client, "a.html", PAGE, terms='[["b", "g|h"]]')
    assert status == 200
    assert re.search("[gh]", client.get(url).text)
    assert client.get(asked(client, "a.html", PAGE, terms="[]")[1]).content == PAGE


@pytest.mark.parametrize(
    ("name", "content", "fields", "complaint"),
    [
        ("a.html", PAGE, {"terms": "dog"}, "^`terms`: not valid JSON"),
        ("a.html", PAGE, {"terms": '[["a"]]'}, "^`terms`: .* is not a source term and its translation"),
        ("a.pdf", b"%PDF", {}, r"^a\.pdf: cannot be translated"),
        ("a.docx", b"PK", {}, r"^a\.docx: is damaged, or not in the format"),
        ("a.html", PAGE, {"target": "xx"}, "^there is no model from en to xx"),
        ("a.html", PAGE, {"model": "other"}, "^`model`: there is no 'other'"),
    ],
)
def test_what_cannot_be_translated_is_refused_in_a_line(
    client: TestClient, name: str, content: bytes, fields: dict[str, str], complaint: str
) -> None:
    status, said = asked(client, name, content, **fields)
    assert status == 400
    assert re.search(complaint, said)


def test_requests_without_a_form_and_a_file_are_refused(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    for answer, complaint in (
        (client.post("/translate_file", json=BOTH), "is not a complete form with a file"),
        (client.post("/translate_file", data=BOTH), "is not a complete form with a file"),
        (client.post("/translate_file", files={"other": ("a.html", PAGE)}), "`file`: a file is missing"),
        (client.post("/translate_file", files={"file": ("a.html", PAGE)}), "a language is missing"),
        (client.post("/translate_file", content=b"--x\r\nno", headers=BROKEN), "is not a complete form with a file"),
        (client.post("/translate_file", content=b"--f\r\nno", headers=BOUNDED), "is not a complete form with a file"),
        (client.post("/translate_file", content=b"--f--", headers=BOUNDED), "is not a form with a file"),
        (client.post("/translate_file", content=b"--x--", headers=BROKEN), "is not a form with a file"),
    ):  # fmt: skip
        assert answer.status_code == 400
        assert complaint in answer.json()["error"]
    assert caplog.messages == []


def test_a_form_that_was_cut_off_is_refused_as_incomplete(client: TestClient) -> None:
    sent = client.build_request("POST", "/translate_file", files={"file": ("a.html", PAGE)}, data=BOTH)
    form, headers = sent.read(), {"content-type": sent.headers["content-type"]}
    assert client.post("/translate_file", content=form, headers=headers).status_code == 200
    for end in (0, 9, len(form) // 2, len(form) - 5):
        answer = client.post("/translate_file", content=form[:end], headers=headers)
        assert (answer.status_code, "its end is missing" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("path", ["/translate", "/v1/translate"])
def test_a_form_with_a_file_is_not_taken_for_broken_json(client: TestClient, path: str) -> None:
    answer = client.post(path, files={"q": ("a.txt", b"a")}, data=BOTH)
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "the request is a multipart form; send a JSON object",
    )


def test_a_key_is_asked_for(start: Start) -> None:
    client = start(key="secret")
    assert asked(client, "a.html", PAGE)[0] == 403
    assert asked(client, "a.html", PAGE, api_key="no")[0] == 403
    assert asked(client, "a.html", PAGE, api_key="secret")[0] == 200


def test_files_have_the_limits_of_texts(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LINE", 10)
    client = start(limits=Limits(characters=20, lines=3))
    complaint = "a line or sentence has 11 characters, more than 10"
    assert asked(client, "a.html", b"<p>" + b"a" * 11) == (413, complaint)
    assert asked(client, "a.html", b"<p>" + b"a " * 20) == (413, "the text has 39 characters; the limit is 20")
    assert asked(client, "a.html", b"<p>a" * 4)[0] == 413
    complaint = "a.csv: has more than 3 paragraphs, which is the limit"
    assert asked(client, "a.csv", b"a\n" * 4, columns="1") == (413, complaint)
    assert asked(client, "a.html", bytes(FILE + 1)) == (413, f"the request has more than {FILE} bytes")


@pytest.mark.slow
def test_a_document_that_takes_too_long_is_given_up_and_does_not_hold_up_others(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, go_on, read_document = start(limits=Limits(timeout=1)), threading.Event(), files.read_document

    def slowly(name: str, *given: Any) -> Document:
        assert name == "a.html" or go_on.wait(60)
        return read_document(name, *given)

    monkeypatch.setattr(files, "read_document", slowly)
    for _ in range(3):
        assert asked(client, "slow.html", PAGE) == (504, "the request took more than 1 seconds")
    assert asked(client, "a.html", PAGE)[0] == 200
    go_on.set()


def test_a_paragraph_with_very_much_markup_is_refused(client: TestClient) -> None:
    marks = b"<p>" + b"a<b>b</b>" * (MARKS + 1)
    assert asked(client, "a.html", marks) == (413, f"a paragraph has more than {MARKS} pieces of markup")


def test_documents_beyond_those_that_may_wait_are_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DOCUMENTS", 0)
    assert asked(start(), "a.html", PAGE) == (503, "too many documents are waiting")
    monkeypatch.setattr(files, "DOCUMENTS", 1)
    client = start("other")
    for _ in range(2):  # a place is free again
        assert asked(client, "a.html", PAGE)[0] == 200
        assert asked(client, "a.pdf", PAGE)[0] == 400


def test_files_are_kept_for_a_while_and_the_oldest_go_first(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILES", 2 * len(PAGE))
    urls = [asked(client, "a.html", PAGE)[1] for _ in range(3)]
    assert len(set(urls)) == 3
    assert [client.get(url).status_code for url in urls] == [404, 200, 200]
    now = time.monotonic()
    monkeypatch.setattr(files.time, "monotonic", lambda: now + 1_900)
    answer = client.get(urls[2])
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "there is no such file; files are kept for half an hour",
    )


def test_names_of_files_are_not_in_the_metrics(client: TestClient) -> None:
    client.get(asked(client, "a.html", PAGE)[1])
    assert 'path="/download_file/{name}"' in client.get("/metrics").text


def test_the_settings_say_which_files_are_translated(client: TestClient) -> None:
    said = client.get("/frontend/settings").json()
    assert said["filesTranslation"] is True
    assert said["supportedFilesFormat"] == list(SUFFIXES)
