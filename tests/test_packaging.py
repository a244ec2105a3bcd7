"""The installation has all files of the package: pyproject.toml lists those that are not Python."""

import ast
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
MADE = (".so", ".pyc", ".pyd")  # here, and not ours


def named(key: str) -> list[str]:
    """The strings of a list in pyproject.toml."""
    found = re.search(rf"^{key} = (\[.*?\])", PYPROJECT, re.MULTILINE | re.DOTALL)
    assert found, key
    return [str(item) for item in ast.literal_eval(found[1])]


def test_every_file_of_the_package_is_installed() -> None:
    package = ROOT / "nmtkit"
    data = {path for pattern in named("nmtkit") for path in package.glob(pattern)}
    ours = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", *MADE)}
    assert ours - data == {ROOT / "nmtkit/kernels/kernels.c"}  # compiled by setup.py


def test_the_kernels_are_compiled_again_when_any_header_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    # setuptools need not be installed: it compiles the sources of its Extension.
    fake = SimpleNamespace(setup=lambda ext_modules: made.extend(ext_modules), Extension=lambda *_, **given: given)
    monkeypatch.setitem(sys.modules, "setuptools", fake)
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    assert {ROOT / header for header in made[0]["depends"]} == set((ROOT / "nmtkit/kernels").glob("*.h"))
