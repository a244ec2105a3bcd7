"""``nmtkit train``: train a preset; the same command again goes on where it stopped."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nmtkit.config import dump_yaml, load_yaml, merge, parse_settings, parse_yaml, to_dict
from nmtkit.errors import UserError
from nmtkit.training.folder import ModelFolder

if TYPE_CHECKING:
    from nmtkit.experiment.schema import Experiment

log = logging.getLogger(__name__)


def train(
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Preset; `nmtkit models` lists them. A run that goes on needs none."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML file whose values replace the preset's.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace one value; may be repeated.")
    ] = None,
    data: Annotated[Path, typer.Option("--data", "-d", help="Data folder made by prep and vocab.")] = Path("data"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder.")] = Path("run"),
    max_tokens: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="Of a batch, padding included; auto: as many as keep this machine busy."),
    ] = None,
    max_updates: Annotated[int | None, typer.Option(help="Stop after this many updates.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Stop after this many passes over the data.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after this many validations without improvement.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of initial weights, data order and dropout.")] = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"] | None,
        typer.Option(help="Of products. auto: bfloat16 where this processor is faster with it.", show_default="auto"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the configuration and parameter counts, then stop.")
    ] = False,
) -> None:
    """Train a model on a data folder. The same command again resumes; Ctrl-C stops after the current update.

    Values come from the preset, then --config, then the command line.

      nmtkit train --model deep-att
      nmtkit train --model rnnsearch --config small.yaml --set training.optimizer.lr=5e-4
      nmtkit train --model deep-att --dry-run

      torchrun --nproc-per-node 4 -m nmtkit train --model deep-att

    The last one shares every batch between 4 processes, on as many GPUs or, without any, on the processor's cores.
    """
    flags: dict[str, Any] = {
        "max_updates": max_updates,
        "max_epochs": max_epochs,
        "patience": patience,
        "seed": seed,
        "precision": precision,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    if max_tokens is not None:
        given |= {"batch_tokens": parse_yaml(max_tokens, "--max-tokens"), "batch_sentences": None}
    values = merge(_base(model, config, output), parse_settings(settings or []))
    values = merge(values, {"training": given}) if given else values

    from nmtkit.experiment.run import run_experiment
    from nmtkit.experiment.schema import build_experiment

    planned = build_experiment(values, _where(model, config, output))
    if dry_run:
        print(dump_yaml(to_dict(planned)))
        _print_sizes(planned, data)
        return
    from nmtkit.training import distributed
    from nmtkit.translation.loading import choose_device

    with distributed.processes(choose_device(device)) as chosen, _log_to(output, distributed.rank()):
        progress = run_experiment(planned, data, output, chosen)
        outcome = f"finished ({progress.finished})" if progress.finished else "stopped"
        best = "".join(f"; best {planned.training.ranked_by} {v:.2f} at {int(u)}" for u, v, _ in progress.best[:1])
        log.info("%s after update %d%s", outcome, progress.update, best)


def _print_sizes(planned: "Experiment", data: Path) -> None:
    """Parameters by part with this data's vocabularies, and in all beside what the paper says."""
    from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes

    words, paper_words = vocabulary_sizes(planned, data), (planned.data.src_vocab, planned.data.tgt_vocab)
    counts = parameters_by_part(planned, *words)
    counts["total with the paper's words"] = parameters_by_part(planned, *paper_words)["total"]
    print("{:<30}{:,} source, {:,} target; in the paper {:,} and {:,}".format("words", *words, *paper_words))
    for part, count in counts.items():
        print(f"{part:<30}{count / 1e6:>10.2f} M")
    stated = planned.paper.parameters
    print(f"{'the paper says':<30}" + ("nothing" if stated is None else f"{stated:>10g} M"))


def _base(model: str | None, config: Path | None, output: Path) -> dict[str, Any]:
    """The preset with the user's file over it; without either, the configuration of the run that goes on."""
    from nmtkit.experiment.presets import load_preset

    over = load_yaml(config) if config else {}
    if model is not None:
        return merge(load_preset(model), over)
    if config is None and not ModelFolder(output).config.exists():
        raise UserError("which model? give a preset with --model NAME; `nmtkit models` lists them")
    return over if config else load_yaml(ModelFolder(output).config)


def _where(model: str | None, config: Path | None, output: Path) -> str:
    """The sources of the values, for error messages."""
    names = [name for name in (model, str(config) if config else None) if name]
    return " + ".join(names) or str(ModelFolder(output).config)


@contextmanager
def _log_to(folder: Path, rank: int) -> Iterator[None]:
    """Log lines go to train.log and to stderr, on a terminal through rich so that they stand above the progress bar.

    Of many processes only the first one, of rank 0, logs.
    """
    if rank:
        yield
        return
    screen: logging.Handler = logging.StreamHandler()
    if sys.stderr.isatty():
        from rich.logging import RichHandler

        from nmtkit.training.display import CONSOLE  # the bar's own: log lines stand above it

        screen = RichHandler(console=CONSOLE, show_path=False, show_level=False, log_time_format="%H:%M:%S")
    # The file comes with the first line, when the configuration has been found good and the folder is there.
    file = logging.FileHandler(ModelFolder(folder).log, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.raiseExceptions = False  # a full disk is reported once, by what cannot do without it
    logger = logging.getLogger("nmtkit")
    logger.setLevel(logging.INFO)
    for handler in (screen, file):
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in (screen, file):
            logger.removeHandler(handler)
            handler.close()
