"""Training: one function from the first batch to the last checkpoint.

The random numbers of an update depend on the seed and the update's number alone, and the order of the
batches on the seed and the epoch, so a run that was stopped goes on exactly where it was.
"""

import logging
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from nmtkit.data import batches
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.cross_entropy import linear_cross_entropy, score
from nmtkit.symbols import PAD
from nmtkit.training import checkpoint
from nmtkit.training.checkpoint import Progress, Window
from nmtkit.training.display import Display, display
from nmtkit.training.optimizers import Group, Optimizer, set_rates
from nmtkit.training.precision import Precision
from nmtkit.training.schedules import Schedule

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Training:
    """How a model is trained. Batches are global: the size of an update whatever it is computed on."""

    optimizer: Optimizer
    groups: dict[str, Group] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    batch_sentences: int | None = None  # one of these two
    batch_tokens: int | None = None  # sentences x the longest side, end marks and padding included
    pass_tokens: int = 8192  # held in memory at once: a larger batch is added up from several passes
    max_length: int | None = None  # pairs with a longer side (in tokens) are not trained on; counted and logged
    loss: Literal["tokens", "sentences"] = "tokens"  # summed cross-entropy is divided by the batch's words or sentences
    label_smoothing: float = 0.0
    clip_norm: float | None = None  # of all gradients together
    clip_factor: float = 1.0  # times clip_norm at every validation without improvement
    max_epochs: int | None = None
    max_updates: int | None = None
    valid_every: int | None = None  # updates; null: at the end of every epoch
    stop_metric: Literal["bleu", "cross_entropy"] = "bleu"
    patience: int | None = None  # validations without improvement
    keep_best: int = 3  # what `nmtkit average` averages
    keep_last: int = 1
    precision: Precision = "auto"
    seed: int = 1

    def __post_init__(self) -> None:
        if (self.batch_sentences is None) == (self.batch_tokens is None):
            raise ValueError("batch_sentences, batch_tokens: give one of the two, and null for the other")
        counts = ("batch_sentences", "batch_tokens", "pass_tokens", "max_length", "max_epochs", "max_updates")
        for name in (*counts, "valid_every", "patience", "keep_best", "keep_last"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is not at least 1")
        if self.seed < 0:
            raise ValueError(f"seed: {self.seed} is below 0")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm: {self.clip_norm} is not above 0; null: no clipping")
        if not 0 < self.clip_factor <= 1:
            raise ValueError(f"clip_factor: {self.clip_factor} is not in (0, 1]")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing: {self.label_smoothing} is not in [0, 1)")


class Validation(NamedTuple):
    """What a validation found. ``bleu`` is of real beam output, 0 to 100."""

    cross_entropy: float  # nats per target token, end marks included
    errors: float  # share of target tokens that were not the most probable ones (token error rate)
    bleu: float


def train(
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    config: Training,
    corpus: Corpus,
    folder: Path,
    progress: Progress,
    validate: Callable[[], Validation],
    dtype: torch.dtype,
) -> Progress:
    """Train from ``progress`` on until something in ``config`` says stop, or a signal does."""
    device = next(model.parameters()).device
    rows = batches.within(corpus, config.max_length)
    _report_rows(corpus, rows, config.max_length)
    order = _epoch(corpus, rows, config, progress.epoch)
    total = _total_updates(config, len(order))
    with stop_signals() as stopping, display(total, progress.update) as shown:
        while not progress.finished and not stopping:
            assert progress.batch < len(order), "the data are not those of this run"
            batch_rows = order[progress.batch]
            started = time.perf_counter()
            progress.update += 1
            progress.batch += 1
            torch.manual_seed(config.seed * 1_000_003 + progress.update)
            rate = config.schedule.multiplier(progress.update, progress.decays)
            set_rates(optimizer, rate)
            loss, nll, tokens = accumulate(model, config, corpus, batch_rows, device, dtype)
            limit = config.clip_norm and config.clip_norm * config.clip_factor**progress.decays
            norm = clip(model, limit)
            if not math.isfinite(norm) or not math.isfinite(loss):
                raise UserError(
                    f"update {progress.update}: loss {loss:g}, gradient norm {norm:g} in the batch with "
                    f"corpus lines {(batch_rows[:4] + 1).tolist()}...; start again in another folder (-o) with a "
                    "lower learning rate or training.clip_norm"
                )
            optimizer.step()
            seconds = time.perf_counter() - started
            progress.tokens += tokens
            progress.window.add(nll, tokens, seconds, norm)
            shown.show(progress.update, _facts(config, progress, rate))

            epoch_end = progress.batch == len(order)
            if epoch_end:
                progress.epoch, progress.batch = progress.epoch + 1, 0
            progress.finished = end(config, progress)
            due = progress.update % config.valid_every == 0 if config.valid_every else epoch_end
            if due or progress.finished:
                _log_window(folder, progress, rate)
                progress.window = Window()
                _validate(model, optimizer, config, folder, progress, validate, shown, regular=due)
            if epoch_end and not progress.finished:
                order = _epoch(corpus, rows, config, progress.epoch)
        if progress.update not in checkpoint.steps(folder):
            checkpoint.save(folder, model, optimizer, progress)
            _prune(folder, config, progress)
    if signal.SIGINT in stopping:
        log.info("stopped after update %d", progress.update)
        raise KeyboardInterrupt  # so that a script does not go on with half a model
    return progress


def accumulate(
    model: Seq2Seq,
    config: Training,
    corpus: Corpus,
    batch_rows: np.ndarray,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[float, float, int]:
    """The gradient of one global batch, in as many passes as memory asks for.

    Gives the loss, the summed negative log-likelihood (nats) and the number of target words.
    """
    model.train()
    model.zero_grad(set_to_none=True)
    tokens = int(corpus.lengths(batch_rows)[1].sum()) + len(batch_rows)
    divisor = tokens if config.loss == "tokens" else len(batch_rows)
    total_loss = total_nll = 0.0
    for part in batches.parts(corpus, batch_rows, config.pass_tokens):
        batch = batches.collate(corpus, part).to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            hidden = model(batch.src, batch.mask, batch.tgt)
        real = (batch.tgt != PAD).flatten().nonzero().squeeze(1)
        loss, nll = linear_cross_entropy(
            hidden.flatten(0, 1)[real].to(dtype),
            model.output.weight,
            model.output.bias,
            batch.tgt.flatten()[real],
            config.label_smoothing,
        )
        (loss / divisor).backward()
        total_loss += float(loss.detach()) / divisor
        total_nll += float(nll)
    return total_loss, total_nll, tokens


def clip(model: Seq2Seq, limit: float | None) -> float:
    """The norm of all gradients together, which are scaled down to ``limit`` if that is less."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if limit is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return float(norm)


@torch.no_grad()
def teacher_forced(
    model: Seq2Seq, corpus: Corpus, max_tokens: int, device: torch.device, dtype: torch.dtype
) -> tuple[float, float]:
    """Nats per target token over a whole corpus, end marks included, and the share of tokens not ranked first.

    A pair with an empty side counts nowhere.
    """
    model.eval()
    rows = batches.within(corpus, None)
    rows = rows[np.argsort(corpus.lengths(rows)[1], kind="stable")]
    nll = wrong = tokens = 0.0
    for part in batches.parts(corpus, rows, max_tokens):
        batch = batches.collate(corpus, part).to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            hidden = model(batch.src, batch.mask, batch.tgt)
        real = (batch.tgt != PAD).flatten().nonzero().squeeze(1)
        log_probs, right = score(
            hidden.flatten(0, 1)[real].to(dtype), model.output.weight, model.output.bias, batch.tgt.flatten()[real]
        )
        nll -= float(log_probs.sum(dtype=torch.float64))
        wrong += float((~right).sum())
        tokens += len(real)
    if not tokens:
        raise UserError("the dev set has no pair with words on both sides; give `nmtkit prep` a real one")
    return nll / tokens, wrong / tokens


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C or SIGTERM asks for a stop; a second Ctrl-C stops at once."""
    received: list[int] = []

    def note(number: int, _: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        log.info("stopping after this update; the same command goes on from there")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _epoch(corpus: Corpus, rows: np.ndarray, config: Training, epoch: int) -> batches.Epoch:
    return batches.epoch_batches(
        corpus, rows, sentences=config.batch_sentences, tokens=config.batch_tokens, seed=config.seed, epoch=epoch
    )


def _report_rows(corpus: Corpus, rows: np.ndarray, max_length: int | None) -> None:
    left = len(corpus) - len(rows)
    if not len(rows):
        raise UserError(f"no pair to train on: all {left} are empty or longer than training.max_length {max_length}")
    if left:
        log.info("training on %d pairs; %d left out: empty, or longer than %s tokens", len(rows), left, max_length)


def _total_updates(config: Training, per_epoch: int) -> int | None:
    """The most updates the run can make, for the progress bar; batches per epoch may vary by a few."""
    limits = [config.max_updates, config.max_epochs and config.max_epochs * per_epoch]
    known = [limit for limit in limits if limit]
    return min(known) if known else None


def _facts(config: Training, progress: Progress, rate: float) -> str:
    window = progress.window
    best = f"  best {config.stop_metric} {progress.best[0][1]:.2f}" if progress.best else ""
    left = f"  patience {config.patience - progress.stalled}" if config.patience else ""
    return (
        f"epoch {progress.current_epoch}  loss {window.loss:.3f}  {window.speed:,.0f} tokens/s  "
        f"lr {config.optimizer.lr * rate:.2g}{best}{left}"
    )


def _log_window(folder: Path, progress: Progress, rate: float) -> None:
    window = progress.window
    record = {
        "kind": "train",
        "update": progress.update,
        "epoch": progress.current_epoch,
        "loss": window.loss,
        "gradient_norm": window.norm / window.updates,
        "lr_factor": rate,
        "tokens": progress.tokens,
        "tokens_per_second": round(window.speed, 1),
    }
    checkpoint.log_metrics(folder, record)


def _validate(
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    config: Training,
    folder: Path,
    progress: Progress,
    validate: Callable[[], Validation],
    shown: Display,
    *,
    regular: bool,
) -> None:
    """Measure, remember the best, reduce the rate or run out of patience, and save.

    Equal BLEU (0 in the first epochs) is ranked by cross-entropy. A validation only because the run ends is not
    ``regular``: a longer run would not have had it, so rate and patience do not see it.
    """
    started = time.perf_counter()
    shown.show(progress.update, "validating")
    found = validate()
    sign = 1 if config.stop_metric == "bleu" else -1
    value = found.bleu if config.stop_metric == "bleu" else found.cross_entropy
    ranked = [*progress.best, [progress.update, value, found.cross_entropy]]
    ranked.sort(key=lambda entry: (-sign * entry[1], entry[2]))
    progress.best = ranked[: config.keep_best]
    rank = [sign * value, -found.cross_entropy]
    improved = not progress.peak or rank > progress.peak
    if regular:
        progress.peak = max(rank, progress.peak)
        progress.stalled = 0 if improved else progress.stalled + 1
        if progress.stalled > config.schedule.tolerance:
            progress.decays += 1
    progress.finished = end(config, progress)
    seconds = time.perf_counter() - started
    checkpoint.log_metrics(
        folder,
        {
            "kind": "valid",
            "update": progress.update,
            "epoch": progress.current_epoch,
            "cross_entropy": found.cross_entropy,
            "perplexity": math.exp(min(found.cross_entropy, 700.0)),
            "token_error_rate": found.errors,
            "bleu": found.bleu,
            "seconds": round(seconds, 1),
        },
    )
    log.info(
        "update %d  epoch %d  dev cross-entropy %.3f  token errors %.1f %%  BLEU %.2f%s  (%.0f s)",
        progress.update, progress.current_epoch, found.cross_entropy, 100 * found.errors, found.bleu,
        "  best" if improved else "", seconds,
    )  # fmt: skip
    checkpoint.save(folder, model, optimizer, progress)
    _prune(folder, config, progress)


def _prune(folder: Path, config: Training, progress: Progress) -> None:
    checkpoint.write_best(folder, progress.best)
    best = {int(entry[0]) for entry in progress.best}
    checkpoint.prune(folder, best | set(checkpoint.steps(folder)[-config.keep_last :]))


def end(config: Training, progress: Progress) -> str:
    """Why a run that is this far is over; empty when it is not."""
    if config.patience and progress.stalled >= config.patience:
        return f"no better {config.stop_metric} in {config.patience} validations"
    if config.max_updates and progress.update >= config.max_updates:
        return f"{config.max_updates} updates"
    if config.max_epochs and progress.epoch >= config.max_epochs:
        return f"{config.max_epochs} epochs"
    return ""
