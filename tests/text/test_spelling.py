import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import regex

from nmtkit.text.spelling import differences

WORDS = "lo'i ma'e k'a tanu seri wo'ka pâru zila kemo".split()


def text(seed: int = 1, lines: int = 200) -> str:
    rng = random.Random(seed)
    return "".join(" ".join(rng.choices(WORDS, k=16)).capitalize() + ".\n" for _ in range(lines))


def found(folder: Path, test: str, train: str, capitals: bool = True, apostrophes: bool = True) -> list[str]:
    for name, content in (("test", test), ("train", train)):
        (folder / name).write_text(content, encoding="utf-8")
    return [what for _, what in differences([folder / "test"], folder / "train", capitals, apostrophes)]


def test_text_that_is_written_alike_is_left_alone(tmp_path: Path) -> None:
    assert found(tmp_path, text(1), text(2)) == []
    assert found(tmp_path, text(1), text(2).replace("â", "a\u0302")) == []  # another normal form
    assert found(tmp_path, text(1), text(2).replace(" ", "\n").replace(".", "")) == []  # a word list
    assert found(tmp_path, text(1).replace("'", "’"), text(2, 60)) == []  # a short text says nothing
    assert found(tmp_path, "我们说什么\n" * 200, "他是一个学生\n" * 200) == []  # words


def test_another_apostrophe_is_found_and_the_remedy_works(tmp_path: Path) -> None:
    train = text(2)
    (what,) = found(tmp_path, text(1).replace("'", "’"), train)
    shares = "’ (U+2019) in 100% of the lines instead of 0%, ' (U+0027) in 0% of the lines instead of 100%"
    remedy, command = "replace ' in the training text, for example with: ", 'sed "s/\'/’/g"'
    assert what == f"not written like {tmp_path}/train: {shares}; {remedy}{command}"
    assert found(tmp_path, text(1).replace("'", "’"), train, apostrophes=False) == []
    for theirs in ("`", "´", "ꞌ"):
        test, train = text(1), text(2).replace("'", theirs)
        command = found(tmp_path, test, train)[0].rpartition(": ")[2]
        done = subprocess.run(f"{command} {tmp_path}/train", shell=True, capture_output=True, check=True, text=True)
        assert found(tmp_path, test, done.stdout) == []


@pytest.mark.parametrize("upper", [False, True])
def test_text_in_lower_or_upper_case_is_found_unless_case_is_changed(tmp_path: Path, upper: bool) -> None:
    train = text(2).lower()
    sides = (train.upper(), train) if upper else (text(1), train)
    (what,) = found(tmp_path, *sides)
    assert what == (
        f"not written like {tmp_path}/train: capital letters in 100% of the lines instead of 0%; prep's truecase (as "
        "the training text writes words within sentences) or lowercase makes them alike"
    )
    assert found(tmp_path, *sides, capitals=False) == []


@pytest.mark.parametrize("written", [str.upper, str.title])
def test_capitals_that_one_text_has_only_at_the_beginning_of_lines_are_found(
    tmp_path: Path, written: Callable[[str], str]
) -> None:
    test = text(1).replace("seri", written("seri")).replace("zila", written("zila"))
    (what,) = found(tmp_path, test, text(2))
    assert regex.fullmatch(
        rf"not written like {tmp_path}/train: capital letters within sentences in \d+% of the lines instead of 0%; "
        r"prep's truecase \(.*", what
    )  # fmt: skip
    assert found(tmp_path, test, text(2), capitals=False) == []
    assert found(tmp_path, test, text(2).replace("seri", written("seri"))) == []  # fewer, but as usual
    assert found(tmp_path, text(1), text(2).replace(" kemo ", ". Kemo ")) == []  # several sentences in a line


def test_another_orthography_is_found_by_letters_that_are_missing_in_either_text(tmp_path: Path) -> None:
    (what,) = found(tmp_path, text(1), text(2).replace("k", "qu").replace("'", ""))
    shares = "' (U+0027) in 100% of the lines instead of 0%, q (U+0071) in 0% of the lines instead of 100%"
    remedy = "convert one of them to the orthography of the other"
    assert what == f"not written like {tmp_path}/train: {shares}; {remedy}"
