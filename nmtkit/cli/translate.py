"""``nmtkit translate``: a filter from raw text to plain translations, one line out for every line in."""

import contextlib
import itertools
import json
import math
import multiprocessing
import os
import select
import sys
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from nmtkit.align.lexicon import load_lexicon
from nmtkit.align.pharaoh import format_links
from nmtkit.cli.options import beside_lines, open_output
from nmtkit.data.parallel import Workers, available_cores
from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, decode_line, raw_lines

if TYPE_CHECKING:
    from nmtkit.api import Translation, Translator

SHARED_WINDOW = 256  # lines that a process is given at once; fewer at hand are not worth starting processes
PAUSE = 0.1  # seconds: someone who has not sent the next line by then wants the answers so far
WARNINGS = 5  # about lines that are not UTF-8


def translate(
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="Model folder [run]; several are an ensemble.")
    ] = None,
    input: Annotated[str, typer.Option("--input", "-i", help="File to translate (.gz and .zst too).")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File for the translations.")] = "-",
    beam_size: Annotated[int | None, typer.Option("--beam-size", "-b", min=1, help="Hypotheses kept.")] = None,
    length_penalty: Annotated[
        Literal["none", "avg", "gnmt"] | None,
        typer.Option(help="Rank by log P, by log P / |y|, or by log P / ((5 + |y|) / 6)^alpha."),
    ] = None,
    alpha: Annotated[float | None, typer.Option(min=0.0, help="The alpha of --length-penalty gnmt.")] = None,
    coverage_penalty: Annotated[
        float | None, typer.Option(min=0.0, help="The beta of Wu et al. 2016: how much unread source words cost.")
    ] = None,
    max_len_a: Annotated[
        float | None, typer.Option(min=0.0, help="A translation has at most A words for every source word ...")
    ] = None,
    max_len_b: Annotated[int | None, typer.Option(min=1, help="... and B more.")] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Write the N best of each line as 'line ||| text ||| score'.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw from the model's distribution instead of searching the best.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of --sample.")] = 1,
    prefix: Annotated[
        Path | None, typer.Option(help="File that says, line by line, how the translation must begin.")
    ] = None,
    score_reference: Annotated[
        Path | None, typer.Option(help="File of translations to score, line by line, instead of translating.")
    ] = None,
    scores: Annotated[
        Literal["none", "sentence", "token"],
        typer.Option(help="sentence: the score and a tab before each translation. token: also a tab and the tokens'."),
    ] = "none",
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Write a tab and 'source-target' word pairs after each translation.")
    ] = False,
    attention: Annotated[
        Path | None, typer.Option(help="File (.npz) for the attention matrix of each translation, and its tokens.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON object for each translation.")] = False,
    replace_unk: Annotated[
        bool, typer.Option("--replace-unk", help="Translate unknown words by the model's lexicon, or copy them.")
    ] = False,
    lexicon: Annotated[
        Path | None,
        typer.Option(help="For --replace-unk and --shortlist: this one of nmtkit align instead of the model's own."),
    ] = None,
    shortlist: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Use only the N most frequent target words and the lexicon's translations of the words in a batch.",
        ),
    ] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Read and write tokens, segmented as in the data folder.")
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Batch size: source tokens times beam. Less needs less memory.")
    ] = None,
    combine: Annotated[
        Literal["prob", "logprob"] | None,
        typer.Option(help="Of an ensemble: the mean of probabilities [prob], or of their logarithms."),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Of an ensemble: one number for each model, as 2,1,1.")] = None,
    precision: Annotated[
        Literal["float32", "int8"],
        typer.Option(help="int8: the output layer in 8-bit integers, for speed on a CPU."),
    ] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes for a long text.  [default: one per core; 1 on a GPU]", show_default=False),
    ] = None,
) -> None:
    """Translate text: one line out for every line in, in order; a blank line for a blank line.

      nmtkit translate < in.txt > out.txt

      zcat big.gz | nmtkit translate --beam-size 10 --scores sentence | cut -f1

      nmtkit translate -m one -m two -m three < in.txt > out.txt

      nmtkit translate --score-reference out.txt --scores token < in.txt

    Search settings that are not given are those the model was trained with. A score is the log-probability (base
    e) under the penalties; that of a token is its bare log-probability, the end mark's comes last. Word pairs count
    from 0, in tokenised words (in tokens with --tokenized); a word for which the model looked nowhere has none. In
    an n-best list the lines count from 0 and the word pairs are a fourth field. A line is sampled alike wherever it
    stands. The arrays of --attention are N.attention (target tokens, source tokens), N.source and N.target of line N,
    counted from 0, end marks included.

    With --replace-unk, a word that the model writes as unknown is replaced by the translation of a source word in the
    lexicon that nmtkit align made, or else by that source word as it was typed: the one that the model looked at
    most, or, if it was trained on a corpus of nmtkit vocab --unkpos, the one that it names itself.

    With --shortlist, a large vocabulary costs less: a batch is translated with the N most frequent target words, the 20
    best translations that the lexicon has for each of its source words, and those words themselves. The lexicon is of
    whole words, whether the model has BPE or not. Scores are then of probabilities that sum to one over these words,
    and what a line becomes may depend a little on the lines around it.

    Answers are written as soon as the input pauses, so that it works in a dialogue too. A long text is shared by
    several processes.
    """
    if n_best and scores != "none":
        raise UserError("--scores: an n-best list has them already; leave it out")
    if score_reference and (n_best or sample or prefix or alignment or attention or replace_unk):
        raise UserError("--score-reference: only scores; leave --n-best, --sample, --prefix and attention out")
    if score_reference and shortlist is not None:
        raise UserError("--score-reference: scores are of all words; leave --shortlist out")
    if sample and (prefix or alignment or attention or coverage_penalty or replace_unk):
        raise UserError("--sample: does not look and has no prefix; leave --prefix, --alignment and the like out")
    if shortlist is not None and precision == "int8":
        raise UserError("--precision int8: the output layer of a shortlist is in float32; leave one of the two out")
    if lexicon and not replace_unk and shortlist is None:
        raise UserError("--lexicon: is for unknown words or a shortlist; add --replace-unk or --shortlist")
    if attention and n_best:
        raise UserError("--attention: of the best translation only; leave --n-best out")
    typed = input == "-" and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)
    asked: dict[str, Any] = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "alpha": alpha,
        "coverage_penalty": coverage_penalty,
        "max_len_a": max_len_a,
        "max_len_b": max_len_b,
        "max_tokens": max_tokens,
    }
    work = _Work(
        tuple(model or [Path("run")]), device, combine, parse_weights(weights), precision,
        tuple((name, value) for name, value in asked.items() if value is not None),
        n_best or 1, tokenized, alignment, attention is not None, replace_unk, lexicon, shortlist, prefix is not None,
        score_reference is not None, seed if sample else None,
    )  # fmt: skip

    from nmtkit import api  # takes seconds: it imports torch

    translator = _translator(work)
    jobs = jobs or _processes(translator)
    stream = _Stream(_standard_input()) if input == "-" else None
    raw, at_hand = (stream, stream.at_hand) if stream else (raw_lines(input), lambda: True)
    beside = prefix or score_reference
    lines = _decoded(raw, input)
    pairs = beside_lines(lines, beside, input) if beside else ((line, "") for line in lines)
    windows = api.windows(pairs, at_hand, api.LARGEST_WINDOW if jobs == 1 else SHARED_WINDOW)
    # No progress line where it would stand between the translations, or in what is typed.
    shown = sys.stderr.isatty() and not typed and (output != "-" or not sys.stdout.isatty())
    number = 0
    with open_output(output) as file, _arrays(attention) as keep, _progress(shown) as report:
        for found in _answers(work, windows, jobs, at_hand):
            for best in found:
                for translation in best:
                    if as_json:
                        file.write(_object(number, translation) + "\n")
                    elif n_best:
                        file.write(_moses(number, translation) + "\n")
                    else:
                        file.write(_columns(translation, scores) + "\n")
                keep(number, best[0])
                number += 1
            file.flush()
            report(number)


Window: TypeAlias = list[tuple[str, str]]  # lines, each with its prefix or reference


@dataclass(frozen=True)
class _Work:
    """What is to be done with a window of lines; a worker process is sent it, and loads the models itself."""

    models: tuple[Path, ...]
    device: str
    combine: Literal["prob", "logprob"] | None
    weights: tuple[float, ...] | None
    precision: Literal["float32", "int8"]
    search: tuple[tuple[str, Any], ...]  # settings that differ from the model's own
    n_best: int
    tokenized: bool
    alignment: bool
    attention: bool
    replace_unk: bool
    lexicon: Path | None  # instead of the model's own
    shortlist: int | None  # how many frequent words are in it
    has_prefixes: bool
    has_references: bool
    seed: int | None

    def __call__(self, window: Window) -> "list[list[Translation]]":
        lines, others = [line for line, _ in window], [other for _, other in window]
        translator = _translator(self)
        if self.has_references:
            return [[best] for best in translator.forced(lines, others, tokenized=self.tokenized)]
        return translator.n_best(
            lines, self.n_best, tokenized=self.tokenized, alignment=self.alignment, attention=self.attention,
            lexicon=_lexicon(self), prefixes=others if self.has_prefixes else None, seed=self.seed,
        )  # fmt: skip


@lru_cache(maxsize=1)
def _translator(work: _Work) -> "Translator":
    """Raises UserError for models that cannot be used, and settings that do not fit together."""
    import torch

    from nmtkit import api

    if multiprocessing.parent_process():  # each process has a core
        torch.set_num_threads(1)
    translator = api.load(work.models, work.device, work.combine, work.weights, work.precision)
    try:
        search = replace(translator.search, **dict(work.search))
    except ValueError as error:
        raise UserError(f"--{str(error).replace('_', '-')}") from None
    if "alpha" in dict(work.search) and search.length_penalty != "gnmt":
        raise UserError(f"--alpha: without effect on --length-penalty {search.length_penalty}; it belongs to gnmt")
    translator = replace(translator, search=search)
    if work.shortlist is None:
        return translator
    path = work.lexicon or translator.lexicon
    if path is None:
        raise UserError(f"--shortlist: {work.models[0]} has no lexicon; give one of nmtkit align with --lexicon")
    return translator.with_shortlists(work.shortlist, path)


@lru_cache(maxsize=1)
def _lexicon(work: _Work) -> dict[str, str] | None:
    if not work.replace_unk:
        return None
    path = work.lexicon or _translator(work).lexicon
    return load_lexicon(path) if path else {}


def _processes(translator: "Translator") -> int:
    """One on a GPU, else one for each core, as far as half the memory holds their models."""
    if translator.device.type != "cpu":
        return 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(available_cores(), memory // 2 // max(1, translator.model_bytes)))


def _answers(
    work: _Work, windows: Iterator[Window], jobs: int, at_hand: Callable[[], bool]
) -> "Iterator[list[list[Translation]]]":
    """The translations of each window, from this process until there is enough to do for several."""
    for window in windows:
        if jobs == 1 or len(window) < SHARED_WINDOW:
            yield work(window)
            continue
        with Workers(jobs) as workers:
            yield from workers.map(work, itertools.chain([window], windows), at_hand)


def parse_weights(text: str | None) -> tuple[float, ...] | None:
    """``2,1,1`` as numbers; raises UserError for anything else."""
    if text is None:
        return None
    try:
        weights = tuple(float(weight) for weight in text.split(","))
    except ValueError:
        raise UserError(f"--weights {text}: expected one number for each model, as 2,1,1") from None
    for weight in weights:
        if not 0 < weight < math.inf:
            raise UserError(f"--weights {text}: {weight:g} is not a number above 0")
    return weights


def _columns(translation: "Translation", scores: str) -> str:
    """[score TAB] text [TAB token scores] [TAB alignment]: the text may have tabs of its own, no other column has."""
    score = "" if scores == "none" else f"{translation.score:.6f}\t"
    tokens = "\t" + " ".join(f"{each:.6f}" for each in translation.log_probs) if scores == "token" else ""
    pairs = "" if translation.alignment is None else f"\t{format_links(translation.alignment)}"
    return score + translation.text + tokens + pairs


def _moses(number: int, translation: "Translation") -> str:
    pairs = "" if translation.alignment is None else f" ||| {format_links(translation.alignment)}"
    return f"{number} ||| {translation.text} ||| {translation.score:.6f}{pairs}"


def _object(number: int, translation: "Translation") -> str:
    """Everything about a translation but its attention matrix. JSON has no infinity: a score without end is null."""
    values: dict[str, Any] = {
        "line": number,
        "text": translation.text,
        "score": _finite(translation.score),
        "log_prob": _finite(translation.log_prob),
        "tokens": translation.tokens,
        "token_log_probs": [_finite(each) for each in translation.log_probs],
    }
    if translation.alignment is not None:
        values["alignment"] = translation.alignment
    return json.dumps(values, ensure_ascii=False)


def _finite(score: float) -> float | None:
    return round(score, 6) if math.isfinite(score) else None


@contextlib.contextmanager
def _arrays(path: Path | None) -> Iterator[Callable[[int, "Translation"], None]]:
    """A function that adds a translation's attention to an .npz file; one line is held in memory at a time."""
    if path is None:
        yield lambda number, translation: None
        return
    import numpy as np

    with atomic_write(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def keep(number: int, translation: "Translation") -> None:
            source, target = [*translation.source, "</s>"], [*translation.tokens, "</s>"]
            empty = np.zeros((len(target), len(source)), np.float32)  # of a blank line
            arrays = {
                "attention": empty if translation.attention is None else translation.attention,
                "source": np.array(source, np.str_),
                "target": np.array(target, np.str_),
            }
            for name, array in arrays.items():
                with archive.open(f"{number}.{name}.npy", "w") as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

        yield keep


def _standard_input() -> int:
    if sys.stdin is None:
        raise UserError("standard input is closed; give a file with --input")
    return sys.stdin.fileno()


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
