"""``nmtkit score``: what a number means is printed beside it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress

from nmtkit.data.settings import Side, load_prep
from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, read_lines

if TYPE_CHECKING:
    from nmtkit.evaluation.bleu import Score


class Measured(NamedTuple):
    """A metric of one system, and what it was computed on."""

    metric: str
    on: str
    score: "Score"


class System(NamedTuple):
    path: Path  # of its translations
    measured: list[Measured]


def score(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="HYP... REF", show_default=False, help="Translations, then a reference; - is stdin."),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", "-l", help="Language of the files, for the Moses tokenizer.")
    ] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="The files are words with spaces between: only tokenised BLEU.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
    data: Annotated[Path, typer.Option("--data", "-d", help="Data folder.")] = Path("data"),
    model: Annotated[Path, typer.Option("--model", "-m", help="Model folder.")] = Path("run"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
) -> None:
    """Score translations: BLEU of words as papers have it, BLEU of plain text as sacreBLEU has it, and chrF.

    Without files, translates the test set of data/ with run/ and scores that; the translations stay in run/test.hyp.
    Files are plain text, one sentence a line, in the target language of data/ (or English) unless another is given.

      nmtkit score
      nmtkit score output.txt reference.txt
      nmtkit score one.txt two.txt reference.txt --language de
      nmtkit translate < test.en | nmtkit score - test.de
    """
    if files is None:
        if language or tokenized:
            raise UserError("--language and --tokenized say what files are; give some: nmtkit score HYP... REF")
        ref_path = data / "test.raw.tgt"
        if not ref_path.exists():
            raise UserError(f"{ref_path}: not there; prepare a test set, or give files: nmtkit score HYP... REF")
        refs = _read(ref_path)
        systems = [_score_model(model, device, data / "test.raw.src", refs)]
    else:
        *paths, ref_path = files
        if not paths:
            raise UserError(f"{ref_path}: translations and a reference are needed: nmtkit score HYP... REF")
        refs = _read(ref_path)
        texts = [_read(path) for path in paths]
        for path, hyps in zip(paths, texts, strict=True):
            if len(hyps) != len(refs):
                raise UserError(f"{path} has {len(hyps)} lines but {ref_path} has {len(refs)}; make them correspond")
        if tokenized:
            measured = [_of_words(hyps, refs, "words as given") for hyps in texts]
        else:
            measured = _score_files(paths, texts, refs, language or _target_language(data))
        systems = [System(path, scores) for path, scores in zip(paths, measured, strict=True)]
    print(_json(systems, ref_path, len(refs)) if as_json else _table(systems, ref_path, len(refs)))


def _read(path: Path) -> list[str]:
    lines = list(read_lines(path))
    if not lines:
        raise UserError(f"{path} is empty: there is nothing to score")
    return lines


def _note(text: str) -> None:
    print(f"nmtkit: {text}", file=sys.stderr)


def _score_model(model: Path, device: str, src_path: Path, refs: list[str]) -> System:
    """Translates the test set; tokenised BLEU is counted on the model's own words."""
    from nmtkit import api

    sources = _read(src_path)
    if len(sources) != len(refs):
        raise UserError(f"{src_path} has {len(sources)} lines but its reference has {len(refs)}; run nmtkit prep again")
    translator = api.load(model, device)
    hyp_path = model / "test.hyp"
    _note(f"translating the {len(sources)} lines of {src_path} with {model} into {hyp_path}")
    translations = []
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("translating", total=len(sources))
        for window in api.windows(sources, lambda: True):
            translations += [best[0] for best in translator.n_best(window, 1)]
            progress.advance(task, len(window))
    hyps = [translation.text for translation in translations]
    with atomic_write(hyp_path) as file:
        file.writelines(f"{hyp}\n" for hyp in hyps)

    pipeline = translator.tgt_pipeline
    hyp_words = [" ".join(pipeline.words(translation.tokens)) for translation in translations]
    ref_words = [" ".join(pipeline.truecase(pipeline.tokenize(ref))) for ref in refs]
    return System(hyp_path, _of_words(hyp_words, ref_words, _describe(pipeline.side)) + _of_text(hyps, refs))


def _score_files(
    paths: list[Path], texts: list[list[str]], refs: list[str], language: str | None
) -> list[list[Measured]]:
    from nmtkit.data.text import TextPipeline

    if language is None:
        language = "en"
        _note("tokenised BLEU takes the text for English; --language names another")
    for path, hyps in zip(paths, texts, strict=True):
        if 2 * sum(line.endswith(" .") for line in hyps) > len(hyps):
            _note(f"{path} looks tokenised; if it is, say --tokenized, because plain text is expected here")
    pipeline = TextPipeline(Side(language, normalize=False, segmentation="words"))

    def words(lines: list[str]) -> list[str]:
        return [" ".join(pipeline.tokenize(line)) for line in lines]

    ref_words = words(refs)
    return [_of_words(words(hyps), ref_words, _describe(pipeline.side)) + _of_text(hyps, refs) for hyps in texts]


def _target_language(data: Path) -> str | None:
    return load_prep(data).tgt.language if (data / "prep.yaml").exists() else None


def _describe(side: Side) -> str:
    """What the words of a side are: "Moses words (en, truecased)"."""
    done = {"normalised": side.normalize, "lower-cased": side.lowercase, "truecased": side.truecase}
    kind = "Moses words" if side.tokenizer == "moses" else "words as spaced"
    return f"{kind} ({', '.join([side.language, *(name for name, applied in done.items() if applied)])})"


def _of_words(hyps: list[str], refs: list[str], on: str) -> list[Measured]:
    from nmtkit.evaluation.bleu import multi_bleu

    return [
        Measured("multi-bleu", on, multi_bleu(hyps, refs, lowercase=False)),
        Measured("multi-bleu-lc", f"{on}, lower-cased", multi_bleu(hyps, refs, lowercase=True)),
    ]


def _of_text(hyps: list[str], refs: list[str]) -> list[Measured]:
    from nmtkit.evaluation.bleu import chrf2, sacrebleu_13a

    return [
        Measured("sacreBLEU-13a", "plain text", sacrebleu_13a(hyps, refs)),
        Measured("chrF2", "plain text", chrf2(hyps, refs)),
    ]


def _table(systems: list[System], ref_path: Path, sentences: int) -> str:
    """A line per system, then a line per metric that says what it is."""
    metrics = systems[0].measured
    scores = [["", *(m.metric for m in metrics)]]
    scores += [[str(path), *(f"{m.score.value:.2f}" for m in measured)] for path, measured in systems]
    meanings = [[m.metric, f"of {m.on}", m.score.signature] for m in metrics]
    parts = [f"{sentences} sentences, reference {ref_path}"], _align(scores, str.rjust), _align(meanings, str.ljust)
    return "\n\n".join("\n".join(part) for part in parts)


def _align(rows: list[list[str]], justify: Callable[[str, int], str]) -> list[str]:
    """Rows of cells as lines of columns; names, which come first, are always on the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(justify, row[1:], widths[1:])]).rstrip() for row in rows]


def _json(systems: list[System], ref_path: Path, sentences: int) -> str:
    scored = [
        {
            "hypothesis": str(path),
            "scores": {
                metric: {"score": score.value, "computed_on": on, "signature": score.signature}
                for metric, on, score in measured
            },
        }
        for path, measured in systems
    ]
    report = {"reference": str(ref_path), "sentences": sentences, "systems": scored}
    return json.dumps(report, indent=2, ensure_ascii=False)
