"""``nmtkit translate``: a filter from raw text to plain translations, one line out for every line in."""

import contextlib
import io
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO, cast

import typer

from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, decode_line, raw_lines

if TYPE_CHECKING:
    from nmtkit.api import Translation

PAUSE = 0.1  # seconds: someone who has not sent the next line by then wants the answers so far
WARNINGS = 5  # about lines that are not UTF-8


def translate(
    model: Annotated[Path, typer.Option("--model", "-m", help="Model folder.")] = Path("run"),
    input: Annotated[str, typer.Option("--input", "-i", help="File to translate (.gz and .zst too).")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File for the translations.")] = "-",
    beam_size: Annotated[int | None, typer.Option("--beam-size", "-b", min=1, help="Hypotheses kept.")] = None,
    length_penalty: Annotated[
        Literal["none", "avg", "gnmt"] | None,
        typer.Option(help="Rank by log P, by log P / |y|, or by log P / ((5 + |y|) / 6)^alpha."),
    ] = None,
    alpha: Annotated[float | None, typer.Option(min=0.0, help="The alpha of --length-penalty gnmt.")] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Write the N best of each line as 'line ||| text ||| score'.")
    ] = None,
    scores: Annotated[
        Literal["none", "sentence"], typer.Option(help="sentence: write the score and a tab before each translation.")
    ] = "none",
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Write a tab and 'source-target' word pairs after each translation.")
    ] = False,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Read and write tokens, segmented as in the data folder.")
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Batch size: source tokens times beam. Less needs less memory.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
) -> None:
    """Translate text: one line out for every line in, in order; a blank line for a blank line.

      nmtkit translate < in.txt > out.txt

      zcat big.gz | nmtkit translate --beam-size 10 --scores sentence | cut -f1

    Search settings that are not given are those the model was trained with. A score is the log-probability (base
    e) under the length penalty. Word pairs count from 0, in tokenised words (in tokens with --tokenized); a word
    for which the model looked nowhere has none. In an n-best list the lines count from 0 and the word pairs
    are a fourth field.

    Answers are written as soon as the input pauses, so that it works in a dialogue too.
    """
    if n_best and scores != "none":
        raise UserError("--scores: an n-best list has them already; leave it out")
    typed = input == "-" and sys.stdin.isatty()
    if typed:
        print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)

    from nmtkit import api  # takes seconds: it imports torch

    translator = api.load(model, device)
    asked: dict[str, Any] = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "alpha": alpha,
        "max_tokens": max_tokens,
    }
    search = replace(translator.search, **{name: value for name, value in asked.items() if value is not None})
    if alpha is not None and search.length_penalty != "gnmt":
        raise UserError(f"--alpha: without effect on --length-penalty {search.length_penalty}; it belongs to gnmt")
    translator = replace(translator, search=search)

    stream = _Stream(sys.stdin.fileno()) if input == "-" else None
    raw, at_hand = (stream, stream.at_hand) if stream else (raw_lines(input), lambda: True)
    # No progress line where it would stand between the translations, or in what is typed.
    shown = sys.stderr.isatty() and not typed and (output != "-" or not sys.stdout.isatty())
    number = 0
    with _writer(output) as file, _progress(shown) as report:
        for window in api.windows(_decoded(raw, input), at_hand):
            for best in translator.n_best(window, n_best or 1, tokenized=tokenized, alignment=alignment):
                for translation in best:
                    file.write(
                        (_columns(translation, scores) if n_best is None else _moses(number, translation)) + "\n"
                    )
                number += 1
            file.flush()
            report(number)


def _columns(translation: "Translation", scores: str) -> str:
    """[score TAB] text [TAB alignment]: the text may have tabs of its own, the columns around it never do."""
    score = f"{translation.score:.6f}\t" if scores == "sentence" else ""
    pairs = "" if translation.alignment is None else f"\t{_pharaoh(translation.alignment)}"
    return score + translation.text + pairs


def _moses(number: int, translation: "Translation") -> str:
    pairs = "" if translation.alignment is None else f" ||| {_pharaoh(translation.alignment)}"
    return f"{number} ||| {translation.text} ||| {translation.score:.6f}{pairs}"


def _pharaoh(pairs: list[tuple[int, int]]) -> str:
    return " ".join(f"{src}-{tgt}" for src, tgt in pairs)


def _decoded(raw: Iterable[bytes], input: str) -> Iterator[str]:
    """Every line as text; the first few that are not UTF-8 are reported, and how many there were."""
    place, bad = "standard input" if input == "-" else input, 0
    for number, line in enumerate(raw, 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            bad += 1
            if bad <= WARNINGS:
                byte = f"byte 0x{line[error.start]:02X} is not UTF-8"
                print(f"nmtkit: warning: {place}:{number}: {byte}; translated as \ufffd", file=sys.stderr)
        text = decode_line(line)
        yield text.removeprefix("\ufeff") if number == 1 else text  # a byte order mark
    if bad > WARNINGS:
        print(f"nmtkit: warning: {place}: {bad} lines are not UTF-8", file=sys.stderr)


class _Stream:
    """The lines of a file descriptor, and whether the next one is at hand. A line ends in \\n and nothing else."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._ended = descriptor, False
        self._lines, self._tail = deque[bytes](), list[bytes]()  # complete lines; pieces of the one that is coming

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while not (self._lines or self._ended):
                self._read()
            if not self._lines:
                return
            yield self._lines.popleft()

    def at_hand(self) -> bool:
        """Whether there is another line, now or before the pause is over."""
        while not (self._lines or self._ended) and select.select([self._descriptor], [], [], PAUSE)[0]:
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        try:
            block = os.read(self._descriptor, 1 << 20)
        except OSError as error:
            raise UserError(f"standard input: cannot be read: {error.strerror}") from None
        first, *others = block.split(b"\n")
        self._tail.append(first)
        for other in others:
            self._lines.append(b"".join(self._tail))
            self._tail = [other]
        if not block:
            self._ended = True
            if any(self._tail):  # a last line without its end
                self._lines.append(b"".join(self._tail))


@contextlib.contextmanager
def _writer(output: str) -> Iterator[TextIO]:
    """UTF-8 whatever the locale. Standard output fills as translations come, a file appears when it is complete."""
    if output == "-":
        cast(io.TextIOWrapper, sys.stdout).reconfigure(encoding="utf-8", errors="replace", newline="\n")
        yield sys.stdout
    elif Path(output).exists() and not Path(output).is_file():  # a device or a named pipe, which a rename would replace
        try:
            opened = open(output, "w", encoding="utf-8", newline="\n")  # noqa: SIM115
        except OSError as error:
            raise UserError(f"{output}: cannot be written: {error.strerror}") from None
        with opened as file:
            yield file
    else:
        with atomic_write(output) as file:
            yield file


@contextlib.contextmanager
def _progress(shown: bool) -> Iterator[Callable[[int], None]]:
    """A function that shows how many lines are done."""
    if not shown:
        yield lambda lines: None
        return
    from rich.console import Console

    start = time.monotonic()
    with Console(stderr=True).status("translating") as status:
        yield lambda lines: status.update(
            f"{lines} lines translated, {lines / (time.monotonic() - start):.0f} a second"
        )
