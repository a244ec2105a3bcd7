import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from nmtkit.errors import UserError
from nmtkit.serving.api import models, read
from nmtkit.serving.limits import Limits
from nmtkit.serving.search import Batch, Description, Kind, Offer, describe, search, translators_of
from nmtkit.serving.service import Service
from nmtkit.translation import loading
from nmtkit.translation.jobs import Models
from nmtkit.translation.request import Request
from nmtkit.translation.translation import DOUBTFUL
from tests.echo import load_echo, write_folder
from tests.serving.conftest import Start, offer


def test_models_are_listed_with_languages_and_capabilities(start: Start) -> None:
    told = start("run", "blind").get("/v1/models").json()
    assert [(model["name"], model["attention"]) for model in told["models"]] == [("run", True), ("blind", False)]
    assert told["models"][0] | {"megabytes": 0} == {
        "name": "run", "source": "en", "target": "en", "members": 1, "megabytes": 0, "attention": True, "beam_size": 3,
        "lexicon": False, "names": {"source": "English", "target": "English"},
        "direction": {"source": "ltr", "target": "ltr"},
    }  # fmt: skip
    assert told["limits"]["lines"] == 10_000
    assert (told["n_best"], told["doubtful"], told["split"], told["key"]) == (20, DOUBTFUL, True, False)


def test_a_language_has_the_direction_of_its_script() -> None:
    model = Description("run", "nqo", "fr", 1, 1.0, True, 5, False, ())
    nothing: Any = None
    service = Service({"run": model}, nothing, Limits(), nothing, Request(), True, None)
    told = json.loads(bytes(asyncio.run(models(service, nothing)).body))
    assert told["models"][0]["direction"] == {"source": "rtl", "target": "ltr"}


def test_a_text_is_translated_sentence_by_sentence_with_its_own_white_space(start: Start) -> None:
    text = "  a lower.  Er ah!\r\n\n\te f \n"
    answer = start().post("/v1/translate", json={"text": text}).json()
    assert [text[s["start"] : s["end"]] for s in answer["sentences"]] == ["a lower.", "Er ah!", "e f"]
    assert [s["before"] for s in answer["sentences"]] == ["  ", "  ", "\r\n\n\t"]
    assert answer["after"] == " \n"
    parts = [f"{s['before']}{s['translations'][0]['text']}" for s in answer["sentences"]]
    assert answer["text"] == "".join(parts) + answer["after"]
    assert answer["text"].endswith("\r\n\n\te f \n")


def test_lines_are_not_split_into_sentences(start: Start) -> None:
    answer = start().post("/v1/translate", json={"lines": [" a  b", "", "lower! A lower."]}).json()
    assert [s["source"] for s in answer["sentences"]] == [" a  b", "", "lower! A lower."]
    best = [s["translations"][0]["text"] for s in answer["sentences"]]
    assert best[:2] == ["a b", ""]
    assert answer["text"] == "\n".join(best)


def test_prefixes_and_references_belong_to_their_lines(start: Start) -> None:
    client = start()
    begun = client.post("/v1/translate", json={"lines": ["a b", "c"], "prefixes": ["d", ""]}).json()
    assert begun["text"] == "d b\nc"
    given = {"lines": ["a b", "c"], "references": ["a b", "d"]}
    scored = [s["translations"][0] for s in client.post("/v1/translate", json=given).json()["sentences"]]
    assert [each["text"] for each in scored] == ["a b", "d"]
    assert scored[0]["score"] > scored[1]["score"]


def test_all_details_of_a_translation_can_be_requested(start: Start) -> None:
    asked = {"text": "a lower z", "n_best": 2, "attention": True, "alignment": True, "replace_unk": True}
    [sentence] = start().post("/v1/translate", json=asked).json()["sentences"]
    assert sentence["tokens"] == ["a", "low@@", "er", "z"]
    best, second = sentence["translations"]
    assert best["score"] >= second["score"]
    assert (best["text"], best["tokens"]) == ("a lower z", ["a", "low@@", "er", "<unk>"])
    assert best["alignment"] == [[0, 0], [1, 1], [2, 2]]
    assert len(best["token_log_probs"]) == 5
    assert best["attention"] == [[float(s == t) for s in range(5)] for t in range(5)]
    assert best["unknown"] == {"translated": 0, "copied": 1, "left": 0}
    assert best["replaced"] == [{"token": 3, "by": "z", "how": "copied", "source": 3}]


def test_terms_are_in_the_translation_and_reported(start: Start) -> None:
    asked = {"text": "a b", "terms": [["b", "g|h"], ["c", "d"]]}
    [sentence] = start().post("/v1/translate", json=asked).json()["sentences"]
    [best] = sentence["translations"]
    [term] = best["terms"]
    assert term["source"] == "b"
    assert term["form"] in best["text"]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"text": "a", "terms": [["a"]]}, "`terms`: ['a'] is not a source term and its translation"),
        ({"text": "a", "terms": [["a", "b||c"]]}, "`terms`: 'b||c' has an empty form; write text"),
        ({"text": "a", "terms": ["a"]}, "the request: terms[0]: expected a list, found str 'a'"),
        ({"text": "a", "terms": [["a", "\ud800"]]}, "`terms`: character 1 is half of a surrogate pair"),
        ({"text": "a", "terms": [["a", "b" * 20_000]]}, "`terms`: they have 20001 characters; the limit is 20000"),
        ({}, "the request: `text` or `lines`: give one of them"),
        ({"text": "a", "beamsize": 3}, "the request: beamsize: unknown key; did you mean beam_size?"),
        ({"text": 3}, "the request: text: expected text, found int 3"),
        ({"text": "a", "n_best": 0}, "`n_best`: 0 is not between 1 and 10000"),
        ({"text": "a", "beam_size": 50}, "`beam_size`: 50 is more than this server's limit of 20"),
        ({"text": "a", "beam_size": 10_001}, "`beam_size`: 10001 is more than this server's limit of 20"),
        ({"text": "a", "mbr": 21}, "`mbr`: 21 is more than this server's limit of 20"),
        ({"text": "a", "model": "x"}, "`model`: there is no 'x'; available: run, blind"),
        ({"text": "a", "model": "blind", "attention": True}, "this model cannot align words"),
        ({"text": "\ud800"}, "`text`: character 0 is half of a surrogate pair"),
        ({"lines": ["a"], "prefixes": ["a\udfff"]}, "`prefixes`: character 1 is half of a surrogate pair"),
        ({"lines": ["a"], "prefixes": ["a", "b"]}, "the request: `prefixes`: give one for each of the `lines`"),
        ({"text": "a", "references": ["a"]}, "the request: `references`: give one for each of the `lines`"),
        ({"lines": ["a"], "prefixes": ["a" * 2_001]}, "the request: `prefixes`: one of them has more than 2000 char"),
        ({"text": "a", "shortlist": 5}, "`shortlist`: run has no lexicon; leave it out"),
        ({"lines": ["a" * 2_001], "references": ["a"]}, "the request: `lines`: one of them has more than 2000 char"),
    ],
)
def test_an_error_is_answered_with_a_sentence(start: Start, values: dict[str, Any], complaint: str) -> None:
    answer = start("run", "blind").post("/v1/translate", content=json.dumps(values))
    assert answer.status_code == 400
    assert re.match(re.escape(complaint), answer.json()["error"])


OWN = {
    "beam_size": 4, "length_penalty": "gnmt", "alpha": 0.5, "coverage_penalty": 0.1, "max_len_a": 2.0, "max_len_b": 9,
    "stop": "first", "replace_unk": True, "unk_origin": "papers", "max_input_length": 99,
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"sample": True, "seed": 0, "n_best": 2}, "beam_size coverage_penalty stop replace_unk unk_origin"),
        ({"references": ["a"]}, "beam_size max_len_a max_len_b stop replace_unk unk_origin max_input_length"),
        ({"replace_unk": False}, "unk_origin"),
        ({"length_penalty": "none"}, "alpha"),
        ({"length_penalty": "avg"}, "alpha"),
        ({"length_penalty": "power", "seed": None}, ""),
        ({"prefixes": ["a"], "attention": True, "alpha": 0.1}, ""),
    ],
)
def test_the_servers_settings_apply_unless_they_conflict_with_a_request(
    start: Start, values: dict[str, Any], gone: str
) -> None:
    asked = {"lines": ["a b"], **values}
    answer = start(request=Request(**OWN)).post("/v1/translate", json=asked)
    assert (answer.status_code, answer.json().get("error")) == (200, None)
    _, request = read(asked, Request(**OWN), Limits())
    wishes = {name: value == ["a"] or value for name, value in values.items()}
    kept = {name: value for name, value in OWN.items() if name not in gone.split()}
    assert request == Request(**{**kept, **wishes})


def test_a_prefix_takes_the_place_of_the_servers_samples(start: Start) -> None:
    client = start(request=Request(mbr=2, beam_size=4))
    assert client.get("/v1/models").json()["models"][0]["beam_size"] == 4
    answer = client.post("/v1/translate", json={"lines": ["a b"], "prefixes": ["d"]})
    assert (answer.status_code, answer.json()["text"]) == (200, "d b")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"sample": True, "beam_size": 2}, "leave `beam_size` out"),
        ({"seed": 1}, "`seed`: has no effect without `sample`; add it"),
        ({"references": ["a"], "n_best": 2}, "leave `n_best` out"),
        ({"replace_unk": False, "unk_origin": "papers"}, "without `replace_unk`; add it"),
        ({"length_penalty": "none", "alpha": 0.5}, "`alpha`: `length_penalty` none does not use it"),
    ],
)
def test_invalid_combinations_of_a_request_are_refused_with_any_server_settings(
    start: Start, values: dict[str, Any], complaint: str
) -> None:
    answer = start(request=Request(**OWN)).post("/v1/translate", json={"lines": ["a b"], **values})
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]


def test_no_limit_of_a_server_allows_more_translations_than_search_has(start: Start) -> None:
    asked = {"text": "a", "n_best": 10_001, "sample": True}
    answer = start(limits=Limits(beam=20_000)).post("/v1/translate", json=asked)
    assert (answer.status_code, answer.json()["error"]) == (400, "`n_best`: 10001 is not between 1 and 10000")


def test_a_model_that_does_not_support_the_servers_settings_is_named(start: Start) -> None:
    with pytest.raises(UserError, match="blind: this model cannot replace unknown words"):
        start("run", "blind", request=Request(replace_unk=True))


def test_several_models_can_be_offered_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folders = tuple(write_folder(tmp_path / name) for name in ("one", "two"))
    offers = (Offer("ensemble", Models(folders, "cpu", None, None, "float32", None).resolved()),)
    [told] = describe(offers, Request())
    assert (told.name, told.members, told.attention) == ("ensemble", 2, True)
    [answer] = search(offers, Batch(Kind("ensemble", Request(), False), ["a b"], None))
    assert answer.texts == ["a b"]
    translators_of.cache_clear()


def test_a_server_needs_no_file_of_its_model_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_model", load_echo)
    folder = write_folder(tmp_path / "run")
    (folder / "lexicon.tsv").write_text("z\tb\t1\t9\n")
    offers = (offer(folder),)
    [told] = describe(offers, Request())
    assert told.lexicon
    shutil.rmtree(folder)
    [answer] = search(offers, Batch(Kind("run", Request(replace_unk=True), False), ["a z"], None))
    assert answer.texts == ["a b"]
    translators_of.cache_clear()
