"""Some laws hold for plain operations and for the kernels in C beside them."""

from collections.abc import Callable, Iterator

import pytest
import torch

from nmtkit.kernels import door, library, trusted


@pytest.fixture
def nan_in_memory() -> Iterator[None]:
    """Memory that nothing has been written to is full of NaN, so that nothing comes of reading it but NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def untried() -> Iterator[None]:
    """No kernels were tried yet, and nothing is left of what is tried in the test."""
    forget()
    yield
    forget()


def forget() -> None:
    """Nothing is known of the kernels any more."""
    for cached in (door._switched_off, door._choice, door._warn, trusted.sound, trusted._warn):
        cached.cache_clear()


@pytest.fixture
def shared_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Called with a number of threads: these share the rows of a kernel, however few there are."""
    before = torch.get_num_threads()
    monkeypatch.setattr(library, "GRAIN", 1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(params=[1, 3], ids=["one thread", "three"])
def threads(nan_in_memory: None, shared_rows: Callable[[int], None], request: pytest.FixtureRequest) -> None:
    """A test of kernels once by one thread, and once by three."""
    shared_rows(request.param)


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
        pytest.skip("nmtkit was installed without a C compiler")
    else:
        shared_rows(2)
