"""Messages of the library name arguments and settings; only the command line names options."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nmtkit

PACKAGE = Path(nmtkit.__file__).parent
LIBRARY = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "cli")
OPTION = re.compile(r"(?<!\S)[(`'\"]*(--[a-z]|-[a-z]\b)")
OTHER_PROGRAMS = re.compile(r"\b(iconv|python|stdbuf|tokenizer's)( -\w+)*( \S+)? -\w+( utf-8)?")


def messages(source: str) -> Iterator[tuple[int, str]]:
    """The line and the text of every message of a UserError or ValueError, with ``{}`` for inserted values."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("UserError", "ValueError")
        ):
            parts = [part for argument in node.args for part in ast.walk(argument) if isinstance(part, ast.Constant)]
            yield node.lineno, "".join(part.value for part in parts if isinstance(part.value, str))


def test_no_message_of_the_library_names_an_option() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in LIBRARY
        for line, text in messages(path.read_text(encoding="utf-8"))
        if OPTION.search(OTHER_PROGRAMS.sub("", text))
    ]
    assert found == []
