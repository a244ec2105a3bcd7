import random
from pathlib import Path

import pytest

from nmtkit.text.aligned import misaligned

LINES = 1200


def sides(seed: int = 1) -> tuple[list[str], list[str]]:
    """Sentences of 1 to 30 words and translations that are longer or shorter by up to a third."""
    rng = random.Random(seed)
    lengths = [rng.randint(1, 30) for _ in range(LINES)]
    return ["word " * n for n in lengths], ["mot " * round(n * rng.uniform(0.67, 1.5)) for n in lengths]


def examine(folder: Path, src: list[str], tgt: list[str]) -> str | None:
    for name, lines in (("src", src), ("tgt", tgt)):
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    return misaligned(folder / "src", folder / "tgt")


def test_sides_that_correspond_are_left_alone(tmp_path: Path) -> None:
    src, tgt = sides()
    assert examine(tmp_path, src, tgt) is None
    assert examine(tmp_path, src, src) is None
    assert examine(tmp_path, src, ["as long as any other"] * LINES) is None
    assert examine(tmp_path, [""] * LINES, tgt) is None
    assert examine(tmp_path, src, sides(2)[1]) is None  # another text: nothing can be said


@pytest.mark.parametrize("line", [1, 300, 499, 760])
@pytest.mark.parametrize("lost", [1, 3, 20])
def test_from_a_lost_line_on_the_sides_do_not_correspond(tmp_path: Path, line: int, lost: int) -> None:
    src, tgt = sides()
    for shift in (lost, -lost):
        short, long = (src, tgt) if shift > 0 else (tgt, src)
        both = [short[: line - 1] + short[line - 1 + lost :], long[:-lost]]
        found = examine(tmp_path, *both[:: 1 if shift > 0 else -1])
        start = 1 if line < 100 else 501  # the window that is shifted from its beginning, or most of it
        if line == 760:
            start = 1001
        last = min(start + 499, LINES - lost)
        there = f"{start + 20 + shift:,} to {last - 20 + shift:,} of {tmp_path / 'tgt'}"
        assert found == f"by their lengths, lines {start + 20:,} to {last - 20:,} correspond to lines {there}"


def test_sides_of_different_length_are_compared_until_one_ends(tmp_path: Path) -> None:
    src, tgt = sides()
    assert examine(tmp_path, src[:-1], tgt) is None
    assert "lines 21 to 480 correspond to lines 20 to 479" in str(examine(tmp_path, src, tgt[1:]))
