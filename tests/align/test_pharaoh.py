from pathlib import Path

import pytest

from nmtkit.align.pharaoh import Gold, check_links, format_links, measure, parse_links, read_alignment, read_gold
from nmtkit.errors import UserError

GOLD = [Gold({(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2)}), Gold({(0, 0)}, {(0, 0)})]


def test_links_survive_writing_and_parsing(tmp_path: Path) -> None:
    sentences = [[(0, 0), (12, 3)], [], [(1, 0)]]
    (tmp_path / "a").write_text("".join(format_links(links) + "\n" for links in sentences))
    assert (tmp_path / "a").read_text() == "0-0 12-3\n\n1-0\n"
    assert list(read_alignment(tmp_path / "a")) == sentences


@pytest.mark.parametrize("text", ["0", "0-", "-1-2", "0-1-2", "0:1", "a-b", "1p2", "٠-١"])
def test_an_invalid_link_is_reported_with_its_line(text: str) -> None:
    with pytest.raises(UserError, match=r"a\.txt:7: expected links such as 0-0 1-2, counted from 0; found"):
        parse_links(f"0-0 {text}", "a.txt", 7)


def test_a_link_outside_its_sentences_is_reported() -> None:
    check_links([(1, 2)], 2, 3, "a", 1)
    for link in ("2-0", "0-3"):
        with pytest.raises(
            UserError, match=f"a:4: the link {link} is outside its pair of 2 and 3 words; align the same"
        ):
            check_links(parse_links(link, "a", 4), 2, 3, "a", 4)


def test_sure_links_of_a_gold_file_are_possible_too(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("0-0 1p2\n\n")
    first, blank = read_gold(tmp_path / "gold")
    assert first == ({(0, 0)}, {(0, 0), (1, 2)})
    assert blank == (set(), set())


def test_an_invalid_gold_link_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("0-0\n0x1\n")
    with pytest.raises(UserError, match="gold:2: expected sure links like 1-2, possible ones like 1p2; found '0x1'"):
        list(read_gold(tmp_path / "gold"))


def test_precision_counts_possible_links_and_recall_sure_ones() -> None:
    found = [[(0, 0), (1, 2), (2, 2)], [(0, 0)]]  # of 4 links 2 are sure, 3 possible; 3 are sure in the gold
    assert measure(found, GOLD) == pytest.approx((3 / 4, 2 / 3, 1 - (2 + 3) / (4 + 3)))


def test_an_alignment_between_sure_and_possible_links_has_no_error() -> None:
    for gold in (GOLD[0].sure, GOLD[0].possible):
        assert measure([gold, GOLD[1].sure], GOLD) == (1, 1, 0)


def test_without_links_precision_and_recall_are_0() -> None:
    assert measure([[], []], GOLD) == (0, 0, 1)
