"""Which messages for users no test has met: every UserError, and every ValueError, which config.py makes one of.

    python -m tests.errors                 # every test, the slow ones too, then the messages that none of them reached
    python -m tests.errors tests/search    # with other arguments for pytest; -n 4 shares the work

Tests that need a browser or a GPU are left out. Functions that make a message are traced line by line, in this process
and in every Python that the tests start.
"""

import ast
import atexit
import functools
import os
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = "NMTKIT_ERRORS"  # the folder with the lines to look out for, and with those that any process came to


class Place(NamedTuple):
    path: str
    lines: range
    text: str


def places() -> list[Place]:
    found = []
    for path in sorted(ROOT.glob("nmtkit/**/*.py")):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(func=ast.Name(id="UserError" | "ValueError"), lineno=first, end_lineno=int(last)):
                    text = " ".join((ast.get_source_segment(source, node) or "").split())
                    found.append(Place(str(path), range(first, last + 1), text))
    return found


def read(name: str) -> set[tuple[str, int]]:
    text = Path(os.environ[FOLDER], name).read_text()
    return {(path, int(line)) for path, line in map(str.split, text.splitlines())}


LINES = read("places") if FOLDER in os.environ else set()


@functools.cache
def has_place(code: CodeType) -> bool:
    return any((code.co_filename, line) in LINES for _, _, line in code.co_lines())


def called(frame: FrameType, event: str, arg: Any) -> Any:
    """For sys.settrace: traces every line of the functions that have such a place."""
    return stepped if has_place(frame.f_code) else None


def stepped(frame: FrameType, event: str, arg: Any) -> Any:
    place = (frame.f_code.co_filename, frame.f_lineno)
    if place in LINES:
        with suppress(OSError):  # a test may forbid large files
            with Path(os.environ[FOLDER], "reached").open("a") as file:
                print(*place, file=file)
            LINES.remove(place)  # now that it is in the file
    return stepped


def trace() -> None:
    threading.settrace(called)
    sys.settrace(called)
    atexit.register(sys.settrace, None)


def pytest_runtest_setup() -> None:
    """A plugin; set again for each test, because Python stops tracing at some exceptions."""
    trace()


def main() -> int:
    import pytest

    every = places()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text("import tests.errors\ntests.errors.trace()\n")
        Path(folder, "places").write_text("".join(f"{p.path} {line}\n" for p in every for line in p.lines))
        Path(folder, "reached").touch()
        os.environ |= {FOLDER: folder, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
        quiet = "ignore::pytest.PytestAssertRewriteWarning"  # sitecustomize has imported the plugin before pytest
        status = pytest.main(["-p", "tests.errors", "-W", quiet, "-m", "not (browser or gpu)", *sys.argv[1:]])
        reached = read("reached")
    missed = [place for place in every if not any((place.path, line) in reached for line in place.lines)]
    for place in missed:
        print(f"{Path(place.path).relative_to(ROOT)}:{place.lines[0]}: {place.text}")
    print(f"{len(missed)} of {len(every)} messages were met by no test")
    return int(status) or bool(missed)


if __name__ == "__main__":
    sys.exit(main())
