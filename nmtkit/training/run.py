"""``Run``: the state of a training run, shared by its functions."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from nmtkit.data import batches
from nmtkit.data.corpus import Corpus
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.models.base import Seq2Seq
from nmtkit.training import distributed
from nmtkit.training.graphs import Graphs
from nmtkit.training.progress import Progress
from nmtkit.training.settings import Training


@dataclass(frozen=True)
class Run:
    """A training run; only the contents of ``model``, ``optimizer`` and ``progress`` change.

    The random numbers of an update depend only on seed, update and process, and the order of batches only on seed and
    epoch, so a stopped run resumes exactly, on a GPU up to rounding.
    """

    model: Seq2Seq
    optimizer: torch.optim.Optimizer
    settings: Training
    corpus: Corpus  # training data, with the concatenations of the current epoch
    folder: ModelFolder
    progress: Progress
    dtype: torch.dtype  # of matrix products
    graphs: Graphs | None = None  # on a GPU

    @property
    def device(self) -> torch.device:
        """The device of the model and of all computation."""
        return self.model.output.bias.device

    @property
    def rate(self) -> float:
        """The factor of all learning rates at the current update."""
        return self.settings.schedule.multiplier(self.progress.update, self.progress.decays)

    @property
    def clip_limit(self) -> float | None:
        """The maximum gradient norm at the current update; it is reduced together with the learning rate."""
        settings = self.settings
        return settings.clip_norm and settings.clip_norm * settings.clip_factor**self.progress.decays

    def seed_dropout(self) -> None:
        """Seed torch for the current update, so that a repeated update drops the same units."""
        torch.manual_seed(dropout_seed(self.settings, self.progress.update))

    def with_concatenations(self) -> "Run":
        """The run with ``concatenations`` times as many more pairs, each a concatenation of two random ones.

        After Nguyen, Murray and Chiang 2021 (Data augmentation by concatenation for low-resource translation, IWSLT),
        but with new concatenations in every epoch.
        """
        settings, corpus = self.settings, self.corpus
        if not settings.concatenations:
            return self
        usable = usable_pairs(corpus, None)
        random = np.random.default_rng([settings.seed_of(settings.order_seed), self.progress.epoch])
        couples = random.choice(usable[usable < corpus.pairs], (round(settings.concatenations * corpus.pairs), 2))
        return replace(self, corpus=corpus.concatenated(couples))

    def epoch(self) -> batches.Epoch:
        """The batches of the current epoch."""
        settings = self.settings
        assert settings.batch_tokens != "auto", "measured before training"
        pairs = usable_pairs(self.corpus, settings.max_length)
        return batches.epoch_batches(
            self.corpus, pairs, sentences=settings.batch_sentences, tokens=settings.batch_tokens,
            seed=settings.seed_of(settings.order_seed), epoch=self.progress.epoch,
        )  # fmt: skip


def dropout_seed(settings: Training, update: int) -> int:
    """The seed of dropout, different for each update and process."""
    # A large prime keeps the seeds of different runs distinct for a million updates. The CPU's generator uses 32 bits
    # of a seed, in which multiples of 2^32 over the golden ratio are far apart.
    return settings.seed_of(settings.dropout_seed) * 1_000_003 + update + distributed.rank() * 2_654_435_769


def usable_pairs(corpus: Corpus, max_length: int | None) -> np.ndarray:
    """The indices (P,) of the pairs to train on. Raises UserError if there are none."""
    pairs = batches.within(corpus, max_length)
    if not len(pairs):
        raise UserError(
            f"no training pair: all {len(corpus)} are empty or longer than training.max_length {max_length}"
        )
    return pairs


def sample_pairs(corpus: Corpus, max_length: int | None, size: int) -> np.ndarray:
    """The indices (P,) of at most ``size`` training pairs, to measure the model on its training data."""
    # Always the same pairs, so that runs with different seeds are comparable.
    return np.random.default_rng(0).permutation(usable_pairs(corpus, max_length))[:size]
