"""The first 200 updates are those of the authors' trainers, whose equations are written here in NumPy.

Nematus: EdinburghNLP/nematus at wmt17.v0.4, ``optimizers.py`` and ``nmt.py``. DTMT: fandongmeng/StackedDTMT at 27c1b34,
``bin/trainer.py``, ``utils/optimize.py`` and ``layers/nn.py``. The gradient of a loss comes from a small model, at the
parameters that the equations have led to; loss, mean, clipping, Adam and rate are written from the releases.
``tests/README.md`` says what differs by design.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nmtkit.config import merge
from nmtkit.data import batches
from nmtkit.data.batches import Batch
from nmtkit.data.corpus import Corpus
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.schema import build_experiment
from nmtkit.folders import ModelFolder
from nmtkit.layers.embedding import OutputLayer, WordEmbedding
from nmtkit.models.base import Decoder, Seq2Seq, Step, mean_annotation
from nmtkit.training import loop
from nmtkit.training.optimizers import build_optimizer
from nmtkit.training.progress import Progress
from nmtkit.training.run import Run
from tests.training.conftest import validations

UPDATES = 200
Arrays = dict[str, np.ndarray]


def nematus_loss(log_probs: Tensor, tgt: Tensor, mask: Tensor) -> Tensor:
    """Summed over the words of a sentence, the mean over sentences: log_probs (B, T, V), tgt and mask (B, T)."""
    return -(log_probs.gather(2, tgt.unsqueeze(2)).squeeze(2) * mask).sum(1).mean()


def dtmt_loss(log_probs: Tensor, tgt: Tensor, mask: Tensor) -> Tensor:
    """The mean over words; a target word has the probability 0.9, and all others share 0.1."""
    words = log_probs.shape[-1]
    wanted = torch.full_like(log_probs, 0.1 / (words - 1)).scatter(2, tgt.unsqueeze(2), 0.9)
    return -((wanted * log_probs).sum(2) * mask).sum() / mask.sum()


def nematus_rate(step: int) -> float:
    return 1e-4


def dtmt_rate(step: int) -> float:
    """``rnnplus_warmup_decay`` and its floor, with n = 2 replicas, a warm-up of 10, s = 60 and e = 120."""
    n = 2.0
    factor = min(1 + step * (n - 1) / (n * 10), n, n * (2 * n) ** ((60 - n * step) / (120 - 60)))
    return max(1e-3 * factor, 5e-5)


@dataclass(frozen=True)
class Release:
    """The authors' update from a gradient."""

    loss: Callable[[Tensor, Tensor, Tensor], Tensor]
    rate: Callable[[int], float]  # of the update after that many
    limit: float  # of the gradient's norm
    epsilon: float
    replicas: int  # the loss is the mean of theirs
    corrected: bool = False  # epsilon is added after the bias correction, as in algorithm 1 of Kingma and Ba 2015
    margin: float = 0.0  # is added to the norm that a gradient is divided by


NEMATUS = Release(nematus_loss, nematus_rate, limit=1.9, epsilon=1e-8, replicas=1)
DTMT = Release(dtmt_loss, dtmt_rate, limit=0.25, epsilon=1e-6, replicas=2)


def our_design(release: Release) -> Release:
    """The release with nmtkit's differences: the first two are PyTorch's, and the mean is that of the global batch."""
    return replace(release, replicas=1, corrected=True, margin=1e-6)


def first_updates(release: Release, model: Seq2Seq, given: Iterator[Batch]) -> tuple[Arrays, list[float]]:
    """The parameters after the first updates, and the norms of the gradients, which ``model`` computes."""
    values = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    mean = {name: np.zeros_like(value) for name, value in values.items()}
    variance = {name: np.zeros_like(value) for name, value in values.items()}
    norms = []
    for step, batch in enumerate(itertools.islice(given, UPDATES)):
        gradient = gradient_at(model, values, batch, release)
        norm = math.sqrt(sum((g**2).sum() for g in gradient.values()))
        norms.append(norm)
        scale = release.limit / (norm + release.margin) if norm > release.limit else 1.0
        root = math.sqrt(1 - 0.999 ** (step + 1))
        rate = release.rate(step) * root / (1 - 0.9 ** (step + 1))
        epsilon = release.epsilon * (root if release.corrected else 1.0)
        for name, g in gradient.items():
            mean[name] = 0.9 * mean[name] + (1 - 0.9) * scale * g
            variance[name] = 0.999 * variance[name] + (1 - 0.999) * (scale * g) ** 2
            values[name] = values[name] - rate * mean[name] / (np.sqrt(variance[name]) + epsilon)
    return values, norms


def gradient_at(model: Seq2Seq, values: Arrays, batch: Batch, release: Release) -> Arrays:
    """The gradient of the release's loss at ``values``; every replica has its part of the batch."""
    model.load_state_dict({name: torch.from_numpy(value) for name, value in values.items()})
    model.zero_grad()
    count = min(release.replicas, len(batch.src))
    losses = []
    for src, tgt in zip(batch.src.chunk(count), batch.tgt.chunk(count), strict=True):
        part = Batch.of(src, tgt)
        log_probs = model.output(model(part.src, part.mask, part.tgt)).log_softmax(-1)
        losses.append(release.loss(log_probs, part.tgt, part.tgt != 0))
    torch.stack(losses).mean().backward()
    return {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}


class Mean(nn.Module):
    """An encoder: the mean of a sentence's words."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return mean_annotation(x, mask)


class Layer(Decoder[Tensor, Tensor, None]):
    """A decoder without a recurrence, which is quick: tanh of two products and of their product."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.previous, self.context = nn.Linear(width, width), nn.Linear(width, width)

    def begin(self, encoded: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        return encoded, None

    def step(self, memory: Tensor, state: None, y: Tensor) -> Step[None]:
        return Step(self.unroll(memory, state, y.unsqueeze(1)).squeeze(1), None, None)

    def unroll(self, memory: Tensor, state: None, y: Tensor) -> Tensor:
        context = self.context(memory).unsqueeze(1)
        return (self.previous(y) + context + y * context).tanh()


def small_model() -> Seq2Seq:
    src, tgt = WordEmbedding(14, 6, dropout=0.0), WordEmbedding(14, 6, dropout=0.0)
    return Seq2Seq(src, Mean(), tgt, Layer(6), OutputLayer(6, 14)).double()


RELEASES = {"nematus-baseline": NEMATUS, "dtmt1": DTMT}
# The preset's own values but for these: small batches of several passes each, a threshold that clips some of the
# gradients instead of 1 and 5, and equation 17 in 200 updates.
SETTINGS: dict[str, dict[str, Any]] = {
    "nematus-baseline": {"batch_sentences": 20, "clip_norm": 1.9},
    "dtmt1": {"batch_tokens": 100, "clip_norm": 0.25, "schedule": {"warmup": 10, "start": 60, "end": 120}},
}


@pytest.fixture(scope="module", autouse=True)
def float64() -> Iterator[None]:
    """Everything is computed in float64, in which rounding does not hide an epsilon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


every_release = pytest.mark.parametrize("preset", RELEASES)


def started(preset: str, data: Path, folder: Path) -> Run:
    """A run before its first update."""
    own = {"pass_tokens": 80, "max_updates": UPDATES, "valid_every": 1000, **SETTINGS[preset]}
    settings = build_experiment(merge(load_preset(preset), {"training": own}), preset).training
    torch.manual_seed(1)
    model = small_model()
    optimizer = build_optimizer(model, settings.optimizer, {})
    corpus = Corpus.open(data, "train")
    return Run(model, optimizer, settings, corpus, ModelFolder(folder), Progress(), torch.float64)


def batches_of(run: Run) -> Iterator[Batch]:
    """The batches of the run, one epoch after the other."""
    for epoch in itertools.count():
        for rows in replace(run, progress=Progress(epoch=epoch)).epoch():
            yield batches.collate(run.corpus, rows)


def weights(run: Run) -> Arrays:
    return {name: parameter.detach().numpy().copy() for name, parameter in run.model.named_parameters()}


def distance(a: Arrays, b: Arrays) -> float:
    """The norm of the difference of all parameters together."""
    return math.sqrt(sum(float(((a[name] - b[name]) ** 2).sum()) for name in b))


def trained(preset: str, data: Path, folder: Path) -> tuple[Arrays, float]:
    """The parameters after the run, and the distance that they have travelled."""
    run = started(preset, data, folder)
    before = weights(run)
    loop.train(run, validations([(1.0, 1.0)]))
    return weights(run), distance(before, weights(run))


def written(release: Release, preset: str, data: Path) -> tuple[Arrays, list[float]]:
    """``first_updates`` from the beginning of the run."""
    run = started(preset, data, Path("nowhere"))
    return first_updates(release, run.model, batches_of(run))


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Arrays, float]]:
    """Our runs: the parameters at the end, and the distance that they have travelled."""
    return {preset: trained(preset, data, tmp_path_factory.mktemp(preset)) for preset in RELEASES}


@every_release
def test_the_first_updates_are_those_of_the_authors_trainer(
    preset: str, runs: dict[str, tuple[Arrays, float]], data: Path
) -> None:
    (ours, travelled), release = runs[preset], RELEASES[preset]
    theirs, norms = written(our_design(release), preset, data)
    assert distance(ours, theirs) < 1e-12 * travelled
    assert {norm > release.limit for norm in norms} == {True, False}


# Shares of the distance travelled. A batch of DTMT has few sentences here, so that the means of its halves differ much.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "differs", "most"),
    [
        ("nematus-baseline", "corrected", 1e-5), ("nematus-baseline", "margin", 1e-6),
        ("dtmt1", "corrected", 4e-3), ("dtmt1", "margin", 1e-6), ("dtmt1", "replicas", 4e-2),
    ],
)  # fmt: skip
def test_intended_differences_from_the_authors_trainer_change_little(
    preset: str, differs: str, most: float, runs: dict[str, tuple[Arrays, float]], data: Path
) -> None:
    (ours, travelled), release = runs[preset], RELEASES[preset]
    theirs, _ = written(replace(our_design(release), **{differs: getattr(release, differs)}), preset, data)
    assert 1e-9 < distance(ours, theirs) / travelled < most
