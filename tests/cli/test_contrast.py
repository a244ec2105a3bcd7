import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmtkit.translation import loading
from tests.echo import load_echo, write_folder

Run = Callable[..., Any]  # the command line of tests/conftest.py

# The model says its source again with probability 0.9 a word, so the nearer to the source, the more probable.
SET = [
    {
        "source": "a b c",
        "reference": "a b c",
        "errors": [
            {"type": "swap", "contrastive": "b a c", "distance": 2, "frequency": 30},
            {"type": "unknown", "contrastive": "a b c"},  # as probable, which is wrong
        ],
    },
    {"source": "d", "reference": "e", "errors": [{"type": "swap", "contrastive": "d", "distance": 20}]},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model in run/ and a set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "load_model", load_echo)
    write_folder(tmp_path / "run")
    Path("set.json").write_text(json.dumps(SET))
    return tmp_path


def test_accuracy_by_type_distance_and_frequency(nmtkit: Run) -> None:
    outcome = nmtkit("contrast", "set.json")
    assert outcome.err == ""
    assert outcome.out.splitlines() == [
        "accuracy by type of error",
        "type        %  right  of",
        "swap     50.0      1   2",
        "unknown   0.0      0   1",
        "all      33.3      1   3",
        "",
        "accuracy by distance in words",
        "distance      %  right  of",
        "       2  100.0      1   1",
        "     >15    0.0      0   1",
        "",
        "accuracy by frequency in training",
        "frequency      %  right  of",
        "      >20  100.0      1   1",
    ]


def test_only_the_requested_types_are_scored(nmtkit: Run) -> None:
    report = json.loads(nmtkit("contrast", "set.json", "--type", "unknown", "--json").out)
    assert report == {
        "type": [{"name": name, "right": 0, "total": 1, "accuracy": 0.0} for name in ("unknown", "all")],
        "distance": [],
        "frequency": [],
    }


def test_folders_and_files_that_correspond_line_by_line(nmtkit: Run) -> None:
    Path("np").mkdir()
    for name, lines in {"src.en": "a b\na\n", "tgt.correct.de": "a b\na\n", "tgt.incorrect.de": "b\na b\n"}.items():
        (Path("np") / name).write_text(lines)
    of_folder = json.loads(nmtkit("contrast", "np", "--json").out)
    assert of_folder["type"][0] == {"name": "np", "right": 2, "total": 2, "accuracy": 1.0}
    files = ("--source", "np/src.en", "--correct", "np/tgt.incorrect.de", "--incorrect", "np/tgt.correct.de")
    of_files = json.loads(nmtkit("contrast", *files, "--json").out)
    assert of_files["type"][0] == {"name": "tgt.correct.de", "right": 0, "total": 2, "accuracy": 0.0}


@pytest.mark.parametrize(
    ("inside", "path"), [("", "np"), ("np", "."), ("np/deep", ".."), ("np", "../np/"), ("", "link")]
)
def test_the_type_of_error_is_the_folder_name_for_any_path_to_it(
    folder: Path, nmtkit: Run, monkeypatch: pytest.MonkeyPatch, inside: str, path: str
) -> None:
    Path("np/deep").mkdir(parents=True)
    Path("link").symlink_to("np")
    for name in ("src.en", "tgt.correct.de", "tgt.incorrect.de"):
        Path("np", name).write_text("a\n")
    monkeypatch.chdir(folder / inside)
    report = json.loads(nmtkit("contrast", path, "-m", folder / "run", "--json").out)
    assert report["type"][0]["name"] == ("link" if path == "link" else "np")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give a set (JSON, or a folder), or all of --source, --correct and --incorrect"),
        (["--source", "a"], "give a set (JSON, or a folder), or all of --source, --correct and --incorrect"),
        (
            ["set.json", "--correct", "a"],
            "give a set (JSON, or a folder), or all of --source, --correct and --incorrect",
        ),
        (["set.json", "--type", "swop"], "--type swop: not one of swap, unknown"),
        (["run"], "run: has 0 files src.*; expected one, as in src.de"),
        (
            ["--source", "-", "--correct", "none.json", "--incorrect", "-"],
            "-: standard input can be read only once; name a file instead of the other -",
        ),
        (["none.json"], "none.json: has no errors: there is nothing to compare"),
    ],
)
def test_errors_are_one_line(nmtkit: Run, arguments: list[str], complaint: str) -> None:
    Path("none.json").write_text('[{"source": "a", "reference": "b", "errors": []}]')
    assert nmtkit("contrast", *arguments) == (1, "", f"nmtkit: error: {complaint}\n")
