"""Options and helpers that several commands share, so that one thing has one name and one text everywhere."""

import io
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TextIO, TypeVar, cast

import typer

from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, file_of, read_lines

T = TypeVar("T")

log = logging.getLogger(__name__)

# Where a default depends on something else, the option's is None and its help says what happens. Two spaces stand
# before such a default, because typer puts two before those that it writes itself.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        help="Checkpoint of the model folder: best, last, or the number of an update. The folder of a "
        "checkpoint, such as run/checkpoints/step-876, can also be given as the model.  [default: best]",
        show_default=False,
    ),
]
Combine = Annotated[
    Literal["prob", "logprob"] | None,
    typer.Option(
        help="How the models of an ensemble are combined: by the mean of their probabilities (prob) or of their "
        "log-probabilities (logprob).  [default: prob]",
        show_default=False,
    ),
]
DataFolder = Annotated[Path, typer.Option("--data", "-d", help="Data folder made by nmtkit prep.")]
Device = Annotated[
    str, typer.Option(help="Device to run on: cpu, cuda, cuda:1, ..., or auto for a GPU if there is one.")
]
ErrorTypes = Annotated[
    list[str] | None, typer.Option("--type", help="Use only contrastive errors of this type; may be repeated.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Number of processes.  [default: one per core]", show_default=False),
]
JobsOfSearch = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, help="Number of processes.  [default: one per core, or 1 on a GPU]", show_default=False
    ),
]
ReplaceUnk = Annotated[
    bool,
    typer.Option(
        "--replace-unk",
        help="Replace unknown words by their translation in the lexicon, or else by a copy of the source word.",
    ),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Leave pairs with more tokens than this on either side out of the cross-entropy.",
        show_default=False,
    ),
]
ModelFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--model",
        "-m",
        help="Model folder; give the option several times for an ensemble.  [default: run]",
        show_default=False,
    ),
]
OneModel = Annotated[Path, typer.Option("--model", "-m", help="Model folder.")]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16", "int8"],
    typer.Option(
        help="Number format of the products in search: auto is bfloat16 where the device multiplies it faster, else "
        "float32; int8 is for CPUs."
    ),
]
Raw = Annotated[
    Path, typer.Option(help="Folder with {train,dev,test}.LANGUAGE or {train,dev,test}.SRC-TGT.tsv; also .gz and .zst.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one value of the configuration; may be repeated."),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option(
        "--src-lang", "-s", help="Source language: en, de, ...  [default: from the file names]", show_default=False
    ),
]
SubsetMetric = Annotated[
    str, typer.Option(help="Metric for parts of the test set: any column of the first table that nmtkit score prints.")
]
TargetLanguage = Annotated[
    str | None,
    typer.Option(
        "--tgt-lang", "-t", help="Target language: en, de, ...  [default: from the file names]", show_default=False
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="Weights of the models of an ensemble, one number for each, such as 2,1,1.  [default: equal weights]",
        show_default=False,
    ),
]

# Of search.
BeamSize = Annotated[
    int | None, typer.Option("--beam-size", "-b", min=1, help="Number of hypotheses kept for each sentence.")
]
LengthPenalty = Annotated[
    Literal["none", "avg", "gnmt", "power"] | None,
    typer.Option(
        help="Rank hypotheses by log P (none), log P / |y| (avg), log P / ((5 + |y|) / 6)^alpha (gnmt), or log P "
        "/ |y|^alpha (power)."
    ),
]
Alpha = Annotated[float | None, typer.Option(min=0.0, help="Exponent of the length penalties gnmt and power.")]
CoveragePenalty = Annotated[
    float | None,
    typer.Option(min=0.0, help="Weight of the penalty for source words without attention: beta in Wu et al. 2016."),
]
MaxLenA = Annotated[
    float | None, typer.Option(min=0.0, help="A translation has at most A * source words + B words; this is A.")
]
MaxLenB = Annotated[
    int | None, typer.Option(min=1, help="A translation has at most A * source words + B words; this is B.")
]
Stop = Annotated[
    Literal["all", "bound", "first"] | None,
    typer.Option(
        help="When to end the search for a sentence: when no better translation is possible (all), or when none would "
        "be found if unfinished hypotheses grew by a few words at most (bound: the setting of new models), or ended "
        "now (first)."
    ),
]
UnkOrigin = Annotated[
    Literal["matched", "papers"] | None,
    typer.Option(
        show_default=False,
        help="How to find the source word of an unknown word: by attention alone (papers), or among the source words "
        "whose translation is not in the target vocabulary (matched).  [default: matched]",
    ),
]
LexiconFile = Annotated[
    Path | None, typer.Option(show_default=False, help="Lexicon made by nmtkit align.  [default: the model's own]")
]
Shortlist = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Choose among the N most frequent target words and the lexicon's translations of the source only.",
    ),
]
MaxInputLength = Annotated[
    int | None,
    typer.Option(
        min=1, show_default=False, help="Translate a line of more tokens than this in pieces.  [default: 250]"
    ),
]


def presets(incomplete: str) -> list[str]:
    """The presets whose names begin like this, in their small forms too, for the shell's completion."""
    from nmtkit.experiment.presets import SMALL, preset_names

    names = preset_names()
    return [name for name in (*names, *(name + SMALL for name in names)) if name.startswith(incomplete)]


def say_next(command: str, *options: tuple[str, Path, str]) -> None:
    """Say on stderr which command comes next, as in "next: nmtkit vocab -d other".

    options: of that command, each with the folder to give it and the one that it takes when none is given.
    """
    given = "".join(f" {name} {shlex.quote(str(path))}" for name, path, default in options if path != Path(default))
    log.info(f"next: nmtkit {command}{given}")


def say_next_of_model(folder: Path) -> None:
    """Say on stderr what comes next for a finished model: to score the test set if there is one, else to translate."""
    if Path("data/test.src").exists():
        say_next("score", ("-m", folder, "run"))
    else:
        log.info(f"next: nmtkit translate -m {shlex.quote(str(folder))} < in.txt > out.txt")


def beside_lines(lines: Iterable[T], path: Path, input: str) -> Iterator[tuple[T, str]]:
    """Each line with the line of ``path`` that belongs to it; raises UserError where either ends first."""
    # Not zip(strict=True): the message names the file and the line, and the input may be a dialogue without an end.
    others, number = read_lines(path), 0
    place = "standard input" if input == "-" else input
    # One line ahead of neither: what comes from a dialogue is answered before the next line is read.
    for line in lines:
        other = next(others, None)
        if other is None:
            raise UserError(f"{path}: ends after {number} lines, but {place} goes on; make them correspond")
        number += 1
        yield line, other
    if next(others, None) is not None:
        raise UserError(f"{path}: has more lines than the {number} of {place}; make them correspond")


def check_output(option: str, output: Path | str, *inputs: Path | str) -> None:
    """Raise UserError if a file that is read, "-" for standard input, would be replaced by the option's output."""
    if not os.path.isfile(output):
        return
    for path in inputs:
        read: Path | int = file_of(path)[0]  # text.tsv:2 is a column of text.tsv
        if str(path) == "-":
            if sys.stdin is None:  # which whoever reads it will say
                continue
            read = sys.stdin.fileno()  # `< f` with `-o f` is the same mistake
        elif not os.path.exists(read):
            continue
        if os.path.samestat(os.stat(read), os.stat(output)):
            raise UserError(f"{option} {output}: is read, too, and would be replaced; name another file")


@contextmanager
def open_output(output: str) -> Iterator[TextIO]:
    """The output as a text file, in UTF-8 whatever the locale; "-" is standard output.

    Standard output fills as translations come; a file appears when it is complete.
    """
    if output == "-":
        # A line ends in \n on every system, and what cannot be encoded must not end a long translation.
        cast(io.TextIOWrapper, sys.stdout).reconfigure(encoding="utf-8", errors="replace", newline="\n")
        yield sys.stdout
    else:
        with atomic_write(output) as file:
            yield file


def forget_output() -> None:
    """Send what is left for stdout nowhere: Python flushes it once more at its end, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse_weights(text: str | None) -> tuple[float, ...] | None:
    """``2,1,1`` as numbers, whatever they are worth; raises UserError for anything else."""
    if text is None:
        return None
    try:
        return tuple(float(weight) for weight in text.split(","))
    except ValueError:
        raise UserError(f"--weights {text}: expected one number for each model, as 2,1,1") from None


@contextmanager
def lines_done(shown: bool) -> Iterator[Callable[[int], None]]:
    """A function that shows, while a text is translated, how many lines are done."""
    if not shown:
        yield lambda lines: None
        return
    from rich.console import Console

    # The wall clock may be set while a long text is translated.
    start = time.monotonic()
    with Console(stderr=True).status("translating") as status:
        yield lambda lines: status.update(
            f"{lines} lines translated, {lines / (time.monotonic() - start):.0f} a second"
        )
