"""Kernels give the same with any number of threads, and read no uninitialised memory."""

from collections.abc import Callable

import pytest


@pytest.fixture(params=[1, 3], ids=["one thread", "three"])
def threads(nan_in_memory: None, shared_rows: Callable[[int], None], request: pytest.FixtureRequest) -> None:
    """A test of kernels once by one thread, and once by three."""
    shared_rows(request.param)
