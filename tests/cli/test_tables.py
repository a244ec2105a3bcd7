import re

import pytest

from nmtkit.cli.tables import print_table

HEADER = ["system", "BLEU", "note"]
ROWS = [["[bold]a", "9.50", "x"], ["ab", "-", "12 y"], ["c", "1,000.25", ""]]


def test_in_a_pipe_a_table_has_plain_columns_with_right_aligned_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("title", HEADER, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "title",
        "system       BLEU  note",
        "[bold]a      9.50  x",
        "ab              -  12 y",
        "c        1,000.25",
    ]


def test_on_a_terminal_rich_draws_tables_and_text_is_not_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    print_table("a[/b] [de]", HEADER, ROWS)
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert shown.split("\n")[0].rstrip() == "a[/b] [de]"
    assert "───" in shown
    assert re.search(r"^ +\[bold\]a +9\.50 +x", shown, re.MULTILINE)


def test_on_a_narrow_terminal_words_continue_on_the_next_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    print_table("title", ["metric", "signature"], [["sacreBLEU-13a", signature]])
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= 40
    assert signature in "".join(shown.partition("sacreBLEU-13a")[2].split())


def test_a_table_without_rows_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("title", ["a", "b"], [])
    assert capsys.readouterr().out.splitlines() == ["title", "a  b"]
