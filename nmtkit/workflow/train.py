"""``train``: training of a preset on a data folder, from random weights or those of a model; or resuming a run."""

import logging
import threading
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nmtkit.config import load_yaml, merge, parse_yaml
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder, check_regular
from nmtkit.options import Option, by_keyword, option
from nmtkit.translation.request import SPEED
from nmtkit.workflow.shared import CONFIGURATION, DATA, DEVICE, Settings, logged, nested_settings, presets

if TYPE_CHECKING:
    from nmtkit.experiment.schema import Experiment
    from nmtkit.training.progress import Progress

log = logging.getLogger(__name__)

_TRAINING = threading.Lock()  # of this process

LONG, HISTORY = "Stopping", "History"  # groups of the help


# fmt: off
@dataclass(frozen=True)
class TrainOptions:
    """The options of ``train``, in the order of its help. Those that are also settings override the configuration."""

    model: str | None = option(None, Option(
        "Preset to train; nmtkit models lists them.  [default: small, which is nematus-low-resource-small or, from "
        "250,000 target tokens on, nematus-low-resource-250k-small]",
        names="--model -m", complete=presets))
    _: KW_ONLY
    start: Path | str | None = option(None, Option(
        "Start from the weights of this model, and from its configuration unless --model names a preset.",
        names="--from", metavar="FOLDER"))
    config: Path | str | None = option(None, Option(
        "YAML file with values that override the preset's.", names="--config -c"))
    settings: Settings = option((), CONFIGURATION)
    data: Path | str = option("data", DATA)
    output: Path | str = option("run", Option("Model folder to write, or to continue.", names="--output -o"))
    max_updates: int | None = option(None, Option("Stop after this many updates.", LONG))
    max_epochs: int | None = option(None, Option("Stop after this many epochs.", LONG))
    patience: int | None = option(None, Option("Stop after this many validations without improvement.", LONG))
    max_tokens: int | Literal["auto"] | None = option(None, Option(
        "Batch size in tokens, padding included; auto finds the size that keeps this machine busy.", SPEED,
        metavar="TOKENS"))
    seed: int | None = option(None, Option(
        "Random seed for the initial weights, the order of the data and dropout."))
    precision: Literal["auto", "float32", "bfloat16"] | None = option(None, Option(
        "Number format of matrix products; auto chooses bfloat16 if it is faster on this device.", SPEED))
    device: str = option("auto", DEVICE.within(SPEED))
    tensorboard: bool = option(False, Option(
        "Also write the history to OUTPUT/tensorboard, for TensorBoard (needs nmtkit[tensorboard]).", HISTORY))
    records: logging.Handler | None = None
# fmt: on


def run(options: TrainOptions) -> "Progress":
    """Train a preset on a data folder, or resume the run in the folder ``output``: ``nmtkit train``.

    settings: values by dotted keys. Other arguments that are None have the preset's value. records: a handler for the
    records of the history and of the end of the run. Returns the progress of the run. PyTorch's random numbers, and
    its number of threads on a CPU, are changed. Raises UserError for settings that do not suit the data and while this
    process trains in another thread, and KeyboardInterrupt, with everything saved, after Ctrl-C.
    """
    if not _TRAINING.acquire(blocking=False):
        raise UserError("this process is already training a model; start another process")
    with ExitStack() as stack:
        stack.callback(_TRAINING.release)
        experiment = plan(options)
        from nmtkit.experiment.plan import examine_plan
        from nmtkit.experiment.run import run_experiment
        from nmtkit.text.raw import has_training_text
        from nmtkit.training import distributed
        from nmtkit.training.metrics import RECORDS
        from nmtkit.training.tensorboard import TensorBoard
        from nmtkit.translation.loading import choose_device

        folder, begin = ModelFolder(Path(options.output)), None if options.start is None else Path(options.start)
        data, records = Path(options.data), options.records
        if (folder.path / "manifest.json").exists():
            raise UserError(f"`output` {folder}: is a data folder; name another one")
        if not folder.config.exists() and has_training_text(folder.path):
            raise UserError(f"`output` {folder}: is the folder of the raw text; name another one")
        # First, because only one of several processes logs and writes.
        device = stack.enter_context(distributed.processes(choose_device(options.device)))
        first = not distributed.rank()
        # A resumed run was already warned, and fine-tuning may be short.
        if begin is None and first and not folder.updates() and (findings := examine_plan(experiment, data)):
            log.warning(f"this run is unlikely to work: {'; '.join(findings)}; {_remedy(options.model)}")
        board = TensorBoard(folder) if options.tensorboard else None
        stack.enter_context(_log_to(folder, first))
        handlers = [handler for handler in (board, records) if handler is not None]
        stack.enter_context(logged(RECORDS, logging.INFO, handlers))
        progress = run_experiment(experiment, data, folder.path, device, begin)
        if board is not None and first:
            board.complete()  # a run that was finished before adds no record
        outcome = f"finished ({progress.finished})" if progress.finished else "stopped"
        best = progress.best_shown(experiment.training)
        best = best and f"; {best} at {int(progress.best[0][0])}"
        log.info("%s after update %d%s", outcome, progress.update, best)
        if records is not None and first:
            end = {"kind": "end", "update": progress.update, "finished": progress.finished or None}
            records.emit(logging.makeLogRecord({"msg": end}))
    return progress


train = by_keyword(TrainOptions, run, "train")


def _remedy(model: str | None) -> str:
    """Advice for a run that is unlikely to work."""
    if model is None or model.endswith("-small"):
        return "with a small corpus, use more epochs, smaller batches and a smaller model"
    return f"`nmtkit train --model {model}-small` is for small corpora"


def plan(options: TrainOptions) -> "Experiment":
    """The experiment that ``run`` would train with these options. Raises UserError if it is invalid."""
    from nmtkit.data.corpus import training_tokens
    from nmtkit.experiment.presets import default_preset
    from nmtkit.experiment.schema import build_experiment
    from nmtkit.training.settings import Training

    # Only options that were given override the configuration.
    names = [field.name for field in fields(Training)]
    given = {name: value for name, value in vars(options).items() if name in names and value is not None}
    if options.max_tokens is not None:
        budget = parse_yaml(str(options.max_tokens), "`max_tokens`")  # the command line has text
        if budget is None:
            raise UserError(f"`max_tokens` {options.max_tokens!r}: neither a number of tokens nor auto")
        given |= {"batch_tokens": budget, "batch_sentences": None}  # a batch has one limit only
    begin, file = (None if path is None else Path(path) for path in (options.start, options.config))
    output, model = Path(options.output), options.model
    over = load_yaml(file) if file else {}  # once, because it may be a pipe
    if model == "small" or not (model or begin or "architecture" in over or ModelFolder(output).config.exists()):
        tokens = training_tokens(Path(options.data))
        model = default_preset(tokens)
        text = f"{tokens:,} target tokens" if tokens else "text that is not encoded yet"
        log.info("model: %s, the default for %s; `nmtkit models` lists the others", model, text)
    changed = nested_settings(options.settings)
    values = merge(_base(model, over, output, begin), changed)
    values = merge(values, {"training": given}) if given else values
    sources = [name for name in (model or (begin and str(begin)), file and str(file)) if name]
    sources = sources or [str(ModelFolder(output).config)]
    sources += [*(["`settings`"] if options.settings else []), *(["options"] if given else [])]
    planned = build_experiment(values, " + ".join(sources))
    for part in ("paper", "data"):
        if part in changed:
            raise UserError(f"{part}: describes the published system and has no effect on a run; leave it out")
    if "alpha" in changed.get("search", {}) and not planned.search.uses_alpha:
        penalty = planned.search.length_penalty
        raise UserError(f"search.alpha: `search.length_penalty` {penalty} does not use it; only gnmt and power do")
    return planned


def _base(model: str | None, over: dict[str, Any], output: Path, start: Path | None) -> dict[str, Any]:
    """The values of the preset, or of the run, or of the model to start from, overridden by those of the user's file.

    A file with an ``architecture`` is a complete configuration, like the output of `nmtkit models NAME`.
    """
    from nmtkit.experiment.presets import load_preset

    run = ModelFolder(output)
    if model is not None:
        return merge(load_preset(model), over)
    if start is not None:
        own = run if run.updates() else ModelFolder.at(start)  # a run that failed early has nothing to resume
        own.check()
        return merge(load_yaml(own.config), over)
    if "architecture" in over:
        return over
    check_regular(run.path)
    if run.origin.exists() and not run.updates():  # it would continue with random weights
        raise UserError(f"{run}: the run there began with another model and has no checkpoint; give `start` again")
    return merge(load_yaml(run.config), over)


class _LogFile(logging.FileHandler):
    """A log file that ignores a full disk."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Print nothing: a full disk is reported when a checkpoint cannot be written."""

    def close(self) -> None:
        """Close the file without the lines for which there was no space."""
        with suppress(OSError):
            super().close()


def _log_to(folder: ModelFolder, first: bool) -> AbstractContextManager[None]:
    """Also log to train.log. All processes but the first log warnings only."""
    logger = logging.getLogger("nmtkit")
    if not first:
        return logged(logger, logging.WARNING, [])
    # The file is opened for the first line, when the folder exists.
    file = _LogFile(folder.log, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    # Where no handler shows records, Python prints warnings and errors itself, but not if the file has a handler.
    shown = [] if logger.hasHandlers() or logging.lastResort is None else [logging.lastResort]
    # Python's default level shows warnings only.
    return logged(logger, min(logger.getEffectiveLevel(), logging.INFO), [file, *shown])
