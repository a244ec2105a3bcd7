"""``nmtkit train``: train a preset; the same command again goes on where it stopped."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nmtkit.cli.options import DataFolder, Device, Settings, log, say_next
from nmtkit.config import dump_yaml, load_yaml, merge, parse_settings, parse_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.training.folder import ModelFolder

if TYPE_CHECKING:
    from nmtkit.experiment.schema import Experiment


def train(
    model: Annotated[str | None, typer.Option("--model", "-m",
        help="Preset to train; nmtkit models lists them. Not needed to continue a run.")] = None,
    start: Annotated[Path | None, typer.Option("--from", metavar="FOLDER",
        help="Begin with the weights of this model, and with its configuration unless --model names a preset.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c",
        help="YAML file with values that replace those of the preset.")] = None,
    settings: Settings = None,
    data: DataFolder = Path("data"),
    output: Annotated[Path, typer.Option("--output", "-o",
        help="Model folder to write, or to continue.")] = Path("run"),
    max_tokens: Annotated[str | None, typer.Option(metavar="TOKENS",
        help="Batch size in tokens, padding included; auto finds the size that keeps this machine busy.")] = None,
    max_updates: Annotated[int | None, typer.Option(help="Stop after this many updates.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Stop after this many epochs.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after this many validations without improvement.")] = None,
    seed: Annotated[int | None, typer.Option(
        help="Random seed of the initial weights, the order of the data and dropout.")] = None,
    precision: Annotated[Literal["auto", "float32", "bfloat16"] | None, typer.Option(
        help="Number format of matrix products; auto takes bfloat16 where this device is faster with it.")] = None,
    device: Device = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run",
        help="Print the configuration and parameter counts, then stop.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard",
        help="Also write the history to OUTPUT/tensorboard, for TensorBoard (extra: nmtkit[tensorboard]).")] = False,
    as_json: Annotated[bool, typer.Option("--json",
        help="Print the history on stdout as it comes, a JSON object in each line.")] = False,
) -> None:  # fmt: skip
    """Train a model on a data folder. Ctrl-C stops after the current update, and the same command continues the run.

    The configuration is that of the preset, with the values of --config and then those of the command line in its
    place. Options without a default here have the preset's.

      nmtkit train --model bideep-small
      nmtkit train --model rnnsearch --config mine.yaml --set training.optimizer.lr=5e-4
      nmtkit train --model deep-att --dry-run

      nmtkit train --from run --data data-news --output run-news --set training.optimizer.lr=1e-4

      torchrun --nproc-per-node 4 -m nmtkit train --model deep-att

    --from fine-tunes a model, also one at a checkpoint (run/checkpoints/step-876), on other text: words that it knows
    keep their weights by their spelling, and optimiser and learning rates begin anew. What was taken is shown, and the
    folder is kept in origin.json. nmtkit prep --like prepares the text as the model's.

    A run that goes on may change settings of the optimiser, the schedule, dropout and when to stop with --set; its text
    and sizes, and the order of its data, stay.

    The last command shares every batch between 4 processes, on 4 GPUs or, without a GPU, on the cores of the processor.
    """
    flags: dict[str, Any] = {
        "max_updates": max_updates,
        "max_epochs": max_epochs,
        "patience": patience,
        "seed": seed,
        "precision": precision,
    }
    # Only what was typed: an option that was not given must not replace what the file or --set says.
    given = {key: value for key, value in flags.items() if value is not None}
    # Read as YAML, so that a number is a number and auto is a word; a batch has one kind of limit, so the other goes.
    if max_tokens is not None:
        given |= {"batch_tokens": parse_yaml(max_tokens, "--max-tokens"), "batch_sentences": None}
    values = merge(_base(model, config, output, start), parse_settings(settings or []))
    values = merge(values, {"training": given}) if given else values

    from nmtkit.experiment.plan import examine_plan
    from nmtkit.experiment.run import run_experiment
    from nmtkit.experiment.schema import build_experiment

    planned = build_experiment(values, _where(model, config, output, start))
    if dry_run:
        # The same form as a preset and as a run's config.yaml: it can be kept, changed and trained.
        print(dump_yaml(to_dict(planned)))
        _print_sizes(planned, data)
        return
    from nmtkit.training import distributed
    from nmtkit.translation.loading import choose_device

    # Joined before anything is logged or written, because only the first process does either.
    with distributed.processes(choose_device(device)) as chosen:
        # Before it costs anything; a run that goes on has been told, and one that fine-tunes may be short.
        if start is None and not distributed.rank() and not ModelFolder(output).updates():
            findings = examine_plan(planned, data)
            if findings:
                log.warning(f"this plan can hardly work: {'; '.join(findings)}; {_remedy(model)}")
        with _log_to(output, distributed.rank()), _records(ModelFolder(output), tensorboard, as_json):
            progress = run_experiment(planned, data, output, chosen, start)
            # A run that was stopped by a signal is not finished, and the same command goes on.
            outcome = f"finished ({progress.finished})" if progress.finished else "stopped"
            best = "".join(f"; best {planned.training.ranked_by} {v:.2f} at {int(u)}" for u, v, _ in progress.best[:1])
            log.info("%s after update %d%s", outcome, progress.update, best)
            if as_json and not distributed.rank():
                print(json.dumps({"kind": "end", "update": progress.update, "finished": progress.finished or None}))
            elif progress.finished:
                say_next("average", ("-m", output, "run"))


def _remedy(model: str | None) -> str:
    """What to do about a plan that can hardly work, with the name of the preset's small form if there is one."""
    if model is None or model.endswith("-small"):
        return "more epochs, smaller batches and smaller sizes of the model are for little text"
    return f"`nmtkit train --model {model}-small` is for little text"


@contextmanager
def _records(folder: ModelFolder, tensorboard: bool, as_json: bool) -> Iterator[None]:
    """Pass the records of a run to TensorBoard and, as JSON, to standard output."""
    from nmtkit.training.metrics import RECORDS
    from nmtkit.training.tensorboard import TensorBoard

    handlers: list[logging.Handler] = [TensorBoard(folder)] if tensorboard else []
    handlers += [_JsonLines()] if as_json else []
    level = RECORDS.level
    RECORDS.setLevel(logging.INFO)  # whatever the screen shows
    for handler in handlers:
        RECORDS.addHandler(handler)
    try:
        yield
    finally:
        RECORDS.setLevel(level)
        for handler in handlers:
            RECORDS.removeHandler(handler)
            handler.close()


class _JsonLines(logging.Handler):
    """Prints each record of a run as a JSON object in a line of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record at once: somebody waits for it."""
        print(json.dumps(record.msg), flush=True)


def _print_sizes(planned: "Experiment", data: Path) -> None:
    """Print the parameters of each part with this data's vocabularies, and the total beside what the paper says."""
    from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes

    # A count of parameters means nothing without the vocabularies; both are shown.
    words, paper_words = vocabulary_sizes(planned, data), (planned.data.src_vocab, planned.data.tgt_vocab)
    counts = parameters_by_part(planned, *words)
    counts["total with the paper's words"] = parameters_by_part(planned, *paper_words)["total"]
    print("{:<30}{:,} source, {:,} target; in the paper {:,} and {:,}".format("words", *words, *paper_words))
    for part, count in counts.items():
        print(f"{part:<30}{count / 1e6:>10.2f} M")
    stated = planned.paper.parameters
    print(f"{'the paper says':<30}" + ("nothing" if stated is None else f"{stated:>10g} M"))


def _base(model: str | None, config: Path | None, output: Path, start: Path | None) -> dict[str, Any]:
    """The values of the preset, or else of the run or the model that it begins with, with those of the user's file."""
    from nmtkit.experiment.presets import load_preset

    over, run = load_yaml(config) if config else {}, ModelFolder(output)
    if model is not None:
        return merge(load_preset(model), over)
    if start is not None:
        own = run if run.config.exists() else ModelFolder.at(start)
        own.check()
        return merge(load_yaml(own.config), over)
    if config is None and not run.config.exists():
        raise UserError("which model? give a preset with --model NAME; `nmtkit models` lists them")
    # A file alone is complete: what `nmtkit models NAME` prints, changed, is one.
    return over if config else load_yaml(run.config)


def _where(model: str | None, config: Path | None, output: Path, start: Path | None) -> str:
    """The sources of the values, for error messages."""
    names = [name for name in (model or (start and str(start)), str(config) if config else None) if name]
    return " + ".join(names) or str(ModelFolder(output).config)


@contextmanager
def _log_to(folder: Path, rank: int) -> Iterator[None]:
    """Log lines go to train.log, too. Of many processes only the first one, of rank 0, says more than warnings."""
    logger = logging.getLogger("nmtkit")
    if rank:
        logger.setLevel(logging.WARNING)
        yield
        return
    # The file comes with the first line, when the configuration has been found good and the folder is there.
    file = logging.FileHandler(ModelFolder(folder).log, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.raiseExceptions = False  # a full disk is reported once, by what cannot do without it
    logger.addHandler(file)
    try:
        yield
    finally:
        logger.removeHandler(file)
        file.close()
