import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nmtkit.cli.serve import shortest_names
from nmtkit.errors import UserError
from nmtkit.serving import server
from nmtkit.serving.search import Description, Offer

Run = Callable[..., Any]


@pytest.fixture
def served(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, Offer], bool, str]]:
    """What the command line offers, whether texts are split, and its messages; no model is loaded."""
    asked = list[Any]()

    def run(_: Any, ready: Callable[..., None], offers: Sequence[Offer], *others: Any) -> None:
        ready([Description(each.name, "en", "fr", 1, 1.0, True, 5, False, ()) for each in offers])
        asked[:] = {each.name: each for each in offers}, others[2]

    monkeypatch.setattr(server, "run", run)

    def serve(*arguments: str) -> tuple[dict[str, Offer], bool, str]:
        done = nmtkit("serve", "--port", 0, "--precision", "float32", *arguments)
        assert done.status == 0, done.err
        return *asked, done.err

    return serve


@pytest.mark.parametrize("key", ["", " key", "schlüssel", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused(nmtkit: Run, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    reason = "is empty, or has spaces around it or non-ASCII characters; give another"
    complaint = f"nmtkit: error: --api-key (or NMTKIT_API_KEY): {reason}\n"
    assert nmtkit("serve", "--api-key", key) == (1, "", complaint)
    monkeypatch.setenv("NMTKIT_API_KEY", key)
    assert nmtkit("serve") == (1, "", complaint)


@pytest.mark.parametrize("origin", ["https://ex.org/", "https://ex.org/a", "ex.org", "https://", ""])
def test_an_origin_that_no_browser_sends_is_refused(nmtkit: Run, origin: str) -> None:
    complaint = f"--cors {origin}: is not an origin; give one such as https://example.org, without a path"
    assert nmtkit("serve", "--cors", "*", "--cors", origin) == (1, "", f"nmtkit: error: {complaint}\n")


@pytest.mark.parametrize("option", ["--weights=2,1", "--combine=prob"])
def test_models_that_are_offered_side_by_side_are_not_combined(nmtkit: Run, option: str) -> None:
    complaint = "nmtkit: error: --combine and --weights are for an ensemble; add --ensemble, or leave them out\n"
    assert nmtkit("serve", "-m", "one", "-m", "two", option) == (1, "", complaint)


def test_an_ensemble_may_be_combined_as_the_user_wishes(served: Run) -> None:
    together, _, _ = served("-m", "one", "-m", "two", "--ensemble", "--weights=2,1")
    assert list(together) == ["ensemble"]
    assert together["ensemble"].models[:4] == ((Path("one"), Path("two")), "auto", None, (2.0, 1.0))
    folder, _, _ = served("-m", "averaged", "--combine=logprob")  # which may be that of an ensemble
    assert folder["averaged"].models[:3] == ((Path("averaged"),), "auto", "logprob")


def test_texts_are_split_into_sentences_unless_the_user_declines(served: Run) -> None:
    assert [served(*arguments)[1] for arguments in ((), ("--split",), ("--no-split",))] == [True, True, False]


def test_who_serves_others_without_a_key_is_warned(served: Run) -> None:
    warning = "anyone who can reach this address can translate; use --api-key to require a key"
    everyone = ("--host", "0.0.0.0")
    assert warning in served(*everyone)[2]
    assert warning not in served()[2]
    assert warning not in served(*everyone, "--api-key", "secret")[2]


def test_a_port_that_no_address_has_is_refused(nmtkit: Run) -> None:
    assert nmtkit("serve", "--port", 65536) == (1, "", "nmtkit: error: --port: 65536 is not between 0 and 65535\n")


def test_what_is_not_installed_is_named(nmtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "nmtkit.serving.server", raising=False)
    complaint = "nmtkit: error: serving needs uvicorn; install it with: pip install 'nmtkit[serve]'\n"
    assert nmtkit("serve") == (1, "", complaint)


def test_a_folder_that_is_not_there_is_named(nmtkit: Run, tmp_path: Path) -> None:
    outcome = nmtkit("serve", "--port", "0", "-m", tmp_path / "no")
    assert outcome.status == 1
    assert str(tmp_path / "no") in outcome.err


def test_models_are_named_by_the_shortest_distinct_parts_of_their_paths() -> None:
    assert shortest_names([Path("/a/run"), Path("/a/averaged")]) == ["run", "averaged"]
    assert shortest_names([Path("/a/run"), Path("/b/run"), Path("/b/c")]) == ["a/run", "b/run", "b/c"]
    with pytest.raises(UserError, match="`model`: /a/run is given twice; name it once"):
        shortest_names([Path("/a/run"), Path("/a/run")])
