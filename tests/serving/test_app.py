"""Limits, keys and errors: every request is answered with a status and a sentence."""

import json
import logging
import re
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from nmtkit.folders import write_checksums
from nmtkit.serving import api, libre, search, service
from nmtkit.serving.engine import Busy, Engine
from nmtkit.serving.limits import Limits
from tests.serving.conftest import Start


def refusal(client: TestClient, **values: Any) -> tuple[int, str]:
    answer = client.post("/v1/translate", json=values)
    return answer.status_code, answer.json()["error"]


def test_a_text_beyond_a_limit_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start(limits=Limits(characters=40, lines=3, beam=5))
    for name, most in {"LINE": 30, "ATTENTION": 20}.items():
        monkeypatch.setattr(service, name, most)
        monkeypatch.setattr(api, name, most)
    told = {"body": 100_240, "characters": 40, "lines": 3, "line": 30, "attention": 20, "beam": 5, "terms": 20_000}
    assert client.get("/v1/models").json()["limits"] == told
    assert refusal(client, text="a" * 100_240) == (413, "the request has more than 100240 bytes")
    assert refusal(client, text="a " * 21) == (413, "the text has 42 characters; the limit is 40")
    many = "the text has 22 characters, 2 times for `n_best` or `mbr`; the limit is 40"
    assert refusal(client, text="a " * 11, n_best=2) == refusal(client, text="a " * 11, mbr=2) == (413, many)
    answer = client.post("/translate", json={"q": ["a" * 20, "b" * 20], "source": "en", "target": "en"})
    together = "the text has 41 characters; the limit is 40"
    assert (answer.status_code, answer.json()["error"]) == (413, together)
    assert refusal(client, lines=["a"] * 4) == (413, "`lines`: a list of 4 items; the limit is 3")
    for name in ("prefixes", "references"):
        assert refusal(client, lines=["a"], **{name: ["a"] * 4}) == (
            413,
            f"`{name}`: a list of 4 items; the limit is 3",
        )
    answer = client.post("/translate", json={"q": ["a"] * 4, "source": "en", "target": "en"})
    assert (answer.status_code, answer.json()["error"]) == (413, "`q`: a list of 4 items; the limit is 3")
    assert refusal(client, text="a", terms=[[]] * 20_001) == (413, "`terms`: a list of 20001 items; the limit is 20000")
    complaint = '`terms`: expected pairs such as ["dog", "chien"]'
    assert refusal(client, text="a", terms=[["a", "b", "c"]]) == (400, complaint)
    assert refusal(client, text="a", terms=5) == (400, "the request: terms: expected a list, found int 5")
    assert refusal(client, text="a\n" * 4) == (413, "the text has 4 lines or sentences, more than 3")
    longest = (413, "a line or sentence has 31 characters, more than 30")
    assert refusal(client, lines=["a", "a" * 31]) == refusal(client, text="b\n" + "a" * 31) == longest
    for asked in ({"q": "a" * 31}, {"q": ["a", f"<b>{'a' * 31}</b>"], "format": "html"}):
        answer = client.post("/translate", json={**asked, "source": "en", "target": "en"})
        assert (answer.status_code, answer.json()["error"]) == longest
    fewer = "the text has 21 characters; the limit for `attention` is 20"
    assert refusal(client, text="a" * 21, attention=True) == (413, fewer)
    bounds = {"beam_size": 5, "n_best": 5, "max_len_b": 100, "max_input_length": 250}
    for name, bound in bounds.items():
        reason = f"`{name}`: {bound + 1} is more than this server's limit of {bound}"
        assert refusal(client, text="a", **{name: bound + 1}) == (400, reason)
    assert refusal(client, text="a", max_len_a=4.5) == (
        400,
        "`max_len_a`: 4.5 is more than this server's limit of 4",
    )
    assert client.post("/v1/translate", json={"text": "a " * 15 + "\nb"}).status_code == 200


def test_a_text_of_too_many_lines_is_refused_before_it_is_split_into_sentences(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start(limits=Limits(lines=3))
    split = list[str]()
    monkeypatch.setattr("nmtkit.documents.sentences.segment", lambda language, line: split.append(line) or [line])
    too_many = (413, "the text has 4 lines or sentences, more than 3")
    for asked in ({"text": "a\n\n" * 4}, {"lines": ["a", "b", "c\rd"], "split": True}):
        assert refusal(client, **asked) == too_many
    for asked in ({"q": "a\n" * 4}, {"q": ["a", "b\nc\nd"]}, {"q": "<p>a\n<b>b</b><p>b<p>c<p>d", "format": "html"}):
        answer = client.post("/translate", json={**asked, "source": "en", "target": "en"})
        assert (answer.status_code, answer.json()["error"]) == too_many
    assert split == []
    assert client.post("/v1/translate", json={"text": "\n \na\n\t\n"}).status_code == 200
    assert split == ["a"]


@pytest.mark.parametrize("split", [True, False])
def test_texts_and_documents_are_split_into_sentences_if_the_server_does_and_as_a_request_says(
    start: Start, split: bool
) -> None:
    client, text = start(split=split), "a lower. Er ah!"
    pair = {"source": "en", "target": "en"}
    requests: list[tuple[bool, str, dict[str, Any]]] = [
        (split, "/v1/translate", {"json": {"text": text}}),
        (not split, "/v1/translate", {"json": {"text": text, "split": not split}}),
        (False, "/v1/translate", {"json": {"lines": [text]}}),
        (True, "/v1/translate", {"json": {"lines": [text], "split": True}}),
        (split, "/translate", {"json": {"q": text, **pair}}),
        (split, "/translate", {"json": {"q": f"<p>{text}</p>", "format": "html", **pair}}),
        (split, "/translate_file", {"files": {"file": ("a.html", f"<p>{text}</p>".encode())}, "data": pair}),
    ]
    searched = 0
    for parts, path, asked in requests:
        assert client.post(path, **asked).status_code == 200
        searched += 2 if parts else 1
        assert f'\nnmtkit_sentences_total{{model="run"}} {searched}.0\n' in client.get("/metrics").text


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "the request is not JSON"),
        (b'{"text": "a"', "the request is not JSON"),
        (b'{"text": "\xff"}', "the request is not UTF-8 at byte 10"),
        (b'\xef\xbb\xbf{"text": "a"}', "the request is not JSON"),
        (b'{"text": "a", "alpha": NaN}', "the request is not JSON: it has NaN"),
        (b"[" * 100_000, "the request is not JSON: a value is too long or nested too deeply"),
        (b'{"text": ' + b"1" * 10_000 + b"}", "the request is not JSON: a value is too long"),
        (b"[]", "the request is not a JSON object"),
        (b"3", "the request is not a JSON object"),
    ],
)
def test_invalid_json_is_answered_with_a_sentence(start: Start, body: bytes, complaint: str) -> None:
    client = start()
    for path in ("/v1/translate", "/translate"):
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(complaint)
        assert "NaN" not in complaint or answer.json()["error"] == complaint


def test_unknown_paths_and_methods_are_refused(start: Start) -> None:
    client = start()
    for method, path, status in (("GET", "/no", 404), ("GET", "/v1/translate", 405), ("POST", "/", 405)):
        answer = client.request(method, path)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
        assert ("allow" in answer.headers) is (status == 405)
    assert 'nmtkit_requests_total{path="unknown",status="405"} 2.0' in client.get("/metrics").text


@pytest.mark.parametrize("headers", [{"X-API-Key": "secret"}, {"Authorization": "Bearer secret"}])
def test_a_key_is_needed_to_translate_and_for_metrics(start: Start, headers: dict[str, str]) -> None:
    client = start(key="secret")
    for method, path in (("POST", "/v1/translate"), ("GET", "/metrics")):
        for given, status in ((None, 403), ({"X-API-Key": "no"}, 403), (headers, 200)):
            content = b'{"text": "a"}' if method == "POST" else None
            assert client.request(method, path, content=content, headers=given).status_code == status
    assert client.get("/v1/models").json()["key"] is True
    assert [client.get(path).status_code for path in ("/", "/health", "/languages")] == [200, 200, 200]


def test_other_origins_may_use_the_api_only_if_allowed(start: Start) -> None:
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert start().options("/v1/translate", headers=asked).status_code == 405
    client = start("other", origins=["https://a.example"])
    assert client.options("/v1/translate", headers=asked).headers["access-control-allow-origin"] == "https://a.example"
    other = client.get("/v1/models", headers={"Origin": "https://b.example"})
    assert "access-control-allow-origin" not in other.headers
    # A page can read when to retry, and the name of a translated file.
    shown = client.get("/v1/models", headers={"Origin": "https://a.example"}).headers["access-control-expose-headers"]
    assert shown == "Retry-After, Content-Disposition"


def test_a_server_with_host_names_refuses_others(start: Start) -> None:
    client = start(hosts=["localhost", "[::1]"])
    for host, status in (
        ("localhost", 200),
        ("localhost:8080", 200),
        ("[::1]:8080", 200),
        ("rebound.example", 400),
        ("localhost.rebound.example:8080", 400),
        ("", 400),
    ):
        for path in ("/", "/v1/models"):
            assert client.get(path, headers={"Host": host}).status_code == status


def test_a_server_error_is_logged_without_the_text(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = start()

    def fail(translations: list[search.Translation]) -> str:
        raise ZeroDivisionError(translations[0].text)

    monkeypatch.setattr(search, "_fields", fail)
    caplog.set_level(logging.DEBUG)
    assert refusal(client, text="a b c") == (500, "internal server error; see the server's log")
    assert "ZeroDivisionError" in caplog.text
    assert re.search(r"test_app\.py:\d+ fail", caplog.text)
    assert "a b c" not in caplog.text


def test_a_replaced_worker_without_the_same_model_is_a_logged_error_without_a_path_and_bad_health(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = start()

    def lost() -> str:
        """What is logged by a worker that has to load the models again."""
        caplog.clear()
        search.translators_of.cache_clear()
        assert refusal(client, text="a") == (500, "the model can no longer be loaded; see the server's log")
        return caplog.messages[-1].removeprefix("the process that replaces a killed worker cannot load the models: ")

    assert client.get("/health").status_code == 200
    write_checksums(tmp_path / "run", {})
    assert lost() == f"{tmp_path / 'run'}: has changed since the server was started; restart it"
    shutil.rmtree(tmp_path / "run")
    assert lost().startswith(str(tmp_path / "run"))
    assert client.get("/health").status_code == 503


def test_metrics_count_requests_without_text(start: Start) -> None:
    client = start()
    client.post("/v1/translate", json={"text": "a b\nlower c d"})
    refusal(client, text="secret", n_best=0)
    counted = client.get("/metrics").text
    for line in (
        'nmtkit_requests_total{path="/v1/translate",status="200"} 1.0',
        'nmtkit_requests_total{path="/v1/translate",status="400"} 1.0',
        'nmtkit_request_seconds_count{path="/v1/translate"} 2.0',
        'nmtkit_sentences_total{model="run"} 2.0',
        'nmtkit_words_total{model="run"} 5.0',
        "nmtkit_queued_sentences 0.0",
    ):
        assert f"\n{line}\n" in counted
    assert "secret" not in counted
    names = {family.name for family in text_string_to_metric_families(counted)}
    assert {"nmtkit_requests", "nmtkit_request_seconds", "nmtkit_search_seconds", "nmtkit_start_time_seconds"} <= names
    assert all(name.startswith("nmtkit_") for name in names)


def test_sentences_of_a_disconnected_client_are_dropped(start: Start) -> None:
    client = start()

    async def gone() -> list[dict[str, Any]]:
        """A request to the application, whose client disconnects immediately."""
        messages = [
            {"type": "http.request", "body": json.dumps({"lines": ["a b c"] * 5_000}).encode()},
            {"type": "http.disconnect"},
        ]
        scope = {
            "type": "http", "method": "POST", "path": "/v1/translate", "raw_path": b"/v1/translate", "headers": [],
            "query_string": b"", "root_path": "", "server": ("localhost", 80), "scheme": "http", "state": {},
        }  # fmt: skip
        sent = list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await client.app(scope, receive, send)
        return sent

    assert client.portal is not None
    [head, _] = client.portal.call(gone)
    assert head["status"] == 499
    assert "nmtkit_queued_sentences 0.0" in client.get("/metrics").text


def test_a_text_or_page_that_takes_long_to_read_does_not_hold_up_others(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, others = start(), threading.Event()

    def after_others(function: Callable[..., Any], *given: Any) -> Any:
        assert others.wait(30)
        return function(*given)

    monkeypatch.setattr(service, "LINE", 3)
    monkeypatch.setattr(service, "sentences", partial(after_others, service.sentences))
    monkeypatch.setattr(libre, "Html", partial(after_others, libre.Html))
    for path, asked in (
        ("/v1/translate", {"text": "a\nb\nc"}),
        ("/translate", {"q": "a\nb\nc", "source": "en", "target": "en"}),
        ("/translate", {"q": "<p>a", "source": "en", "target": "en", "format": "html"}),
    ):
        others.clear()
        with ThreadPoolExecutor() as threads:
            slow = threads.submit(client.post, path, json=asked)
            assert client.get("/health").status_code == 200
            assert client.post("/v1/translate", json={"lines": ["a"]}).status_code == 200
            assert not slow.done()
            others.set()
        assert slow.result().status_code == 200


def test_a_full_queue_answers_with_a_retry_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start()

    async def full(*arguments: object) -> None:
        raise Busy("the queue is full", 7)

    monkeypatch.setattr(Engine, "answer", full)
    for path, values in (("/v1/translate", {"text": "a"}), ("/translate", {"q": "a", "source": "en", "target": "en"})):
        answer = client.post(path, json=values)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
        assert answer.json() == {"error": "the queue is full"}


def test_a_request_that_takes_too_long_is_answered_with_504(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, fields = threading.Event(), search._fields

    def waiting(translations: list[search.Translation]) -> str:
        answered.wait(60)
        return fields(translations)

    monkeypatch.setattr(search, "_fields", waiting)
    try:
        status, reason = refusal(start(limits=Limits(timeout=1e-6)), lines=["a b c"])
    finally:
        answered.set()
    assert (status, reason) == (504, "the request took more than 1e-06 seconds")
