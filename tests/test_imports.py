"""Imports point down only, also inside rooms, and rooms of one rank do not import each other."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import nmtkit
from nmtkit.folders import ModelFolder

PACKAGE = Path(nmtkit.__file__).parent

# The packages of nmtkit/README.md, from the top down. nmtkit/__init__.py and __main__.py stand above everything.
RANKS = [
    {"cli"},
    {"workflow"},
    {"serving"},
    {"documents"},
    {"translation", "importing"},
    {"experiment"},
    {"training", "evaluation"},
    {"models", "search", "data"},
    {"align"},
    {"text", "layers"},
    {"ops"},
    {"kernels"},
    {"folders", "machine"},
    {"options"},
    {"config", "lines", "writing"},
    {"errors", "naming", "symbols", "version"},
]
RANK = {part: rank for rank, parts in enumerate(RANKS) for part in parts}
TORCH_FREE = {
    "cli",
    "workflow",
    "options",
    "config",
    "folders",
    "lines",
    "naming",
    "writing",
    "errors",
    "symbols",
    "version",
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The part that a file belongs to: ``cli`` for nmtkit/cli/main.py, ``config`` for nmtkit/config.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a module imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def imported_at_module_level(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The same, without imports inside functions and ``if TYPE_CHECKING``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from imported(node)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                waiting.extend(node.orelse)
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                waiting.append(node)


def wrong_imports(part: str, source: str) -> list[str]:
    """The forbidden imports of a module of ``part``."""
    tree = ast.parse(source)
    wrong = []
    for line, name in imported(tree):
        first, _, rest = name.partition(".")
        if first == "typer" and part != "cli":
            wrong.append(f"line {line}: only nmtkit/cli imports typer")
        if first != "nmtkit" or part in ("__init__", "__main__"):
            continue
        other = rest.partition(".")[0]
        if other == part:
            continue
        if other not in RANK:
            wrong.append(f"line {line}: {name} comes from the top of the package")
        elif RANK[other] == RANK[part]:
            wrong.append(f"line {line}: {part} imports its sibling {other}")
        elif RANK[other] < RANK[part]:
            wrong.append(f"line {line}: {part} imports {other}, which is above it")
    if part in TORCH_FREE | {"__init__", "__main__"}:
        wrong += [
            f"line {line}: {part} imports torch before it is needed"
            for line, name in imported_at_module_level(tree)
            if name.partition(".")[0] == "torch"
        ]
    return wrong


def test_every_part_has_a_place_in_the_order() -> None:
    assert {part_of(path) for path in MODULES} - RANK.keys() == {"__init__", "__main__"}


def test_imports_point_down_only() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}: {complaint}"
        for path in MODULES
        for complaint in wrong_imports(part_of(path), path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("part", "source", "complaint"),
    [
        ("data", "from nmtkit.search.beam import Search", "line 1: data imports its sibling search"),
        ("training", "import nmtkit.evaluation.bleu", "line 1: training imports its sibling evaluation"),
        ("ops", "from nmtkit.layers import cells", "line 1: ops imports layers, which is above it"),
        ("models", "from nmtkit import search", "line 1: models imports its sibling search"),
        ("layers", "def f():\n    from nmtkit import load", "line 2: nmtkit.load comes from the top of the package"),
        ("translation", "import typer", "line 1: only nmtkit/cli imports typer"),
        ("cli", "import torch.nn", "line 1: cli imports torch before it is needed"),
        ("lines", "try:\n    import torch\nexcept E:\n    pass", "line 2: lines imports torch before it is needed"),
    ],
)
def test_a_wrong_import_is_noticed(part: str, source: str, complaint: str) -> None:
    assert wrong_imports(part, source) == [complaint]


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("training", "from nmtkit.models.base import Seq2Seq"),
        ("data", "from nmtkit.text.settings import Side"),
        ("config", "from nmtkit.errors import UserError"),
        ("cli", "import typer\ndef f():\n    import torch"),
        ("cli", "if TYPE_CHECKING:\n    import torch"),
        ("experiment", "from nmtkit.version import __version__"),
        ("layers", "import torch"),
    ],
)
def test_a_right_import_passes(part: str, source: str) -> None:
    assert wrong_imports(part, source) == []


def circle_in(sources: dict[str, str]) -> list[str]:
    """Modules of a room that import each other in a circle, also inside functions, by name; none if there is an order.

    ``sources`` has the text of each module by its full name.
    """
    below = {}
    for module, source in sources.items():
        names = {name for _, name in imported(ast.parse(source))}
        # What is imported of a module is named after it: nmtkit.errors.UserError.
        below[module] = {name if name in sources else name.rpartition(".")[0] for name in names}
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


@pytest.mark.parametrize("part", sorted(RANK))
def test_imports_inside_a_room_have_an_order_too(part: str) -> None:
    sources = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in MODULES
        if part_of(path) == part
    }
    assert circle_in(sources) == []


def test_a_circle_is_noticed() -> None:
    sources = {
        "nmtkit.ops.a": "from nmtkit.ops.b import step",
        "nmtkit.ops.b": "def f():\n    from nmtkit.ops import c",
        "nmtkit.ops.c": "import nmtkit.ops.a",
    }
    assert set(circle_in(sources)) == set(sources)
    assert circle_in({**sources, "nmtkit.ops.c": "import nmtkit.errors"}) == []


SLOW = ("torch", "numpy", "sacremoses", "sacrebleu", "rich")


@pytest.mark.parametrize(
    "run",
    [
        "import nmtkit, nmtkit.config, nmtkit.lines, nmtkit.errors, nmtkit.symbols",
        "import nmtkit.cli.main as m, sys; sys.argv = ['nmtkit', '--help']; m.main()",
        "import nmtkit.cli.main as m, sys; sys.argv = ['nmtkit', 'train', '--help']; m.main()",
        "import nmtkit.cli.main as m, sys; sys.argv = ['nmtkit', 'models']; m.main()",
    ],
)
def test_help_and_the_list_of_presets_import_nothing_slow(run: str) -> None:
    report = f"import sys; print('slow:', *(m for m in {SLOW} if m in sys.modules))"
    code = f"try:\n    {run}\nexcept SystemExit: pass\n{report}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "slow:"


COMPILER = ("torch._dynamo", "torch._inductor", "sympy")  # PyTorch's, which takes two seconds
OLD = Path(__file__).parent / "training" / "made_by_0.1"
# What trains, evaluates, draws tables or tokenises as Moses does is not for a filter of other tokens.
NOT_FOR_A_FILTER = (
    *COMPILER,
    "sacrebleu",
    "sacremoses",
    "rich",
    "nmtkit.experiment.run",
    "nmtkit.training.loop",
    "nmtkit.evaluation.bleu",
)


def loaded(modules: tuple[str, ...], folder: Path, *command: str) -> list[str]:
    """The modules, and torch, that are loaded after a command."""
    code = (
        f"import sys, nmtkit.cli.main as m\nsys.argv = {['nmtkit', *command]}\n"
        "try: m.main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        f"print('loaded:', *(m for m in {(*modules, 'torch')} if m in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return result.stdout.rpartition("loaded: ")[2].split()


def test_translation_imports_no_compiler_and_no_training(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a b\n")
    assert loaded(NOT_FOR_A_FILTER, tmp_path, "translate", "-m", str(OLD / "run"), "-i", "in", "-o", "out") == ["torch"]
    assert (tmp_path / "out").read_text().count("\n") == 1


@pytest.mark.slow
def test_the_size_of_a_model_is_computed_without_the_compiler(tmp_path: Path) -> None:
    assert loaded(COMPILER, tmp_path, "models", "bideep-small") == ["torch"]


@pytest.mark.slow
def test_training_imports_no_compiler(tmp_path: Path) -> None:
    shutil.copytree(OLD / "run", tmp_path / "run")
    command = ("train", "--data", str(OLD / "data"), "--max-updates", "310", "--device", "cpu")
    assert loaded(COMPILER, tmp_path, *command) == ["torch"]
    assert ModelFolder(tmp_path / "run").weights(310).exists()
