import os
import threading

from nmtkit.translation.stream import FIRST_WINDOW, LARGEST_WINDOW, Stream, windows


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
