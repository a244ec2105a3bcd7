"""Training: one function from the first batch to the last checkpoint.

Each process makes every update with its share of the batch, and only the first one writes files.
"""

import logging
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from nmtkit.data.batches import Batch, Epoch
from nmtkit.errors import counted
from nmtkit.training import checkpoint, distributed, metrics
from nmtkit.training.diagnosis import check_gradient
from nmtkit.training.display import Display, display
from nmtkit.training.gradient import accumulate, clip, micro_batches, read
from nmtkit.training.optimizers import set_rates
from nmtkit.training.progress import Window
from nmtkit.training.run import Run
from nmtkit.training.settings import METRICS, Metric
from nmtkit.training.signals import stop_signals
from nmtkit.training.validation import Validation, decisive

log = logging.getLogger(__name__)


def train(run: Run, validate: Callable[[], Validation]) -> None:
    """Train from ``run.progress`` until a stopping criterion of the settings is met or a signal arrives.

    Raises KeyboardInterrupt, with everything saved, after Ctrl-C.
    """
    settings, progress = run.settings, run.progress
    epoch = run.epoch()  # a resumed run continues its epoch in the same order
    if epoch.pairs < len(run.corpus):
        used = counted(epoch.pairs, "pair") + " and concatenations together" * (run.corpus.pairs < len(run.corpus))
        log.info("training on %s; %d left out: empty, or longer than %s tokens",
                 used, len(run.corpus) - epoch.pairs, settings.max_length)  # fmt: skip
    saved = time.monotonic()  # the last checkpoint
    ahead: list[Batch] = []  # micro-batches of the next update
    with stop_signals() as received, _display(run, epoch) as shown:
        # A run killed after its checkpoint has yet to be validated.
        validation = _validate(run, validate, shown) if progress.is_due(settings) else None  # the last one
        stop = 0 if validation is None else _stop(received)
        while not (progress.finished or stop):
            assert progress.batch < len(epoch), "the data are not those of this run"
            rows, started = epoch[progress.batch], time.perf_counter()
            progress.update += 1
            progress.batch += 1
            run.seed_dropout()
            set_rates(run.optimizer, run.rate)
            sums = accumulate(run, rows, ahead or micro_batches(run, rows))
            clipped = clip(run.model, run.clip_limit)
            # While a GPU computes this update, the host prepares the next one.
            ahead = micro_batches(run, epoch[progress.batch]) if progress.batch < len(epoch) else []
            gradient = read(sums, clipped)
            check_gradient(run, rows, gradient)  # before a NaN reaches the weights
            run.optimizer.step()
            seconds = time.perf_counter() - started
            progress.add(gradient, seconds)
            log.debug("update %d: %d sentences, loss %.3f, gradient norm %.3g, %.2f s",
                      progress.update, len(rows), gradient.nll / gradient.tokens, gradient.norm, seconds)  # fmt: skip
            shown.show(progress.update, _facts(run, validation))

            epoch_ended = progress.batch == len(epoch)
            if epoch_ended:
                _end_epoch(run, epoch)
            progress.finished = progress.end(settings)
            due = progress.is_due(settings)
            # For epochs that take hours; the checkpoint is not validated, so the next one replaces it.
            by_clock = settings.save_every is not None and time.monotonic() - saved >= 60 * settings.save_every
            if due or by_clock:
                _save(run)
                if due:  # after the checkpoint, because a validation may fail
                    validation = _validate(run, validate, shown)
                saved = time.monotonic()
            stop = _stop(received)
            if epoch_ended and not (progress.finished or stop):
                run = run.with_concatenations()
                epoch = run.epoch()
                shown.total = _most_updates(run, epoch)
        if progress.update not in run.folder.updates():  # stopped by a signal between two validations
            _save(run)
    if stop == signal.SIGINT:
        log.info("stopped after update %d", progress.update)
        raise KeyboardInterrupt  # so that a script does not continue with a half-trained model


def _stop(received: list[int]) -> int:
    """The highest number of the signals received by any process, so that all agree; 0 if there is none."""
    return distributed.highest(max(received, default=0))


def _display(run: Run, epoch: Epoch) -> AbstractContextManager[Display]:
    """The progress line of this start."""
    early = bool(run.settings.patience or run.settings.min_lr)
    return display(_most_updates(run, epoch), run.progress.update, early=early)


def _most_updates(run: Run, epoch: Epoch) -> int | None:
    """The maximum number of updates of the run if all further epochs are as long as this one; None if not known."""
    progress = run.progress
    return run.settings.most_updates(len(epoch), progress.epoch, progress.update - progress.batch)


def _end_epoch(run: Run, epoch: Epoch) -> None:
    """Count the epoch, and log the figures of its batches."""
    progress = run.progress
    progress.epoch, progress.batch = progress.epoch + 1, 0
    _log(run, metrics.epoch_record(progress, epoch))
    # Only once, because epochs hardly differ; the history has the figures of each.
    if progress.epoch == 1:
        log.info("an epoch has %s; %.1f %% of it is padding", counted(len(epoch), "update"), 100 * epoch.padding)


def _validate(run: Run, validate: Callable[[], Validation], shown: Display) -> Validation:
    """Validate, and update learning rate, patience and the best checkpoints; returns the result.

    The new progress is added to the checkpoint, which is already written.
    """
    progress, started = run.progress, time.perf_counter()
    shown.show(progress.update, "validating")
    # Before ``judge`` may change the rate.
    trained = metrics.train_record(progress, run.rate, run.settings.optimizer.lr)
    progress.window = Window()
    validation = validate()
    improved = progress.judge(validation, run.settings, regular=progress.is_regular(run.settings))
    progress.finished = progress.end(run.settings)  # patience may be exhausted
    seconds = time.perf_counter() - started
    watched = run.settings.stop_metric
    improvement = f"  best {METRICS[decisive(watched, validation.metric(watched))]}" if improved else ""
    _log(run, trained)
    _log(run, metrics.validation_record(progress, validation, seconds))
    log.info(
        "update %d  epoch %d  dev cross-entropy %.3f  token errors %.1f %% (train %.1f %%)  BLEU %.2f  chrF2 %.2f%s  "
        "(%.0f s)",
        progress.update, progress.current_epoch, validation.cross_entropy, 100 * validation.errors,
        100 * validation.train_errors, validation.bleu, validation.chrf2, improvement, seconds,
    )  # fmt: skip
    if not distributed.rank():
        checkpoint.save_validated(run.folder, progress)
        _tidy(run)
    shown.show(progress.update, _outcome(run, validation))  # the final bar keeps it
    return validation


def _save(run: Run) -> None:
    """Write a checkpoint, which replaces the one written between validations."""
    if not distributed.rank():
        checkpoint.save(run.folder, run.model, run.optimizer, run.progress)
        _tidy(run)


def _tidy(run: Run) -> None:
    """Rank the checkpoints, and delete those that are neither among the best nor among the last validated ones."""
    run.folder.write_ranking(run.progress.best)  # after the checkpoints that it names exist
    checkpoint.prune(run.folder, run.progress.kept)


def _log(run: Run, record: dict[str, object]) -> None:
    """Add a record to the history, once for all processes."""
    if not distributed.rank():
        metrics.log_metrics(run.folder, record)


def _facts(run: Run, validation: Validation | None) -> str:
    """The text of the progress line after the update number; ``validation`` is the last one since this start."""
    window = run.progress.window
    return (
        f"epoch {run.progress.current_epoch}  loss {window.loss:.3f}  {window.speed:,.0f} tokens/s  "
        f"lr {run.settings.optimizer.lr * run.rate:.2g}{_outcome(run, validation)}"
    )


def _outcome(run: Run, validation: Validation | None) -> str:
    """The part of the progress line on validations: the last one, the best one, and the patience left."""
    settings, progress = run.settings, run.progress
    metric: Metric = "chrf2" if "chrf2" in (settings.stop_metric, settings.ranked_by) else "bleu"
    scored = f"{METRICS[metric]} {validation.metric(metric):.2f}" if validation else ""
    last = f"  dev {validation.cross_entropy:.3f} {scored}" if validation else ""
    best = progress.best_shown(settings)
    left = ""
    if settings.patience:
        watched = METRICS[settings.stop_metric]
        left = f"  patience {settings.patience - progress.stalled} of {settings.patience} for {watched}"
    return f"{last}{best and '  '}{best}{left}"
