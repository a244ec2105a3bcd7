"""The progress of a run: counters, the ranking of checkpoints, and stopping criteria."""

from dataclasses import dataclass, field

from nmtkit.errors import counted
from nmtkit.training.loss import Gradient
from nmtkit.training.settings import METRICS, Training
from nmtkit.training.validation import Validation, decisive, rank

EXPLOSION = 20.0  # times the mean norm of the gradients since the last validation


@dataclass
class Window:
    """Sums over the updates since the last validation, for the progress line and ``metrics.jsonl``."""

    nll: float = 0.0  # nats
    tokens: int = 0  # target words
    norm: float = 0.0  # of gradients
    norm_max: float = 0.0
    seconds: float = 0.0
    updates: int = 0

    def exploded(self, norm: float) -> bool:
        """True if a gradient norm is far larger than the mean of at least ten others."""
        return self.updates >= 10 and norm > EXPLOSION * self.mean_norm

    @property
    def mean_norm(self) -> float:
        """The mean norm of the gradients so far, before clipping."""
        return self.norm / self.updates

    @property
    def loss(self) -> float:
        """The loss in nats per target word, EOS included."""
        return self.nll / self.tokens

    @property
    def speed(self) -> float:
        """Target words per second."""
        return self.tokens / self.seconds


@dataclass
class Progress:
    """The progress of a run. Checkpoints store its fields by name, so renaming one changes the format."""

    update: int = 0
    epoch: int = 0  # completed epochs
    batch: int = 0  # batches of this epoch already used
    tokens: int = 0  # target words seen
    stalled: int = 0  # validations since the last improvement
    decays: int = 0  # reductions of the learning rate or the clipping threshold
    best: list[list[float]] = field(default_factory=list)  # [update, metric, dev cross-entropy], best first
    recent: list[int] = field(default_factory=list)  # updates of the last validations
    peak: list[float] = field(default_factory=list)  # the best rank of a regular validation
    halvings: int = 0  # how often memory ran out and a batch was split into smaller micro-batches
    precision: str = ""  # of matrix products, float32 or bfloat16
    threads: int = 0  # of a single process on a CPU when the run began; 0 on a GPU or with several processes
    finished: str = ""  # why the run ended
    window: Window = field(default_factory=Window)

    @property
    def current_epoch(self) -> int:
        """The epoch of the last update, from 1."""
        return self.epoch + (self.batch > 0)

    def add(self, gradient: Gradient, seconds: float) -> None:
        """Add an update, which took so many seconds."""
        window = self.window
        self.halvings += gradient.halvings
        self.tokens += gradient.tokens
        window.tokens += gradient.tokens
        window.nll += gradient.nll
        window.norm += gradient.norm
        window.norm_max = max(window.norm_max, gradient.norm)
        window.seconds += seconds
        window.updates += 1

    @property
    def kept(self) -> set[int]:
        """The updates whose checkpoints are kept: the best, the last validated ones, and this one."""
        return {self.update, *self.recent, *(int(update) for update, *_ in self.best)}

    @property
    def validated(self) -> bool:
        """True if the model of this update has been validated."""
        return self.update in self.recent

    def best_shown(self, settings: Training) -> str:
        """The value of the best checkpoint for messages, as in "best BLEU 20.31"; "" before the first validation."""
        if not self.best:
            return ""
        _, value, cross_entropy = self.best[0]
        metric = decisive(settings.ranked_by, value)
        return f"best {METRICS[metric]} {value if metric == settings.ranked_by else cross_entropy:.2f}"

    def is_regular(self, settings: Training) -> bool:
        """True if a regular validation follows this update."""
        return self.update % settings.valid_every == 0 if settings.valid_every else self.batch == 0

    def is_due(self, settings: Training) -> bool:
        """True if this update still needs a validation, either a regular one or the one at the end of the run."""
        return self.update > 0 and not self.validated and (self.is_regular(settings) or bool(self.finished))

    def judge(self, validation: Validation, settings: Training, *, regular: bool) -> bool:
        """Rank this update's checkpoint, and update rate decay and patience; returns whether it is an improvement.

        ``best_metric`` ranks checkpoints, ``stop_metric`` defines improvement. The extra validation at the end of a run
        is not ``regular``: a longer run would not have it, so it affects neither learning rate nor patience.
        """
        entries = [*self.best, [self.update, validation.metric(settings.ranked_by), validation.cross_entropy]]
        # A stable sort: on a tie, the older checkpoint is better.
        entries.sort(key=lambda entry: rank(settings.ranked_by, *entry[1:]), reverse=True)
        self.best = entries[: settings.keep_best]
        self.recent = [*self.recent, self.update][-settings.keep_last :]
        ours = rank(settings.stop_metric, validation.metric(settings.stop_metric), validation.cross_entropy)
        improved = not self.peak or ours > self.peak
        if regular:
            self.peak = max(ours, self.peak)
            self.stalled = 0 if improved else self.stalled + 1
            # Only if it has an effect, so that a schedule that is chosen later begins with the full rate.
            if settings.schedule.kind == "plateau" or settings.clip_factor < 1:
                self.decays += settings.schedule.reduces(self.stalled, self.decays)
        return improved

    def end(self, settings: Training) -> str:
        """The stopping criterion that is met, or an empty string."""
        if settings.patience and self.stalled >= settings.patience:
            return f"no {METRICS[settings.stop_metric]} improvement in {counted(settings.patience, 'validation')}"
        rate = settings.optimizer.lr * settings.schedule.factor**self.decays
        if settings.min_lr and self.decays and rate < settings.min_lr:
            return f"a learning rate below {settings.min_lr:g}"
        if settings.max_updates and self.update >= settings.max_updates:
            return counted(settings.max_updates, "update")
        if settings.max_epochs and self.epoch >= settings.max_epochs:
            return counted(settings.max_epochs, "epoch")
        return ""
