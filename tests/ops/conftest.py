"""Some laws hold for plain operations and for the kernels in C beside them."""

from collections.abc import Iterator

import pytest
import torch

from nmtkit.ops.native import library, tiles


@pytest.fixture
def nan_in_memory() -> Iterator[None]:
    """Memory that nothing has been written to is full of NaN, so that nothing comes of reading it but NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=["plain", "kernels"])
def operations(nan_in_memory: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test once without the kernels, and once with them, whose rows two threads share, however few they are."""
    if request.param == "plain":
        monkeypatch.setattr(library, "helps", lambda *tensors, dtypes=(): False)
        monkeypatch.setattr(tiles, "takes", lambda weight: False)
        yield
    elif library._library() is None:
        pytest.skip("nmtkit was installed without a C compiler")
    else:
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        monkeypatch.setattr(library, "GRAIN", 1)
        yield
        torch.set_num_threads(before)
