"""Commands that read what other commands write: every pair once, on one small run that the real commands made."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Nmtkit = Callable[..., Any]  # the command line of tests/conftest.py

SMALL = """
model: {embedding: 8, hidden: 8, attention: 8, maxout: 8}
training:
  optimizer: {name: adam, lr: 0.01}
  batch_sentences: 10
  max_epochs: 2
  keep_best: 2
search: {beam_size: 2, max_len_a: 1, max_len_b: 2}
"""
WORDS = {"cat": "chat", "dog": "chien", "tree": "arbre", "house": "maison", "old": "vieux", "new": "neuf"}
SIZES = {"train": 60, "dev": 6, "test": 5}


def command(folder: Path, *arguments: str) -> str:
    """What one ``nmtkit`` command prints in ``folder``; it must succeed."""
    line = [sys.executable, "-m", "nmtkit", *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which prep, vocab and train have run."""
    folder, choose = tmp_path_factory.mktemp("pairs"), random.Random(1)
    (folder / "raw").mkdir()
    for split, size in SIZES.items():
        english = [choose.choices(list(WORDS), k=choose.randint(2, 5)) for _ in range(size)]
        sides = {"en": english, "fr": [[WORDS[word] for word in words] for words in english]}
        for language, sentences in sides.items():
            (folder / f"raw/{split}.{language}").write_text("".join(f"{' '.join(s)}.\n" for s in sentences))
    (folder / "small.yaml").write_text(SMALL)
    command(folder, "prep", "-s", "en", "-t", "fr", "--words", "-j", "1")
    command(folder, "vocab", "-j", "1")
    command(folder, "train", "--model", "rnnsearch", "--config", "small.yaml")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_report_reads_what_train_writes(folder: Path, nmtkit: Nmtkit) -> None:
    outcome = nmtkit("report", "run")
    assert outcome.status == 0, outcome.err
    page = Path("report.html").read_text("utf-8")
    assert "<h2>Training" in page
    assert page.count("<figure>") >= 6
