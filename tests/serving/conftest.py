"""Servers in the test's process, whose models copy their source."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nmtkit.serving.app import make_app
from nmtkit.serving.engine import Engine
from nmtkit.serving.limits import Limits
from nmtkit.serving.metrics import Metrics
from nmtkit.serving.search import Offer, describe, search, translators_of
from nmtkit.serving.service import Service
from nmtkit.translation import loading
from nmtkit.translation.jobs import Models
from nmtkit.translation.request import Request
from tests.echo import load_echo, write_folder

Start = Callable[..., TestClient]

ANY, USUAL = Request(), Limits()


def offer(folder: Path) -> Offer:
    return Offer(folder.name, Models((folder,), "cpu", None, None, "float32", None).resolved())


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """``start("run", "blind", ...)``: a client of a server that offers models of these names."""
    monkeypatch.setattr(loading, "load_model", load_echo)

    with ExitStack() as running:

        def run(
            *names: str,
            request: Request = ANY,
            limits: Limits = USUAL,
            split: bool = True,
            key: str | None = None,
            origins: Sequence[str] = (),
            hosts: Sequence[str] = ("*",),
        ) -> TestClient:
            translators_of.cache_clear()
            offers = tuple(offer(write_folder(tmp_path / name)) for name in names or ("run",))
            models = {each.name: each for each in describe(offers, request)}
            metrics = Metrics()
            engine = Engine(partial(search, offers), 1, metrics)
            service = Service(models, engine, limits, metrics, request, split, key)
            return running.enter_context(TestClient(make_app(service, origins, hosts)))

        yield run
    translators_of.cache_clear()
