"""``nmtkit report``: one page about trained systems."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nmtkit.cli.contrast import measure, read_entries
from nmtkit.cli.options import DataFolder, Device, ErrorTypes, MaxLength, ReplaceUnk, SubsetMetric
from nmtkit.config import load_yaml
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder, TextFiles
from nmtkit.lines import atomic_write
from nmtkit.version import __version__

if TYPE_CHECKING:
    from nmtkit.evaluation.report import History, Look, Sentence
    from nmtkit.translation.testset import Translated


def report(
    models: Annotated[list[Path] | None, typer.Argument(metavar="MODEL", show_default=False,
        help="Model folders, or checkpoint folders such as run/checkpoints/step-876.  [default: run]")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    data: DataFolder = Path("data"),
    lines: Annotated[str | None, typer.Option(show_default=False,
        help="Line numbers in the test set whose attention is drawn, such as 1,17.  [default: the three whose "
        "translations differ most]")] = None,
    count: Annotated[int, typer.Option(min=0,
        help="Number of worst sentences, and of most different ones, to show.")] = 10,
    paired: Annotated[Literal["bs", "ar"], typer.Option(
        help="Significance test against the first model: paired bootstrap (bs) or "
        "approximate randomisation (ar).")] = "bs",
    contrast: Annotated[list[Path] | None, typer.Option(
        help="Contrastive test set, as for nmtkit contrast; may be repeated.")] = None,
    types: ErrorTypes = None,
    checkpoints: Annotated[bool, typer.Option("--checkpoints",
        help="Also evaluate every checkpoint that was kept on the test set.")] = False,
    subset_metric: SubsetMetric = "multi-bleu",
    max_length: MaxLength = None,
    replace_unk: ReplaceUnk = False,
    device: Device = "auto",
) -> None:  # fmt: skip
    """Write a report about models as one self-contained HTML page.

    The page has training curves, metrics, significance, results by sentence length, attention weights, and translations
    side by side. Every model translates the test set of the data folder, and is compared with the first model. The
    page needs no network; it can be sent, printed, and read on a phone. training.keep_last says how many checkpoints a
    run keeps.

      nmtkit report
      nmtkit report run-rnnsearch run-deep-att run-dtmt -o report.html --lines 3,14
      nmtkit report run --checkpoints --contrast lingeval97.json --type subj_verb_agreement
    """
    folders = models or [Path("run")]
    # A model compared with itself has no differences, and two lines of one name in every chart.
    if len(set(folders)) < len(folders):
        raise UserError("a model is named twice; name each once")
    # Without contrastive sets the option would have no effect.
    if types and not contrast:
        raise UserError("--type goes with --contrast")
    entries = read_entries(contrast, (None, None, None), types or []) if contrast else []

    from nmtkit.evaluation.comparison import Compared, compare
    from nmtkit.evaluation.report import most_different, render, sentences, worst
    from nmtkit.translation.testset import translate_held_out

    # First, because a damaged history is found in a moment and translating takes minutes.
    histories = [_history(ModelFolder.at(folder)) for folder in folders]
    translated = [
        translate_held_out(
            folder, data, device, "auto", split="test", max_length=max_length, replace_unk=replace_unk, keep=False
        )
        for folder in folders
    ]
    # After translating, because that is what finds out whether models and data folder fit together.
    histories = [
        replace(
            history,
            test=_test_history(ModelFolder.at(folder), data, t) if checkpoints else [],
            contrast=measure(t.translator, entries) if entries else {},
        )
        for history, folder, t in zip(histories, folders, translated, strict=True)
    ]
    # The folder's name stands in the page; in ``score`` it is the path of its translations.
    systems = [
        replace(t.compared.systems[0], name=history.name) for t, history in zip(translated, histories, strict=True)
    ]
    # A single system has nothing to be compared with, so that no test is made.
    comparison = compare(
        Compared(systems, *translated[0].compared[1:]), paired if len(systems) > 1 else None, False, subset_metric
    )
    said = sentences(translated[0].sources, comparison)
    # Where the systems differ most, a look at their attention is most likely to say why.
    chosen = most_different(said, 3) if lines is None else [said[i - 1] for i in _numbers(lines, len(said))]
    looks = [(sentence, _looks(sentence, translated, histories)) for sentence in chosen]
    subtitle = f"{len(said):,} sentences of {data}; nmtkit {__version__}"
    page = render(histories, comparison, looks, most_different(said, count), worst(said, count), subtitle)
    with atomic_write(output) as file:
        file.write(page)
    print(output)


def _history(folder: ModelFolder) -> "History":
    """The history of a model, or of an ensemble, which has its members' parameters and no training curves of its own.

    Raises UserError for a folder that is neither.
    """
    from nmtkit.evaluation.report import History, read_metrics
    from nmtkit.experiment.schema import build_experiment
    from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes

    if folder.bundle.exists():
        # An ensemble was not trained itself, so that there are no curves; its parameters are those of all its members.
        members = [_history(ModelFolder(path)) for path in sorted(folder.members.iterdir())]
        config = "".join(f"# {member.name}\n{member.config}\n" for member in members)
        kind = f"ensemble of {len(members)}"
        config = f"{folder.bundle.read_text('utf-8')}\n{config}"
        return History(str(folder), kind, None, config, sum(member.parameters for member in members), [], [], [], {})
    folder.check()
    planned = build_experiment(load_yaml(folder.config), str(folder.config))
    parameters = parameters_by_part(planned, *vocabulary_sizes(planned, folder.path))["total"]
    config, rate = folder.config.read_text("utf-8"), planned.training.optimizer.lr
    return History(str(folder), planned.architecture, rate, config, parameters, *read_metrics(folder.metrics), [], {})


def _test_history(folder: ModelFolder, data: Path, translated: "Translated") -> list[dict[str, float]]:
    """Cross-entropy and token errors on the test set, of every checkpoint that was kept (Zhou et al. 2016, Fig. 4).

    An ensemble has none. Raises UserError where the data folder's vocabularies are not the model's.
    """
    import torch

    from nmtkit.data import batches
    from nmtkit.data.corpus import Corpus
    from nmtkit.data.vocab import Vocabulary
    from nmtkit.experiment.model import load_model
    from nmtkit.training.checkpoint import load_into
    from nmtkit.training.validation import teacher_forced

    if folder.bundle.exists():
        return []
    # The corpus is numbers, which mean nothing under other vocabularies: the loss would be wrong, not an error.
    for side in ("src", "tgt"):
        ours, theirs = (TextFiles(path).vocabulary(side) for path in (folder.path, data))
        if Vocabulary.load(ours).words != Vocabulary.load(theirs).words:
            raise UserError(f"{theirs}: not the words of {ours}; give the data folder that it was trained on")
    corpus = Corpus.open(data, "test")
    pairs = batches.within(corpus, None)
    model, experiment = load_model(folder.path, translated.translator.device)
    records: list[dict[str, float]] = []
    for update in folder.updates() if len(pairs) else ():
        # One model into which the weights of each checkpoint are put, not one model for each.
        load_into(model, folder.weights(update))
        loss, errors = teacher_forced(model, corpus, pairs, experiment.training.pass_tokens, torch.float32)
        records.append({"update": update, "cross_entropy": loss, "token_error_rate": errors})
    return records


def _numbers(lines: str, sentences: int) -> list[int]:
    """The line numbers in ``--lines``. Raises UserError for anything that is not the number of a sentence."""
    numbers = [int(part) if re.fullmatch(" *[0-9]{1,9} *", part) else 0 for part in lines.split(",")]
    if not all(1 <= number <= sentences for number in numbers):
        raise UserError(f"--lines {lines}: expected numbers from 1 to {sentences}, with commas")
    return numbers


def _looks(sentence: "Sentence", translated: "list[Translated]", histories: "list[History]") -> "list[Look]":
    """The attention weights of the systems that have any; an empty translation has none."""
    from nmtkit.evaluation.report import Look
    from nmtkit.translation.request import Request

    looks = []
    for t, history in zip(translated, histories, strict=True):
        try:
            [[best]] = t.translator.answer([sentence.source], Request(attention=True))
        except UserError:  # it has no attention
            continue
        if best.attention is not None:
            source, target = ([*tokens, "</s>"] for tokens in (best.source, best.tokens))
            looks.append(Look(history.name, source, target, best.attention))
    return looks
