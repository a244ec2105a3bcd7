from pathlib import Path

import numpy as np
import pytest

from nmtkit.data import cleaning
from nmtkit.data.cleaning import pair_hash, repeated, script, wrong_script


@pytest.mark.parametrize(
    ("language", "text", "wrong"),
    [
        ("en", "A house, a garden.", False),
        ("en", "дом", True),
        ("en", "a дом", True),
        ("en", "abc дом", False),  # half of the letters is not more than half
        ("en", "1984 – 50% 😀", False),
        ("en", "", False),
        ("ru", "дом", False),
        ("ru", "house", True),
        ("sr", "kuća кућа", False),
        ("zh-TW", "我们 的 房子", False),
        ("ja", "わたし の カメラ 本", False),
        ("zh", "わたし", True),
        ("ko", "우리 집", False),
        ("el", "σπίτι", False),
        ("tlh", "Hab SoSlI' Quch", False),  # a language that is not listed
        ("en", "ＦＵＬＬ", False),
    ],
)
def test_a_side_is_in_the_wrong_script_if_most_of_its_letters_are(language: str, text: str, wrong: bool) -> None:
    assert wrong_script(text.split(), language) == wrong


@pytest.mark.parametrize(("letter", "name"), [("a", "LATIN"), ("ß", "LATIN"), ("ж", "CYRILLIC"), ("中", "CJK")])
def test_the_script_of_a_letter_is_unicodes(letter: str, name: str) -> None:
    assert script(letter) == name


def test_a_hash_tells_where_one_side_ends() -> None:
    pairs = [(["a", "b"], ["c"]), (["a"], ["b", "c"]), (["a", "b", "c"], []), (["ab"], ["c"]), (["c"], ["a", "b"])]
    assert len({pair_hash(*pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_all_but_the_first_of_equal_hashes_are_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(cleaning, "_AT_ONCE", at_once)
    values = np.random.default_rng(1).integers(0, 40, 100, dtype=np.uint64)
    parts = np.split(values, [0, 13, 50])
    files = [tmp_path / str(number) for number in range(len(parts))]
    for file, part in zip(files, parts, strict=True):
        part.astype("<u8").tofile(file)
    marks = repeated(files, tmp_path / "marks")
    assert [len(mark) for mark in marks] == [len(part) for part in parts]
    expected = [value in values[:place] for place, value in enumerate(values)]
    assert np.concatenate(marks).tolist() == expected


def test_where_nothing_stays_nothing_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert [mark.tolist() for mark in repeated([tmp_path / "empty"] * 2, tmp_path / "marks")] == [[], []]
