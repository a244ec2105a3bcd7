import random
import re
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
    assert examine(tmp_path, src[:139], tgt[::-1]) is None  # too short to be judged


def test_pairs_without_text_on_one_side_say_nothing(tmp_path: Path) -> None:
    src, tgt = sides()
    rng = random.Random(3)
    assert examine(tmp_path, src, [line if rng.random() < 0.6 else "" for line in tgt]) is None


@pytest.mark.parametrize("line", [1, 300, 499, 760])
@pytest.mark.parametrize("lost", [1, 3, 20])
def test_from_a_lost_line_on_the_sides_do_not_correspond(tmp_path: Path, line: int, lost: int) -> None:
    src, tgt = sides()
    for shift in (lost, -lost):
        short, long = (src, tgt) if shift > 0 else (tgt, src)
        both = [short[: line - 1] + short[line - 1 + lost :], long[:-lost]]
        found = examine(tmp_path, *both[:: 1 if shift > 0 else -1])
        first, last, given, there = numbers(found, tmp_path)
        # Blocks of a hundred lines, the first of which may begin before the lost line.
        assert max(21, line - 50) <= first <= given <= max(21, line + 100)
        assert there == given + shift
        assert last >= LINES - lost - 199


def test_lines_that_are_shifted_for_a_while_are_found(tmp_path: Path) -> None:
    src, tgt = sides()
    found = examine(tmp_path, src, tgt[:400] + tgt[401:600] + ["mot"] + tgt[600:])
    assert numbers(found, tmp_path) == (421, 520, 421, 420)


def test_blank_lines_on_both_sides_do_not_hide_a_shift(tmp_path: Path) -> None:
    src, tgt = sides()
    shifted = [*tgt[:400], *tgt[401:], "mot"]
    for line in range(0, LINES, 7):
        src[line] = shifted[line] = ""
    first, _, given, there = numbers(examine(tmp_path, src, shifted), tmp_path)
    assert (first, given - there) == (421, 1)


def test_lines_whose_lengths_are_unrelated_are_found(tmp_path: Path) -> None:
    (src, tgt), (_, other) = sides(), sides(4)
    there = f"do not correspond to those of {tmp_path}/tgt"
    assert examine(tmp_path, src, tgt[:320] + other[320:720] + tgt[720:]) == (
        f"by their lengths, lines 321 to 720 {there}"
    )
    two = tgt[:220] + other[220:420] + tgt[420:820] + other[820:1020] + tgt[1020:]
    assert examine(tmp_path, src, two) == f"by their lengths, lines 221 to 420, 821 to 1,020 {there}"
    assert examine(tmp_path, src, other) == f"by their lengths, lines 21 to 1,120 {there}"


def test_sides_of_different_length_are_compared_until_one_ends(tmp_path: Path) -> None:
    src, tgt = sides()
    assert examine(tmp_path, src[:-1], tgt) is None
    assert numbers(examine(tmp_path, src, tgt[1:]), tmp_path) == (21, 1120, 21, 20)


def numbers(found: str | None, folder: Path) -> tuple[int, ...]:
    """The lines that do not correspond, and the first of them with the line of the target that it corresponds to."""
    (last,) = {int(each.replace(",", "")) for each in re.findall(r"lines [\d,]+ to ([\d,]+) do not", found or "")}
    pattern = rf"by their lengths, lines ([\d,]+) to .* do not correspond to those of {folder}/tgt \(lines ([\d,]+) to "
    match = re.fullmatch(pattern + r"[\d,]+ correspond to lines ([\d,]+) to [\d,]+\)", found or "")
    assert match
    first, given, there = (int(each.replace(",", "")) for each in match.groups())
    return first, last, given, there
