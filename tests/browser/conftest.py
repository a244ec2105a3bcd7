"""A server of known models in a separate process, and a browser that is monitored while it shows the page."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.models import write_models

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

PROJECT = Path(__file__).parents[2]
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


class Server:
    """``nmtkit serve`` with the models of these names, which can be ended and started again at the same address."""

    def __init__(self, folder: Path, names: list[str], *options: str, **limits: float) -> None:
        self.folder, self.options, self.limits = folder, options, limits
        self.models = [argument for path in write_models(folder, names) for argument in ("-m", str(path))]
        self.port = "0"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.browser.models", "serve", *self.models, "--port", self.port]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "LIMITS": json.dumps(self.limits)}
        self.process = subprocess.Popen(
            [*command, *self.options], cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if address := re.search(r"http://[\w.]+:(\d+)", line):
                self.address, self.port = address[0], address[1]
                return
        raise AssertionError("".join(said))

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()

    def ask(self, **values: Any) -> dict[str, Any]:
        """The response of the API."""
        asked = urllib.request.Request(
            f"{self.address}/v1/translate", json.dumps(values).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked) as answer:
            values = json.load(answer)
        return values


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("models"), ["soft", "other", "blind", "hebrew"])
    yield server
    server.stop()


@pytest.fixture(scope="session")
def playwright() -> "Iterator[Playwright]":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright: "Playwright") -> "Iterator[Browser]":
    """The system's Chromium, or else playwright's own, which ``make browser`` installs."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    # Containers and root have no sandbox; what is shown here is our own page alone.
    browser = playwright.chromium.launch(executable_path=found, chromium_sandbox=False)
    yield browser
    browser.close()


@pytest.fixture
def open_page(browser: "Browser", server: Server) -> "Iterator[Callable[..., Page]]":
    """``open_page(width=360)``: a new window with the page, ready to be typed into.

    In the end it must have asked for nothing from elsewhere, and neither the script nor the policy may have complained.
    What the browser says of an answer with an error is no complaint.
    """
    contexts, asked, complaints = [], [], list[str]()

    def run(address: str = server.address, width: int = 1400, **options: Any) -> "Page":
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)  # the machine may be busy with other tests
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(address)
        page.wait_for_selector("#source:enabled")
        return page

    yield run
    for context in contexts:
        context.close()
    assert [url for url in asked if not re.match(r"http://(127\.0\.0\.1|localhost):\d+/", url)] == []
    assert [text for text in complaints if not text.startswith("Failed to load resource")] == []
