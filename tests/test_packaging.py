"""What is installed has every file that the package has: pyproject.toml names those that are no Python."""

import ast
import re
from pathlib import Path

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
    assert ours - data == {ROOT / source for source in named("sources")}


def test_the_kernels_are_compiled_again_when_any_header_has_changed() -> None:
    assert {ROOT / header for header in named("depends")} == set((ROOT / "nmtkit/ops/native").glob("*.h"))
