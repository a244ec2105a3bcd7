import os
import threading

import pytest

from nmtkit.translation.stream import FIRST_WINDOW, LARGEST_WINDOW, WARNINGS, Stream, decoded, windows


def test_windows_grow_and_lose_nothing() -> None:
    sizes = [len(window) for window in windows(range(10_000), lambda: True, FIRST_WINDOW)]
    assert sizes[:3] == [FIRST_WINDOW, 2 * FIRST_WINDOW, 4 * FIRST_WINDOW]
    assert max(sizes) == LARGEST_WINDOW
    assert [i for window in windows(range(10_000), lambda: True, FIRST_WINDOW) for i in window] == list(range(10_000))


def test_a_window_ends_when_reading_the_next_line_would_block() -> None:
    ready = iter([True, False, False, True, False])
    assert list(windows("abcde", lambda: next(ready), FIRST_WINDOW)) == [["a", "b"], ["c"], ["d", "e"]]


def test_windows_are_large_from_the_start_if_nobody_waits() -> None:
    sizes = [len(window) for window in windows(range(5000), lambda: True, LARGEST_WINDOW)]
    assert sizes == [LARGEST_WINDOW, LARGEST_WINDOW, 5000 - 2 * LARGEST_WINDOW]


@pytest.mark.parametrize(("bad", "more"), [(WARNINGS, []), (WARNINGS + 1, [f"in: {WARNINGS + 1} lines are not UTF-8"])])
def test_lines_that_are_not_utf_8_are_told_one_by_one_and_many_by_their_number(bad: int, more: list[str]) -> None:
    told: list[str] = []
    assert list(decoded([b"a \xe9\n"] * bad, "in", told.append)) == ["a \ufffd"] * bad
    places = [f"in:{number}: byte 0xE9 is not UTF-8" for number in range(1, WARNINGS + 1)]
    assert [message.partition(";")[0] for message in told] == [*places, *more]


def test_a_non_blocking_input_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    later = threading.Timer(0.05, os.write, (writing, b"a\nb"))
    later.start()
    lines = iter(Stream(reading))
    assert next(lines) == b"a"
    later.join()
    os.close(writing)
    assert list(lines) == [b"b"]
    os.close(reading)
