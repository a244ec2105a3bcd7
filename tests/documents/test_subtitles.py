import time
from contextlib import suppress
from dataclasses import replace

import pytest

from nmtkit.documents.segment import Mark, Segment
from nmtkit.errors import UserError
from tests.documents.files import FILES, capitals, read


def srt(*cues: str, pause: float = 0.1) -> bytes:
    """Subtitles of cues that last two seconds each, with a pause between them."""
    starts = [number * (2 + pause) for number in range(len(cues))]
    times = [f"00:00:{start:06.3f} --> 00:00:{start + 2:06.3f}".replace(".", ",") for start in starts]
    return "".join(f"{n}\n{time}\n{cue}\n\n" for n, (time, cue) in enumerate(zip(times, cues, strict=True), 1)).encode()


def texts(data: bytes, name: str = "a.srt") -> list[str]:
    return [segment.text for segment in read(name, data).segments]


def cues(data: bytes) -> list[str]:
    """The text of each cue of an srt."""
    return [block.split("\n", 2)[2] for block in data.decode().strip().split("\n\n")]


def test_a_sentence_that_runs_over_cues_is_one_segment() -> None:
    assert texts(srt("The girl drinks", "cold milk.", "She reads.")) == ["The girl drinks cold milk.", "She reads."]
    assert texts(srt("She said:", '"Drink."')) == ["She said:", '"Drink."']
    assert texts(srt("The girl", "[door closes]", "♪ a song", "goes on ♪")) == [
        "The girl", "[door closes]", "♪ a song goes on ♪"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("我们今天", "去公园。", "我们今天去公园。"),
        ("今日は、", "<i>公園</i>に行く", "今日は、公園に行く"),
        ("<i>我们用</i>", "Python。", "我们用 Python。"),
        ("우리는", "공원에", "우리는 공원에"),
    ],
)
@pytest.mark.parametrize("apart", ["lines", "cues"])
def test_chinese_and_japanese_lines_are_joined_without_a_space(one: str, other: str, together: str, apart: str) -> None:
    data = srt(f"{one}\n{other}") if apart == "lines" else srt(one, other)
    assert texts(data) == [together]
    assert capitals("a.srt", data).decode() == data.decode().replace("Python", "PYTHON")


def test_cues_far_apart_and_more_than_four_are_not_joined() -> None:
    assert texts(srt("one", "two", pause=3)) == ["one", "two"]
    assert texts(srt("a", "b", "c", "d", "e")) == ["a b c d", "e"]


@pytest.mark.parametrize("empty", ["", " ", "<i></i>", "<b> </b>"])
def test_an_empty_cue_within_a_sentence_stays_empty(empty: str) -> None:
    data = srt("one two", empty, "three.", pause=-1)
    assert texts(data) == ["one two three."]
    assert capitals("a.srt", data) == srt("ONE TWO", empty, "THREE.", pause=-1)


def test_speakers_of_a_cue_are_translated_apart_and_keep_their_dashes() -> None:
    data = srt("-Hello.\n- You there", "and me.")
    assert texts(data) == ["Hello.", "You there and me."]
    assert cues(capitals("a.srt", data)) == ["-HELLO.\n- YOU THERE", "AND ME."]


@pytest.mark.parametrize(
    ("cue", "apart"),
    [
        ("<i>- Hello.</i>\n<i>- You there</i>", ["Hello.", "You there"]),
        ("{\\an8}- Hello\n<b><i>– you</i></b>", ["Hello", "you"]),
        ("(laughs)\nHello\n- You", ["(laughs) Hello", "You"]),
        ("- Hello\nthere\n- You", ["Hello there", "You"]),
        ("JOHN: Hello\nMRS. O'NEIL: You\nthere", ["Hello", "You there"]),
        ("<i>JOHN: Hello</i>\n<b>MARY 2: You</b>", ["Hello", "You"]),
        ("<v a>Hello</v>\n<v b>You", ["Hello", "You"]),
        ("- <v a>Hello\n- <i>you</i> there", ["Hello", "you there"]),
        ("{\\an8}Hello\nyou", ["Hello you"]),
        ("{\\an8}<i>Hello</i>\n{\\an8}{\\b1}<i>you there</i>", ["Hello you there"]),
        ("HE SAID: GO", ["HE SAID: GO"]),
        ("It was twenty\nto NINE: late", ["It was twenty to NINE: late"]),
    ],
)
def test_a_dash_or_a_name_in_capitals_begins_a_speaker_and_is_copied(cue: str, apart: list[str]) -> None:
    data = srt(cue)
    assert texts(data) == apart
    for word in " ".join(apart).split():
        cue = cue.replace(word, word.upper())
    assert cues(capitals("a.srt", data)) == [cue]


def test_a_translation_is_divided_where_the_words_of_the_cues_went() -> None:
    file = read("a.srt", srt("one two three", "four."))
    [segment] = file.segments
    [mark] = segment.marks
    assert cues(file.write([Segment("1 2 3 4.", (mark._replace(start=4, end=4),))])) == ["1 2", "3 4."]


def test_where_a_cue_would_be_empty_a_translation_is_divided_by_length() -> None:
    file = read("a.srt", srt("one two three", "four."))
    [segment] = file.segments
    for place in (0, 14):
        mark = segment.marks[0]._replace(start=place, end=place)
        assert cues(file.write([Segment("un deux trois.", (mark,))])) == ["un deux", "trois."]


def test_words_without_spaces_are_divided_between_letters() -> None:
    file = read("a.srt", srt("one two", "three."))
    [segment] = file.segments
    assert cues(file.write([replace(segment, text="一二三四", marks=())])) == ["一二", "三四"]
    assert cues(file.write([replace(segment, text="ไปที่นี่", marks=())])) == ["ไปที่", "นี่"]  # and not in a letter


def test_a_cue_has_as_many_lines_as_before_about_as_long_as_each_other() -> None:
    file = read("a.srt", srt("one two\nthree four"))
    [segment] = file.segments
    assert segment.text == "one two three four"
    assert cues(file.write([Segment("eins zwei drei und vier")])) == ["eins zwei\ndrei und vier"]


def test_italics_over_lines_and_cues_are_closed_in_each() -> None:
    file = read("a.srt", srt("<i>one two\nthree</i>", "<i>four</i>"))
    [segment] = file.segments
    assert [mark[:2] for mark in segment.marks if mark.start < mark.end] == [(0, 13), (14, 18)]
    italics = Mark(0, 17, segment.marks[0].element, True)
    [_, pause, _] = segment.marks
    moved = Segment("un deux trois six", (italics, pause._replace(start=14, end=14)))
    assert cues(file.write([moved])) == ["<i>un deux</i>\n<i>trois</i>", "<i>six</i>"]


@pytest.mark.parametrize("end", [".", "።", "፡፡", "។", "۔", "॥", "…", "!»"])
def test_a_sentence_ends_with_the_mark_of_its_script(end: str) -> None:
    assert [segment.text for segment in read("a.srt", srt(f"one{end}", "two", "three")).segments] == [
        f"one{end}",
        "two three",
    ]


def test_no_line_of_a_cue_is_empty() -> None:
    file = read("a.srt", srt("one two", "three\nfour\nfive."))
    [segment] = file.segments
    for place in (7, 8):  # before the space and behind it
        mark = segment.marks[0]._replace(start=place, end=place)
        assert cues(file.write([Segment("un deux trois quatre", (mark,))])) == ["un deux", "trois\nquatre"]


def test_times_numbers_and_positions_stay() -> None:
    written = capitals("a.srt", srt("{\\an8}one <font color='red'>two</font>."))
    assert written.decode() == srt("{\\an8}ONE <font color='red'>TWO</font>.").decode()
    assert capitals("a.srt").splitlines()[0] == b"7"


def test_the_codes_of_a_line_stay_where_the_translation_has_fewer_lines() -> None:
    file = read("a.srt", srt("{\\an8}one\n{\\b1}two\n{\\i1}three"))
    assert cues(file.write([Segment("y")])) == ["{\\an8}{\\b1}{\\i1}y"]
    assert cues(file.write([Segment("un deux")])) == ["{\\an8}un\n{\\b1}{\\i1}deux"]


def test_lines_of_windows_and_byte_order_marks_stay() -> None:
    data = b"\xef\xbb\xbf" + srt("one", "two.").replace(b"\n", b"\r\n")
    assert capitals("a.srt", data) == data.replace(b"one", b"ONE").replace(b"two", b"TWO")
    data = b"\xef\xbb\xbfWEBVTT\r\n\r\n00:00:01.000 --> 00:00:02.000\r\none\r\ntwo.\r\n"
    assert capitals("a.vtt", data) == data.replace(b"one", b"ONE").replace(b"two", b"TWO")


def test_a_cue_of_many_lines_is_written_in_linear_time() -> None:
    file = read("a.srt", srt("one\n" * 40_000))
    began = time.process_time()
    assert cues(file.write(file.segments)) == ["\n".join(["one"] * 40_000)]
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ["1" * 1_000, "\n" * 8_000])
def test_digits_and_blank_lines_are_read_in_linear_time(text: str) -> None:
    began = time.process_time()
    with suppress(UserError):
        read("a.srt", text.encode())
    assert time.process_time() - began < 2


def test_times_without_a_blank_line_before_them_begin_a_cue_and_all_but_words_stays() -> None:
    data = b"""
1
0:00:01,5 --> 00:00:02.000
 2
00:00:02,000-->00:00:03,000 X1:0
one.


00:00:04,000 --> 00:00:05,000
 two.
3

00:00:06,000 --> 00:00:07,000
three."""
    assert [segment.text for segment in read("a.srt", data).segments] == ["one.", "two.", "three."]
    assert capitals("a.srt", data) == data.replace(b"one", b"ONE").replace(b"two", b"TWO").replace(b"three", b"THREE")


def test_an_arrow_does_not_become_a_time() -> None:
    for name in ("a.srt", "a.vtt"):
        file = read(name)
        written = file.write([replace(each, text=f"{each.text} -->", marks=()) for each in file.segments])
        assert written.count(b"-->") == FILES[name].count(b"-->")


def test_speakers_styles_and_notes_of_webvtt_stay() -> None:
    changed = FILES["a.vtt"].decode()
    for text in ("the girl drinks", "the little girl drinks", "and reads", "long", "book", ">a <"):
        changed = changed.replace(text, text.upper())
    assert capitals("a.vtt").decode().strip() == changed.strip()


@pytest.mark.parametrize("settings", ["align:middle line:90%", "A:10% L:0", "line:0 line:1", "\tsize:101%"])
def test_settings_of_old_or_wrong_cues_of_webvtt_stay(settings: str) -> None:
    data = f"WEBVTT\n\n00:00:01.000 --> 00:00:02.000 {settings}\none\n\n00:00:02.000 --> 00:00:03.000\ntwo.\n"
    assert capitals("a.vtt", data.encode()).decode().split() == data.replace("one", "ONE").replace("two", "TWO").split()


def test_files_that_are_no_subtitles_are_refused() -> None:
    with pytest.raises(UserError, match=r"^a\.srt: is not a valid srt file: 'no times at all' is not a cue$"):
        read("a.srt", b"no times\nat all\n")
    with pytest.raises(UserError, match=r"^a\.srt: is not a valid srt file: it is WebVTT; end its name in \.vtt$"):
        read("a.srt", FILES["a.vtt"])
    with pytest.raises(UserError, match=r"^a\.vtt: is not a valid vtt file: Invalid format"):
        read("a.vtt", b"no times\n")
    with pytest.raises(UserError, match=r"^a\.vtt: is not a valid vtt file: "):
        read("a.vtt", FILES["a.vtt"].replace(b"00:00:03.600 -->", b"00:00:3 -->"))
