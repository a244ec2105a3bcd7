"""Some laws hold for plain operations and for the kernels in C."""

from collections.abc import Callable

import pytest

from nmtkit.kernels import library


@pytest.fixture(params=["plain", "kernels"])
def operations(
    untried: None,
    nan_in_memory: None,
    shared_rows: Callable[[int], None],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test once without the kernels, and once with them, whose rows two threads share, however few they are."""
    if request.param == "plain":
        monkeypatch.setattr(library, "compiled", lambda: False)
    elif library._library() is None:
        pytest.skip("C kernels: pip install -e . with a C compiler")
    else:
        shared_rows(2)
