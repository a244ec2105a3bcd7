import json
import math
from pathlib import Path
from typing import Any

import pytest

from nmtkit.errors import UserError
from nmtkit.evaluation.contrast import (
    Accuracy,
    Entry,
    Error,
    by_kind,
    read_json,
    read_line_aligned,
)

# A hand-made set. The comments give the outcome of each error with the scores below.
SET = [
    {
        "source": "she sleeps",
        "reference": "sie schläft",
        "origin": "newstest2009.1",
        "errors": [
            {"type": "agreement", "contrastive": "sie schlafen", "distance": 1, "frequency": 2},  # right
            {"type": "agreement", "contrastive": "er schläft", "distance": 15, "frequency": 3},  # wrong: a tie
            {"type": "polarity", "contrastive": "sie schläft nicht"},  # right, in no bin
        ],
    },
    {"source": "hello", "reference": "hallo", "errors": []},
    {
        "source": "no",
        "reference": "nein",
        "errors": [
            {"type": "polarity", "contrastive": "ja", "distance": 16, "frequency": 10_000},  # wrong
            {"type": "agreement", "contrastive": "neine", "distance": "0", "frequency": "0"},  # right
            {"type": "agreement", "contrastive": "keine", "distance": 40, "frequency": 10_001},  # right
            {"type": "agreement", "contrastive": "kein", "distance": 15, "frequency": 1},  # right
        ],
    },
]
SCORES = [[-2.0, -3.0, -2.0, -2.5], [-1.0], [-4.0, -3.9, -5.0, -4.1, -9.0]]


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_accuracies_are_those_counted_by_hand(tmp_path: Path) -> None:
    found = by_kind(read_json(write(tmp_path / "set.json", SET)), SCORES)
    assert found["type"] == [Accuracy("agreement", 4, 5), Accuracy("polarity", 1, 2), Accuracy("all", 5, 7)]
    assert found["type"][-1].share == 5 / 7
    assert found["distance"] == [
        Accuracy("0", 1, 1),
        Accuracy("1", 1, 1),
        Accuracy("15", 1, 2),
        Accuracy(">15", 1, 2),
    ]
    assert found["frequency"] == [
        Accuracy(">10000", 1, 1),
        Accuracy(">5000", 0, 1),
        Accuracy(">2", 0, 1),
        Accuracy("2", 1, 1),
        Accuracy("1", 1, 1),
        Accuracy("0", 1, 1),
    ]


@pytest.mark.parametrize(
    ("frequency", "name"),
    [(10_001, ">10000"), (10_000, ">5000"), (5001, ">5000"), (2001, ">2000"), (1001, ">1000"), (501, ">500"),
     (201, ">200"), (101, ">100"), (51, ">50"), (21, ">20"), (11, ">10"), (6, ">5"), (5, ">2"), (3, ">2")],
)  # fmt: skip
def test_a_frequency_is_in_the_bin_of_the_largest_bound_that_it_exceeds(frequency: int, name: str) -> None:
    entry = Entry("a", "b", [Error("t", "c", None, frequency)])
    assert by_kind([entry], [[0.0, -1.0]])["frequency"] == [Accuracy(name, 1, 1)]


def test_a_set_may_be_compressed(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "set.json.gz"
    path.write_bytes(gzip.compress(json.dumps(SET).encode()))
    assert read_json(path)[0] == Entry(
        "she sleeps",
        "sie schläft",
        [
            Error("agreement", "sie schlafen", 1, 2),
            Error("agreement", "er schläft", 15, 3),
            Error("polarity", "sie schläft nicht", None, None),
        ],
    )


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({}, "expected a JSON list of entries, as in LingEval97"),
        ([], "expected a JSON list of entries, as in LingEval97"),
        ([3], "entry 1: expected source, reference and a list of errors"),
        ([{"source": "a", "reference": "b"}], "entry 1: expected source, reference and a list of errors"),
        ([*SET[:1], {"source": None, "reference": "b", "errors": []}], "entry 2: source is None; expected text"),
        ([{"source": "a", "errors": []}], "entry 1: reference is None; expected text"),
        ([{"errors": ["x"]}], "entry 1, error 1: expected type and contrastive"),
        ([{"errors": [{"type": "t"}]}], "entry 1, error 1: contrastive is None; expected text"),
        (
            [{"errors": [{"type": "t", "contrastive": "c", "distance": "far"}]}],
            "entry 1, error 1: distance is 'far'; expected a whole number, not below 0",
        ),
        (
            [{"errors": [{"type": "t", "contrastive": "c", "frequency": -1}]}],
            "entry 1, error 1: frequency is -1; expected a whole number, not below 0",
        ),
        (
            [{"errors": [{"type": "t", "contrastive": "c", "frequency": math.inf}]}],
            "entry 1, error 1: frequency is inf; expected a whole number, not below 0",
        ),
    ],
)
def test_an_invalid_set_is_one_line(tmp_path: Path, value: Any, complaint: str) -> None:
    path = write(tmp_path / "set.json", value)
    with pytest.raises(UserError, match="expected") as caught:
        read_json(path)
    assert str(caught.value) == f"{path}: {complaint}"


@pytest.mark.parametrize(
    ("text", "complaint"), [("[{]", "Expecting property name"), ("[" * 99_999, "nested too deeply$")]
)
def test_text_that_is_not_json_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "set.json"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"set\.json: not JSON: {complaint}"):
        read_json(path)


def write_lines(folder: Path, **files: str) -> list[Path]:
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in files]


def test_lines_with_one_source_and_reference_are_one_entry(tmp_path: Path) -> None:
    src, right, wrong = write_lines(tmp_path, src="a\na\nb\na\n", right="x\nx\ny\nx\n", wrong="1\n2\n3\n4\n")
    assert read_line_aligned(src, right, wrong, "t") == [
        Entry("a", "x", [Error("t", "1"), Error("t", "2")]),
        Entry("b", "y", [Error("t", "3")]),
        Entry("a", "x", [Error("t", "4")]),
    ]


def test_files_that_do_not_correspond_are_one_line(tmp_path: Path) -> None:
    src, right, wrong = write_lines(tmp_path, src="a\na\n", right="x\ny\n", wrong="1\n2\n")
    assert [entry.reference for entry in read_line_aligned(src, right, wrong, "t")] == ["x", "y"]
    src, right, wrong = write_lines(tmp_path, src="a\nb\n", right="x\ny\n", wrong="1\n")
    with pytest.raises(UserError, match=r"wrong has 1 line but .*src has 2; align them line by line"):
        read_line_aligned(src, right, wrong, "t")
    src, right, wrong = write_lines(tmp_path, src="", right="", wrong="")
    with pytest.raises(UserError, match="src is empty: there is nothing to compare"):
        read_line_aligned(src, right, wrong, "t")
