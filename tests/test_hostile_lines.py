"""Random Unicode through the commands that work line by line: one line out for each line in, in order.

``LINES=100000 pytest -m slow tests/test_hostile_lines.py -s`` tries that many, and shows how long each command took.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.echo import write_folder, write_model

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("LINES", "2000"))
LONG = 5000  # words of a few of the lines
# Blanks of many kinds, what some programs take for the end of a line, what nobody can see, and what is wide.
LETTERS = [*"abcdefgh" * 3, *"    ", *"\t\r\x0b\x0c\x1c\x1e\x85\u2028\u2029\xa0\u3000\u200b", *"\0\x01\x7f\x9f\ufeff",
           *"éß中文عع\u0301\u200d\u202e\U0001f600\U0001f468\U0010ffff\ufffd|<>&@"]  # fmt: skip


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def read(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]


def run(*arguments: object) -> str:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", *map(str, arguments)], check=True, capture_output=True, text=True)
    print(f"{COUNT:,} lines through {arguments[0]} {arguments[1]}: {time.monotonic() - began:.0f} s")
    return done.stdout


def numbered(number: int) -> str:
    """The number in words that the echo model knows."""
    return " ".join("abcdefgh"[int(digit)] for digit in f"{number:o}")


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """A fifth of them blank, a few very long; the others begin with their number."""
    choose = random.Random(1)
    made = []
    for number in range(COUNT):
        if choose.random() < 0.2:
            made.append(choose.choice(["", " ", "\t", "\r", "\u2028", "\x85 ", "\0", "\ufeff \u3000"]))
        else:
            made.append(f"{numbered(number)} z {''.join(choose.choices(LETTERS, k=choose.randint(0, 40)))}")
    for number in choose.sample(range(COUNT), 3):
        made[number] = f"{numbered(number)} z" + " a" * LONG
    return made


def test_translate_writes_each_line_in_order(lines: list[str], tmp_path: Path) -> None:
    source = write(tmp_path / "in", lines)
    run("tests.echo", "translate", "-m", write_folder(tmp_path / "echo"), "-i", source, "-o", tmp_path / "out")
    out = read(tmp_path / "out")
    assert len(out) == COUNT
    for number, (line, said) in enumerate(zip(lines, out, strict=True)):
        assert said.startswith(f"{numbered(number)} <unk>") if "z" in line else not said


def test_translate_with_a_real_model_answers_every_line(lines: list[str], tmp_path: Path) -> None:
    source, model = write(tmp_path / "in", lines), write_model(tmp_path / "model", "rnnsearch")
    options = ["-b", "2", "--max-len-a", "0", "--max-len-b", "9", "--scores", "sentence"]
    run("nmtkit", "translate", "-m", model, "-i", source, "-o", tmp_path / "out", *options)
    out = read(tmp_path / "out")
    assert len(out) == COUNT
    for line, said in zip(lines, out, strict=True):
        assert (said == "0.000000\t") == ("z" not in line)  # certainty is for blank lines alone


def test_posunk_changes_unknown_words_and_nothing_else(lines: list[str], tmp_path: Path) -> None:
    translations = [line.replace("z", "<unk>") for line in lines]
    sources = [f"{number} {line}" for number, line in enumerate(lines)]
    links = [f"0-{line.split(' ').index('<unk>')}" if "<unk>" in line else "" for line in translations]
    run("nmtkit", "posunk", "-i", write(tmp_path / "in", translations), "--source", write(tmp_path / "source", sources),
        "--alignment", write(tmp_path / "links", links), "-o", tmp_path / "out")  # fmt: skip
    for number, (line, said) in enumerate(zip(lines, read(tmp_path / "out"), strict=True)):
        line = line.removesuffix("\r")  # part of the line's end
        assert said == (" ".join(filter(None, line.replace("z", str(number)).split(" "))) if "z" in line else line)


def test_score_pairs_every_line_with_its_own(lines: list[str], tmp_path: Path) -> None:
    hyps, refs = write(tmp_path / "hyp", lines), write(tmp_path / "ref", [line.rstrip("\r") for line in lines])
    found = json.loads(run("nmtkit", "score", hyps, refs, "--json"))
    assert found["sentences"] == COUNT
    scores = found["systems"][0]["scores"]
    assert {name: round(entry["score"]) for name, entry in scores.items()} == {
        name: 0 if name == "TER" else 100 for name in scores
    }
