"""Training: one function from the first batch to the last checkpoint.

The random numbers of an update depend on a seed, the update's number and the process alone, and the order of the
batches on a seed and the epoch, so a run that was stopped goes on exactly where it was.
"""

import logging
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from nmtkit.config import require_at_least
from nmtkit.data import batches
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.cross_entropy import linear_cross_entropy, score
from nmtkit.ops.memory import is_full
from nmtkit.symbols import PAD
from nmtkit.training import checkpoint, distributed
from nmtkit.training.checkpoint import Progress, Window
from nmtkit.training.diagnosis import first_offender
from nmtkit.training.display import Display, display
from nmtkit.training.folder import ModelFolder
from nmtkit.training.optimizers import Group, Optimizer, set_rates
from nmtkit.training.precision import Precision
from nmtkit.training.schedules import Schedule

log = logging.getLogger(__name__)


Metric = Literal["bleu", "cross_entropy"]  # of the development set


@dataclass(frozen=True)
class Training:
    """How a model is trained. Batches are global: the size of an update whatever it is computed on."""

    optimizer: Optimizer
    groups: dict[str, Group] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    batch_sentences: int | None = None  # one of these two
    batch_tokens: int | Literal["auto"] | None = None  # sentences x the longest side, end marks and padding included
    # auto: as many as keep the machine busy, measured when a run begins; the number is then kept in its config.yaml
    pass_tokens: int = 8192  # held in memory at once: a larger batch is added up from several passes
    max_length: int | None = None  # pairs with a longer side (in tokens) are not trained on; counted and logged
    loss: Literal["tokens", "sentences"] = "tokens"  # summed cross-entropy is divided by the batch's words or sentences
    label_smoothing: float = 0.0
    clip_norm: float | None = None  # of all gradients together
    clip_factor: float = 1.0  # times clip_norm at every validation without improvement
    max_epochs: int | None = None
    max_updates: int | None = None
    valid_every: int | None = None  # updates; null: at the end of every epoch
    stop_metric: Metric = "bleu"  # what patience, the schedule and the clipping threshold watch
    best_metric: Metric | None = None  # what ranks checkpoints: the best are kept and averaged; null: stop_metric
    patience: int | None = None  # validations without improvement
    min_lr: float | None = None  # stop when reductions on a plateau have brought the learning rate below this
    keep_best: int = 3  # what `nmtkit average` averages
    keep_last: int = 1
    save_every: float | None = 30.0  # minutes; such a checkpoint is to go on from, and the next one replaces it
    precision: Precision = "auto"
    seed: int = 1  # what these three are unless they are given
    init_seed: int | None = None  # of the initial weights
    order_seed: int | None = None  # of the order of the data
    dropout_seed: int | None = None

    def __post_init__(self) -> None:
        if (self.batch_sentences is None) == (self.batch_tokens is None):
            raise ValueError("batch_sentences, batch_tokens: give one of the two, and null for the other")
        counts = ("batch_sentences", "pass_tokens", "max_length", "max_epochs", "max_updates", "valid_every")
        require_at_least(1, self, *counts, "patience", "keep_best", "keep_last")
        if self.batch_tokens != "auto":
            require_at_least(1, self, "batch_tokens")
        for name in ("seed", "init_seed", "order_seed", "dropout_seed"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1 << 31:
                raise ValueError(f"{name}: {value} is not in [0, 2147483648)")
        if self.save_every is not None and not self.save_every > 0:
            raise ValueError(f"save_every: {self.save_every} is not above 0; null: at validations only")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm: {self.clip_norm} is not above 0; null: no clipping")
        if not 0 < self.clip_factor <= 1:
            raise ValueError(f"clip_factor: {self.clip_factor} is not in (0, 1]")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing: {self.label_smoothing} is not in [0, 1)")
        if self.min_lr is not None and not (self.min_lr > 0 and self.schedule.kind == "plateau"):
            raise ValueError(f"min_lr: {self.min_lr} is not above 0, or the schedule is no plateau")

    @property
    def ranked_by(self) -> Metric:
        """What makes a checkpoint better than another."""
        return self.best_metric or self.stop_metric

    def seed_of(self, what: int | None) -> int:
        """``init_seed``, ``order_seed`` or ``dropout_seed`` where it is given, else ``seed``."""
        return self.seed if what is None else what


class Validation(NamedTuple):
    """What a validation measured. ``bleu`` is of real beam output, 0 to 100."""

    cross_entropy: float  # nats per target token, end marks included
    errors: float  # share of target tokens that were not the most probable ones (token error rate)
    bleu: float
    train_errors: float  # the same of training pairs, as many as the dev set has, without dropout

    def metric(self, name: Metric) -> float:
        return self.bleu if name == "bleu" else self.cross_entropy

    def rank(self, name: Metric) -> list[float]:
        """Larger for a better validation. Equal BLEU (0 in the first epochs) is ranked by cross-entropy."""
        return [self.bleu if name == "bleu" else -self.cross_entropy, -self.cross_entropy]


def train(
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    config: Training,
    corpus: Corpus,
    folder: ModelFolder,
    progress: Progress,
    validate: Callable[[], Validation],
    dtype: torch.dtype,
) -> Progress:
    """Train from ``progress`` on until something in ``config`` says stop, or a signal does."""
    device = next(model.parameters()).device
    rows = usable_pairs(corpus, config.max_length)
    if len(rows) < len(corpus):
        log.info("training on %d pairs; %d left out: empty, or longer than %s tokens",
                 len(rows), len(corpus) - len(rows), config.max_length)  # fmt: skip
    order = _epoch(corpus, rows, config, progress.epoch)
    total = _total_updates(config, len(order))
    stop, saved = 0, time.monotonic()  # the signal that asked for it; the last checkpoint
    with stop_signals() as received, display(total, progress.update) as shown:
        while not (progress.finished or stop):
            assert progress.batch < len(order), "the data are not those of this run"
            batch_rows = order[progress.batch]
            started = time.perf_counter()
            progress.update += 1
            progress.batch += 1
            torch.manual_seed(_dropout_seed(config, progress.update))
            rate = config.schedule.multiplier(progress.update, progress.decays)
            set_rates(optimizer, rate)
            backward = partial(accumulate, model, config, corpus, batch_rows, device, dtype)
            loss, nll, tokens, halvings = backward()
            progress.halvings += halvings
            limit = config.clip_norm and config.clip_norm * config.clip_factor**progress.decays
            norm = clip(model, limit)
            _check_numbers(model, config, progress, batch_rows, backward, loss, norm)
            optimizer.step()
            seconds = time.perf_counter() - started
            progress.tokens += tokens
            progress.window.add(nll, tokens, seconds, norm)
            shown.show(progress.update, _facts(config, progress, rate))
            stop = distributed.highest(max(received, default=0))

            epoch_end = progress.batch == len(order)
            if epoch_end:
                progress.epoch, progress.batch = progress.epoch + 1, 0
                _log_epoch(folder, progress, order)
            progress.finished = end(config, progress)
            due = progress.update % config.valid_every == 0 if config.valid_every else epoch_end
            if due or progress.finished:
                _log_window(folder, progress, rate)
                progress.window = Window()
                _validate(model, optimizer, config, folder, progress, validate, shown, regular=due)
                saved = time.monotonic()
            elif config.save_every is not None and time.monotonic() - saved >= 60 * config.save_every:
                _save(folder, model, optimizer, progress)
                saved = time.monotonic()
            if epoch_end and not (progress.finished or stop):
                order = _epoch(corpus, rows, config, progress.epoch)
        if progress.update not in folder.updates():
            _save(folder, model, optimizer, progress)
    if stop == signal.SIGINT:
        log.info("stopped after update %d", progress.update)
        raise KeyboardInterrupt  # so that a script does not go on with half a model
    return progress


def sample_pairs(corpus: Corpus, config: Training, size: int) -> np.ndarray:
    """At most so many of the usable pairs, always the same, to measure the model on what it was trained on."""
    rows = usable_pairs(corpus, config.max_length)
    return np.random.default_rng(0).permutation(rows)[:size]


def usable_pairs(corpus: Corpus, max_length: int | None) -> np.ndarray:
    """Numbers of the pairs that can be trained on. Raises UserError if there are none."""
    rows = batches.within(corpus, max_length)
    if not len(rows):
        raise UserError(
            f"no pair to train on: all {len(corpus)} are empty or longer than training.max_length {max_length}"
        )
    return rows


def accumulate(
    model: Seq2Seq,
    config: Training,
    corpus: Corpus,
    batch_rows: np.ndarray,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[float, float, int, int]:
    """The gradient of one global batch, shared by all processes, in as many passes as memory asks for.

    Gives the loss, the summed negative log-likelihood (nats), the number of target words, and how often memory
    ran out, so that all was done again in twice as many passes.
    """
    model.train()
    tokens = int(corpus.lengths(batch_rows)[1].sum()) + len(batch_rows)
    divisor = tokens if config.loss == "tokens" else len(batch_rows)
    parts = list(batches.parts(corpus, distributed.share(batch_rows), config.pass_tokens))
    halvings = 0
    while (sums := _passes(model, config, corpus, parts, divisor, device, dtype)) is None:
        log.warning("out of memory in %d passes; again in halves: training.pass_tokens is too high", len(parts))
        halvings += 1
        if max(map(len, parts)) == 1:
            src, tgt = (int(lengths.max()) for lengths in corpus.lengths(np.concatenate(parts)))
            raise UserError(
                f"a pair of {src} and {tgt} tokens does not fit into the memory of {device}: take a smaller "
                "training.max_length or a smaller model"
            )
        parts = [half for part in parts for half in np.array_split(part, 2) if len(half)]
    distributed.sum_gradients(model)
    loss, nll, all_halvings = distributed.total(*sums, halvings)
    return loss / divisor, nll, tokens, int(all_halvings)


def _passes(
    model: Seq2Seq,
    config: Training,
    corpus: Corpus,
    parts: list[np.ndarray],
    divisor: int,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[float, float] | None:
    """Adds up the gradient of all parts; the summed loss and negative log-likelihood. None if memory runs out."""
    model.zero_grad(set_to_none=True)
    total_loss = total_nll = 0.0
    try:
        for part in parts:
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
            total_loss += float(loss.detach())
            total_nll += float(nll)
    except (RuntimeError, MemoryError) as error:
        if not is_full(error):
            raise
        return None
    return total_loss, total_nll


def _check_numbers(
    model: Seq2Seq,
    config: Training,
    progress: Progress,
    batch_rows: np.ndarray,
    backward: Callable[[], object],
    loss: float,
    norm: float,
) -> None:
    """Log a gradient that explodes; raise UserError where loss or gradient is no number, with the place."""
    place = f"update {progress.update} (epoch {progress.epoch + 1}, batch {progress.batch})"
    shown = ", ".join(str(row + 1) for row in batch_rows[:4])
    lines = f"corpus lines {shown} of {len(batch_rows)} in the batch"
    if not math.isfinite(norm) or not math.isfinite(loss):
        torch.manual_seed(_dropout_seed(config, progress.update))
        raise UserError(
            f"{place}: loss {loss:g}, gradient norm {norm:g}, first in {first_offender(model, backward)}; {lines}; "
            "start again in another folder (-o) with a lower learning rate or training.clip_norm"
        )
    if progress.window.exploded(norm):
        log.warning("%s: gradient norm %.3g, mean so far %.3g; %s", place, norm, progress.window.mean_norm, lines)


def clip(model: Seq2Seq, limit: float | None) -> float:
    """The norm of all gradients together, which are scaled down to ``limit`` if that is less."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if limit is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm)
    return float(norm)


@torch.no_grad()
def teacher_forced(
    model: Seq2Seq, corpus: Corpus, rows: np.ndarray, max_tokens: int, device: torch.device, dtype: torch.dtype
) -> tuple[float, float]:
    """Nats per target token over ``rows`` of a corpus, end marks included, and the share of tokens not ranked first.

    The processes share the work.
    """
    model.eval()
    rows = rows[np.argsort(corpus.lengths(rows)[1], kind="stable")]
    nll = wrong = tokens = 0.0
    for part in batches.parts(corpus, distributed.share(rows), max_tokens):
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
    nll, wrong, tokens = distributed.total(nll, wrong, tokens)
    if not tokens:
        raise UserError("the dev set has no pair with words on both sides; give `nmtkit prep` a real one")
    return nll / tokens, wrong / tokens


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C, SIGTERM or SIGHUP asks for a stop; a second Ctrl-C stops at once.

    With many processes it does not: torchrun passes on the first one, which the terminal has sent already. A run
    that nohup protects from SIGHUP stays protected.
    """
    received: list[int] = []

    def note(number: int, _: Any) -> None:
        if number == signal.SIGINT and number in received and distributed.size() == 1:
            raise KeyboardInterrupt
        if not received:
            log.info("stopping after this update; the same command goes on from there")
        received.append(number)

    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        wanted.append(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in wanted}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _dropout_seed(config: Training, update: int) -> int:
    """Every update and every process has its own."""
    return config.seed_of(config.dropout_seed) * 1_000_003 + update + (distributed.rank() << 52)


def _epoch(corpus: Corpus, rows: np.ndarray, config: Training, epoch: int) -> batches.Epoch:
    assert config.batch_tokens != "auto", "measured before training"
    seed = config.seed_of(config.order_seed)
    return batches.epoch_batches(
        corpus, rows, sentences=config.batch_sentences, tokens=config.batch_tokens, seed=seed, epoch=epoch
    )


def _total_updates(config: Training, per_epoch: int) -> int | None:
    """The most updates the run can make, for the progress bar; batches per epoch may vary by a few."""
    limits = [config.max_updates, config.max_epochs and config.max_epochs * per_epoch]
    known = [limit for limit in limits if limit]
    return min(known) if known else None


def _facts(config: Training, progress: Progress, rate: float) -> str:
    window = progress.window
    best = f"  best {config.ranked_by} {progress.best[0][1]:.2f}" if progress.best else ""
    left = f"  patience {config.patience - progress.stalled}" if config.patience else ""
    return (
        f"epoch {progress.current_epoch}  loss {window.loss:.3f}  {window.speed:,.0f} tokens/s  "
        f"lr {config.optimizer.lr * rate:.2g}{best}{left}"
    )


def _log_epoch(folder: ModelFolder, progress: Progress, order: batches.Epoch) -> None:
    facts = {"batches": len(order), "padding": round(order.padding, 4)}
    _log(folder, {"kind": "epoch", "update": progress.update, "epoch": progress.epoch, **facts})
    log.info("epoch %d: %d batches, %.1f %% of them padding", progress.epoch, len(order), 100 * order.padding)


def _log_window(folder: ModelFolder, progress: Progress, rate: float) -> None:
    window = progress.window
    record = {
        "kind": "train",
        "update": progress.update,
        "epoch": progress.current_epoch,
        "loss": window.loss,
        "gradient_norm": window.mean_norm,
        "gradient_norm_max": window.norm_max,
        "lr_factor": rate,
        "tokens": progress.tokens,
        "memory_halvings": progress.halvings,
        "tokens_per_second": round(window.speed, 1),
    }
    _log(folder, record)


def _log(folder: ModelFolder, record: dict[str, Any]) -> None:
    if not distributed.rank():
        checkpoint.log_metrics(folder, record)


def _validate(
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    config: Training,
    folder: ModelFolder,
    progress: Progress,
    validate: Callable[[], Validation],
    shown: Display,
    *,
    regular: bool,
) -> None:
    """Measure, remember the best, reduce the rate or run out of patience, and save.

    A validation only because the run ends is not ``regular``: a longer run would not have had it, so rate and patience
    do not see it.
    """
    started = time.perf_counter()
    shown.show(progress.update, "validating")
    found = validate()
    sign = -1 if config.ranked_by == "bleu" else 1
    ranked = [*progress.best, [progress.update, found.metric(config.ranked_by), found.cross_entropy]]
    ranked.sort(key=lambda entry: (sign * entry[1], entry[2]))
    progress.best = ranked[: config.keep_best]
    progress.recent = [*progress.recent, progress.update][-config.keep_last :]
    rank = found.rank(config.stop_metric)
    improved = not progress.peak or rank > progress.peak
    if regular:
        progress.peak = max(rank, progress.peak)
        progress.stalled = 0 if improved else progress.stalled + 1
        progress.decays += config.schedule.reduces(progress.stalled, progress.decays)
    progress.finished = end(config, progress)
    seconds = time.perf_counter() - started
    _log(
        folder,
        {
            "kind": "valid",
            "update": progress.update,
            "epoch": progress.current_epoch,
            "cross_entropy": found.cross_entropy,
            "perplexity": math.exp(min(found.cross_entropy, 700.0)),
            "token_error_rate": found.errors,
            "train_token_error_rate": found.train_errors,
            "bleu": found.bleu,
            "seconds": round(seconds, 1),
        },
    )
    log.info(
        "update %d  epoch %d  dev cross-entropy %.3f  token errors %.1f %% (train %.1f %%)  BLEU %.2f%s  (%.0f s)",
        progress.update, progress.current_epoch, found.cross_entropy, 100 * found.errors, 100 * found.train_errors,
        found.bleu, "  best" if improved else "", seconds,
    )  # fmt: skip
    _save(folder, model, optimizer, progress)


def _save(folder: ModelFolder, model: Seq2Seq, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write a checkpoint and delete those before it that are neither among the best nor among the last validated."""
    if distributed.rank():
        return
    checkpoint.save(folder, model, optimizer, progress)
    folder.write_ranking(progress.best)
    checkpoint.prune(folder, {progress.update, *progress.recent, *(int(entry[0]) for entry in progress.best)})


def end(config: Training, progress: Progress) -> str:
    """Why a run that is this far is over; empty when it is not."""
    if config.patience and progress.stalled >= config.patience:
        return f"no better {config.stop_metric} in {config.patience} validations"
    if config.min_lr and config.optimizer.lr * config.schedule.factor**progress.decays < config.min_lr:
        return f"a learning rate below {config.min_lr:g}"
    if config.max_updates and progress.update >= config.max_updates:
        return f"{config.max_updates} updates"
    if config.max_epochs and progress.epoch >= config.max_epochs:
        return f"{config.max_epochs} epochs"
    return ""
