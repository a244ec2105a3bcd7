"""The settings of training: the ``training`` part of an experiment."""

from dataclasses import dataclass, field, fields
from typing import Literal

from nmtkit.config import HYPERPARAMETER, Resume, free, hyperparameter, require_counts, require_fraction
from nmtkit.ops.precision import TrainingPrecision
from nmtkit.training.optimizers import Group, Optimizer
from nmtkit.training.schedules import Schedule

Metric = Literal["bleu", "chrf2", "cross_entropy"]  # of the development set
METRICS: dict[Metric, str] = {"bleu": "BLEU", "chrf2": "chrF2", "cross_entropy": "cross-entropy"}  # as they are logged


@dataclass(frozen=True)
class Training:
    """The settings of training; the names are the keys of the YAML below ``training``.

    Batches are global: the size of an update on any number of devices. Raises ValueError for invalid values.
    """

    optimizer: Optimizer = field(metadata=HYPERPARAMETER)
    groups: dict[str, Group] = field(default_factory=dict, metadata=HYPERPARAMETER)
    schedule: Schedule = field(default_factory=Schedule, metadata=HYPERPARAMETER)
    batch_sentences: int | None = None  # one of these two
    batch_tokens: int | Literal["auto"] | None = None  # sentences x the longest side, EOS and padding included
    # auto: the smallest batch with full throughput, measured when a run begins and then kept in its config.yaml
    pass_tokens: int = free(8192)  # of a micro-batch: gradients of larger batches are accumulated
    max_length: int | None = None  # pairs with a longer side (in tokens) are skipped; their number is logged
    # summed cross-entropy is divided by the batch's words or sentences
    loss: Literal["tokens", "sentences"] = hyperparameter("tokens")
    label_smoothing: float = hyperparameter(0.0)
    word_dropout: float = hyperparameter(0.0)  # probability of dropping a source word or a previous target word
    concatenations: float = 0.0  # of two random pairs, added to each epoch: their ratio to the pairs
    clip_norm: float | None = hyperparameter(None)  # of all gradients together
    clip_factor: float = hyperparameter(1.0)  # times clip_norm at every reduction (``Schedule.reduces``)
    max_epochs: int | None = free(None)
    max_updates: int | None = free(None)
    valid_every: int | None = free(None)  # updates; null: at the end of every epoch
    stop_metric: Metric = "bleu"  # watched by patience, the schedule and the clipping threshold
    best_metric: Metric | None = None  # ranks checkpoints, of which the best are kept and averaged; null: stop_metric
    patience: int | None = free(None)  # validations without improvement
    # training stops when the plateau schedule has reduced the learning rate below this
    min_lr: float | None = free(None)
    keep_best: int = free(3)  # checkpoints, which `nmtkit average` averages
    keep_last: int = free(1)
    # minutes between checkpoints for resuming, each replaced by the next one
    save_every: float | None = free(30.0)
    precision: TrainingPrecision = free("auto")
    seed: int = 1  # the default of these three
    init_seed: int | None = None  # of the initial weights
    order_seed: int | None = None  # of the order of the data
    dropout_seed: int | None = hyperparameter(None)

    def __post_init__(self) -> None:
        if (self.batch_sentences is None) == (self.batch_tokens is None):
            raise ValueError("batch_sentences, batch_tokens: give one of the two, and null for the other")
        counts = ("batch_sentences", "pass_tokens", "max_length", "max_epochs", "max_updates", "valid_every")
        require_counts(1, self, *counts, "patience", "keep_best", "keep_last")
        if self.batch_tokens != "auto":
            require_counts(1, self, "batch_tokens")
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
        require_fraction(self, "label_smoothing", "word_dropout")
        if not 0 <= self.concatenations <= 10:
            raise ValueError(f"concatenations: {self.concatenations} is not between 0 and 10")
        if self.min_lr is not None and not self.min_lr > 0:
            raise ValueError(f"min_lr: {self.min_lr} is not above 0; null: no minimum")
        if self.min_lr is not None and self.schedule.kind != "plateau":
            raise ValueError(f"min_lr: schedule.kind {self.schedule.kind} has no minimum, only plateau; set it to null")

    @property
    def ranked_by(self) -> Metric:
        """The metric by which checkpoints are ranked."""
        return self.best_metric or self.stop_metric

    def most_updates(self, per_epoch: int | None, epochs: int, updates: int) -> int | None:
        """The maximum number of updates of a run whose first ``epochs`` epochs have had ``updates``.

        per_epoch: the updates of each further epoch. The result is None if it is not known.
        """
        limits = [self.max_updates, self.max_epochs and per_epoch and updates + (self.max_epochs - epochs) * per_epoch]
        return min((limit for limit in limits if limit), default=None)

    def seed_of(self, what: int | None) -> int:
        """``init_seed``, ``order_seed`` or ``dropout_seed`` if given, else ``seed``."""
        return self.seed if what is None else what


def on_resume(key: str) -> Resume:
    """Whether a setting, such as ``optimizer.lr``, may change when a run is resumed."""
    first, *rest = key.split(".")
    whole = _resume(Training, first, "fixed")
    # A field inherits from the part that contains it unless it has metadata. The keys of ``groups`` are group names.
    part = {"optimizer": Optimizer, "schedule": Schedule, "groups": Group}.get(first)
    return _resume(part, rest[-1], whole) if part is not None and rest else whole


def _resume(schema: type, name: str, default: Resume) -> Resume:
    """``resume`` in the metadata of a field, or ``default`` if it has none; "fixed" for an unknown name."""
    return next((each.metadata.get("resume", default) for each in fields(schema) if each.name == name), "fixed")
