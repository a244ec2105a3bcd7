"""``Run``: the state that the functions of one training run share."""

from dataclasses import dataclass

import numpy as np
import torch

from nmtkit.data import batches
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.models.base import Seq2Seq
from nmtkit.training import distributed
from nmtkit.training.progress import Progress
from nmtkit.training.settings import Training


@dataclass(frozen=True)
class Run:
    """One training. The fields stay the same; the contents of ``model``, ``optimizer`` and ``progress`` change.

    The random numbers of an update depend on a seed, the update's number and the process alone, and the order of the
    batches on a seed and the epoch; so a stopped run resumes exactly where it was.
    """

    model: Seq2Seq
    optimizer: torch.optim.Optimizer
    settings: Training
    corpus: Corpus  # to train on
    folder: ModelFolder
    progress: Progress
    dtype: torch.dtype  # of the products

    @property
    def device(self) -> torch.device:
        """The device of the model and of all computation."""
        return self.model.output.weight.device

    @property
    def rate(self) -> float:
        """The factor of all learning rates in the current update."""
        return self.settings.schedule.multiplier(self.progress.update, self.progress.decays)

    @property
    def clip_limit(self) -> float | None:
        """The largest norm that the gradients may have together in the current update."""
        settings = self.settings
        # The threshold shrinks with the learning rate's reductions; a factor of 1 leaves it as it is.
        return settings.clip_norm and settings.clip_norm * settings.clip_factor**self.progress.decays

    def seed_dropout(self) -> None:
        """Set torch's random state for the current update, so that repeating it drops the same units."""
        torch.manual_seed(dropout_seed(self.settings, self.progress.update))

    def epoch(self, pairs: np.ndarray) -> batches.Epoch:
        """The batches of the current epoch over these pairs."""
        settings = self.settings
        assert settings.batch_tokens != "auto", "measured before training"
        return batches.epoch_batches(
            self.corpus, pairs, sentences=settings.batch_sentences, tokens=settings.batch_tokens,
            seed=settings.seed_of(settings.order_seed), epoch=self.progress.epoch,
        )  # fmt: skip


def dropout_seed(settings: Training, update: int) -> int:
    """The seed of dropout; every update and every process has its own."""
    # A large prime keeps the seeds of runs apart for a million updates. The CPU's generator uses 32 bits of a seed, in
    # which multiples of 2^32 over the golden ratio lie far apart.
    return settings.seed_of(settings.dropout_seed) * 1_000_003 + update + distributed.rank() * 2_654_435_769


def usable_pairs(corpus: Corpus, max_length: int | None) -> np.ndarray:
    """Numbers of the pairs (P,) that can be trained on. Raises UserError if there are none."""
    pairs = batches.within(corpus, max_length)
    if not len(pairs):
        raise UserError(
            f"no pair to train on: all {len(corpus)} are empty or longer than training.max_length {max_length}"
        )
    return pairs


def sample_pairs(corpus: Corpus, max_length: int | None, size: int) -> np.ndarray:
    """At most ``size`` of the usable pairs (P,), always the same ones, to measure the model on its training data."""
    # Not the run's seed: runs with different seeds measure themselves on the same pairs.
    return np.random.default_rng(0).permutation(usable_pairs(corpus, max_length))[:size]
