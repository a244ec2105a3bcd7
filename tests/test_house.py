"""The rules of the house that a reader relies on: no function too long or with too many arguments, shapes stated."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nmtkit

PACKAGE = Path(nmtkit.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LIBRARY = [
    path for path in MODULES if path.relative_to(PACKAGE).parts[0] not in ("cli", "workflow")
]  # they have options
LONGEST, MOST_PARAMETERS, MOST_IGNORES = 60, 10, 8

# A shape in a docstring or a comment: letters, numbers or dots in parentheses, "(B, T, E)", "(..., H)", "(2,)".
SHAPE = re.compile(r"\((?:[A-Z0-9]|\.\.\.)[^()]*\)|\(\)|any shape")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, Function]]:
    """Every function and method with its dotted name; one inside a function is a part of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{inside}{node.name}", node
        else:
            yield from functions(node, f"{inside}{node.name}." if isinstance(node, ast.ClassDef) else inside)


def parameters(function: Function) -> list[ast.arg]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument for argument in every if argument.arg not in ("self", "cls")]


def too_long(source: str) -> list[str]:
    return [
        f"{called} has {node.end_lineno - node.lineno + 1} lines"
        for called, node in functions(ast.parse(source))
        if node.end_lineno is not None and node.end_lineno - node.lineno >= LONGEST
    ]


def too_many_parameters(source: str) -> list[str]:
    return [
        f"{called} has {len(parameters(node))} parameters"
        for called, node in functions(ast.parse(source))
        if len(parameters(node)) > MOST_PARAMETERS
    ]


def without_shapes(source: str) -> list[str]:
    """Public functions with tensors as arguments or results whose docstrings have no shape."""
    silent = []
    for called, node in functions(ast.parse(source)):
        annotations = [argument.annotation for argument in parameters(node)] + [node.returns]
        written = " ".join(ast.unparse(annotation) for annotation in annotations if annotation is not None)
        public = not any(part.startswith("_") for part in called.split("."))
        if re.search(r"\bTensor\b", written) and public:
            signature = "\n".join(source.splitlines()[node.lineno - 1 : node.body[0].end_lineno])
            comments = " ".join(re.findall(r"#.*", signature))
            if not SHAPE.search((ast.get_docstring(node) or "") + comments):
                silent.append(called)
    return silent


def complaints(check: Callable[[str], list[str]], paths: list[Path]) -> list[str]:
    """What breaks a rule, each with its file."""
    return [f"{name(path)}: {found}" for path in paths for found in check(path.read_text(encoding="utf-8"))]


def test_a_function_fits_on_a_screen() -> None:
    assert complaints(too_long, LIBRARY) == []


def test_a_function_has_few_arguments() -> None:
    assert complaints(too_many_parameters, LIBRARY) == []


def test_a_public_function_of_tensors_says_their_shapes() -> None:
    assert complaints(without_shapes, MODULES) == []


def test_the_type_checker_is_silenced_hardly_anywhere() -> None:
    assert sum(path.read_text(encoding="utf-8").count("type: ignore") for path in MODULES) <= MOST_IGNORES


@pytest.mark.parametrize(
    ("check", "source", "complaint"),
    [
        (too_long, "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
        (too_long, "class A:\n    def f(self):\n" + "        x = 1\n" * 60, "A.f has 61 lines"),
        (too_many_parameters, "def f(a, b, c, d, e, f, g, h, *, i, j, k): pass", "f has 11 parameters"),
        (without_shapes, "def f(x: Tensor) -> int:\n    '''Of x, the rank.'''", "f"),
        (without_shapes, "class A:\n    def f(self) -> tuple[Tensor, int]:\n        return self.x", "A.f"),
    ],
)
def test_breaking_a_rule_is_noticed(check: object, source: str, complaint: str) -> None:
    assert callable(check)
    assert check(source) == [complaint]


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (too_long, "def f():\n" + "    x = 1\n" * 59),
        (too_many_parameters, "class A:\n    def f(self, a, b, c, d, e, f, g, h, i, j): pass"),
        (without_shapes, "def f(x: Tensor) -> int:\n    '''x (B, T) -> how many are real.'''"),
        (without_shapes, "def f(x: Tensor) -> int:  # (...)\n    return 1"),
        (without_shapes, "def _f(x: Tensor) -> int:\n    return 1"),
        (without_shapes, "def f(x: int) -> int:\n    return 1"),
    ],
)
def test_code_that_follows_the_rules_passes(check: object, source: str) -> None:
    assert callable(check)
    assert check(source) == []
