"""Whatever bytes come to an endpoint, the answer is one that was meant: FUZZ=10000 tries more of them."""

import json
import logging
import os
from collections import Counter
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtkit.translation.request import Request
from tests.serving.conftest import Start

REQUESTS = int(os.environ.get("FUZZ", "200"))
MEANT = {200, 400, 413}
FORM = "application/x-www-form-urlencoded"

texts = st.one_of(
    st.text(max_size=60), st.text("ab.!? \n\u2028\x00<>&;/\ud800", max_size=60), st.sampled_from(["en", "auto"])
)
numbers = st.one_of(st.integers(-2, 30), st.integers(), st.floats(), st.booleans())
values = st.recursive(
    st.one_of(st.none(), numbers, texts),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(texts, each, max_size=3),
)
names = [
    *(field.name for field in fields(Request)),
    "text",
    "lines",
    "model",
    "split",
    "api_key",
    "q",
    "format",
    "other",
]
wrong = st.dictionaries(st.sampled_from(names), st.one_of(numbers, texts, values), max_size=1)
ours = st.builds(
    dict.__or__,
    st.fixed_dictionaries(
        {},
        optional={
            "n_best": st.integers(1, 3), "beam_size": st.integers(1, 6), "attention": st.booleans(),
            "alignment": st.booleans(), "replace_unk": st.booleans(), "split": st.booleans(), "sample": st.booleans(),
            "model": st.sampled_from(["run", "blind"]), "alpha": st.floats(0, 1), "stop": st.just("first"),
        },
    ),
    st.one_of(
        st.fixed_dictionaries({"text": texts}), st.fixed_dictionaries({"lines": st.lists(texts, max_size=5)}), wrong,
        st.fixed_dictionaries({"lines": st.tuples(texts), "prefixes": st.tuples(texts)}),
        st.fixed_dictionaries({"lines": st.tuples(texts), "references": st.tuples(texts)}),
    ),
)  # fmt: skip
libre = st.builds(
    dict.__or__,
    st.fixed_dictionaries(
        {"q": st.one_of(texts, st.lists(texts, max_size=5)), "source": st.just("en"), "target": st.just("en")},
        optional={"format": st.sampled_from(["text", "html"]), "alternatives": st.integers(0, 3)},
    ),
    wrong,
)


def spelled(value: Any) -> bytes:
    """JSON, in which halves of surrogate pairs are escaped; NaN and its like are there, too, which is no JSON."""
    return json.dumps(value).encode()


bodies = st.one_of(
    ours.map(spelled), ours.map(spelled), libre.map(spelled), values.map(spelled), st.binary(max_size=80)
)


@pytest.mark.parametrize("path", ["/v1/translate", "/translate"])
def test_no_answer_is_one_that_was_not_meant(start: Start, caplog: pytest.LogCaptureFixture, path: str) -> None:
    client = start("run", "blind")
    caplog.set_level(logging.WARNING)
    seen = Counter[int]()

    @settings(max_examples=REQUESTS, suppress_health_check=list(HealthCheck))
    @given(bodies, st.sampled_from(["application/json", FORM, "text/plain", ""]))
    def ask(body: bytes, kind: str) -> None:
        answer = client.post(path, content=body, headers={"content-type": kind})
        assert answer.status_code in MEANT, answer.text
        told = answer.json()
        if answer.status_code == 200:
            assert {"text", "translatedText"} & {*told}
        else:
            assert list(told) == ["error"]
            assert told["error"]
            assert "\n" not in told["error"]
        seen[answer.status_code] += 1

    ask()
    assert caplog.text == ""
    assert min(seen[200], seen[400]) > REQUESTS // 20
