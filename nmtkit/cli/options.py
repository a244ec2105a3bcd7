"""Options and helpers that several commands share."""

import io
import json
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

from nmtkit.errors import UserError
from nmtkit.lines import file_of, texts_of
from nmtkit.options import Option
from nmtkit.writing import atomic_write

log = logging.getLogger(__name__)

AS_JSON = Option("Print JSON, for scripts.", names="--json")
AsJson = Annotated[bool, AS_JSON]
OUTPUT_FILE = Option("File to write; - is standard output.", names="--output -o")


def print_json(value: Any) -> None:
    """Print JSON; dataclasses and named tuples become objects, and paths text."""

    def plain(value: Any) -> Any:
        if is_dataclass(value):
            value = vars(value)
        elif isinstance(value, tuple) and hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, Mapping):
            return {key: plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return list(map(plain, value))
        return str(value) if isinstance(value, Path) else value

    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def say_next(command: str, *options: tuple[str, Path, str]) -> None:
    """Log the next command, such as "next: nmtkit vocab -d other"; options: each with its value and its default."""
    given = "".join(f" {name} {shlex.quote(str(path))}" for name, path, default in options if path != Path(default))
    log.info(f"next: nmtkit {command}{given}")


def say_next_of_model(folder: Path) -> None:
    """Log the next command for a new model: score if there is a test set, else translate."""
    if Path("data/test.src").exists():
        say_next("score", ("-m", folder, "run"))
    else:
        log.info(f"next: nmtkit translate -m {shlex.quote(str(folder))} < in.txt > out.txt")


def check_output(option: str, output: Path | str, *inputs: Path | str) -> None:
    """Raise UserError if the output file of an option is also an input ("-": standard input), or has an empty name."""
    if output == "":
        raise UserError(f"{option}: is empty; name a file, or - for standard output")
    if not os.path.isfile(output):
        return
    for text in chain.from_iterable(map(texts_of, inputs)):
        read: Path | int = file_of(text)[0]  # text.tsv:2 is a column of text.tsv
        if str(text) == "-":
            if sys.stdin is None:  # reported when it is read
                continue
            read = sys.stdin.fileno()  # `< f` with `-o f` is the same mistake
        elif not os.path.exists(read):
            continue
        if os.path.samestat(os.stat(read), os.stat(output)):
            raise UserError(f"{option} {output}: is also an input and would be overwritten; choose another file")


@contextmanager
def open_output(output: str) -> Iterator[TextIO]:
    """An output file, or standard output for "-", in UTF-8 whatever the locale.

    Standard output is written at once; a file appears when it is complete.
    """
    if output == "-":
        # Lines end in \n on every system, and a lone surrogate must not end a long translation.
        cast(io.TextIOWrapper, sys.stdout).reconfigure(encoding="utf-8", errors="replace", newline="\n")
        yield sys.stdout
    else:
        with atomic_write(output) as file:
            yield file


def forget_output() -> None:
    """Discard the rest of stdout: Python flushes it at exit, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
