import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.cli.serve import shortest_names
from nmtkit.errors import UserError

Run = Callable[..., Any]


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
