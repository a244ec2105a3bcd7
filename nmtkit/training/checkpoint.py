"""Checkpoints: weights as safetensors, the trainer's state as text and plain tensors, folders renamed into place."""

import dataclasses
import io
import json
import logging
import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from nmtkit import config as configs
from nmtkit.errors import UserError
from nmtkit.lines import atomic_write, report_write_errors, sync
from nmtkit.training.folder import ModelFolder, read_text

log = logging.getLogger(__name__)

EXPLOSION = 20.0  # times the mean norm of the gradients since the last validation


@dataclass
class Window:
    """Sums over the updates since the last validation."""

    nll: float = 0.0  # nats
    tokens: int = 0  # target words
    norm: float = 0.0  # of gradients
    norm_max: float = 0.0
    seconds: float = 0.0
    updates: int = 0

    def add(self, nll: float, tokens: int, seconds: float, norm: float) -> None:
        self.nll += nll
        self.tokens += tokens
        self.norm += norm
        self.norm_max = max(self.norm_max, norm)
        self.seconds += seconds
        self.updates += 1

    def exploded(self, norm: float) -> bool:
        """Whether a gradient is far larger than those before it, once there are enough of them to say so."""
        return self.updates >= 10 and norm > EXPLOSION * self.mean_norm

    @property
    def mean_norm(self) -> float:
        return self.norm / self.updates

    @property
    def loss(self) -> float:
        """Nats per target word."""
        return self.nll / self.tokens

    @property
    def speed(self) -> float:
        """Target words per second."""
        return self.tokens / self.seconds


@dataclass
class Progress:
    """Everything about a run that is not in its weights and its optimiser."""

    update: int = 0
    epoch: int = 0  # complete passes over the data
    batch: int = 0  # batches of this epoch already used
    tokens: int = 0  # target words seen
    stalled: int = 0  # validations since the last improvement
    decays: int = 0  # validations that called for a reduction of the rate or of the clipping threshold
    best: list[list[float]] = field(default_factory=list)  # [update, metric, dev cross-entropy], best first
    recent: list[int] = field(default_factory=list)  # updates of the last validations
    peak: list[float] = field(default_factory=list)  # the best rank of a regular validation
    halvings: int = 0  # how often a batch had to be done in smaller passes for want of memory
    precision: str = ""  # of the products, float32 or bfloat16
    finished: str = ""  # why the run ended, once it has
    window: Window = field(default_factory=Window)

    @property
    def current_epoch(self) -> int:
        """From 1: the epoch that the last update was part of."""
        return self.epoch + (self.batch > 0)


def save(folder: ModelFolder, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write a checkpoint under a temporary name and rename it when it is whole."""
    final = folder.checkpoint(progress.update)
    for left in final.parent.glob(".step-*.tmp"):  # of a process that was killed
        shutil.rmtree(left)
    temporary = final.with_name(f".{final.name}.tmp")
    try:
        with report_write_errors(final):
            temporary.mkdir(parents=True)
            trainer = io.BytesIO()
            crc = save_weights(temporary / folder.weights(progress.update).name, model.state_dict())
            state = {"optimizer": optimizer.state_dict(), "progress": dataclasses.asdict(progress), "crc32": crc}
            torch.save(state, trainer)
            with atomic_write(temporary / folder.trainer(progress.update).name, "wb") as file:
                file.write(trainer.getbuffer())
            os.replace(temporary, final)
            sync(final.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)  # a full disk needs the room
        raise


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> int:
    """Gives the CRC-32 of the file."""
    content = safetensors.torch.save({name: tensor.detach().contiguous() for name, tensor in weights.items()})
    with atomic_write(path, "wb") as file:
        file.write(content)
    return zlib.crc32(content)


def load_weights(path: Path, device: str = "cpu") -> dict[str, Tensor]:
    """Raises UserError for a file that is missing, cut short or something else."""
    try:
        return safetensors.torch.load_file(path, device=device)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"{path}: not a usable weights file ({error}); delete {path.parent} to use another checkpoint"
        ) from None


def load_into(model: nn.Module, path: Path) -> None:
    """Put weights into ``model``; a UserError names the first one that is missing, unknown or of another shape."""
    weights, expected = load_weights(path), model.state_dict()
    for name in [*expected, *weights]:
        ours, theirs = expected.get(name), weights.get(name)
        if ours is None or theirs is None or ours.shape != theirs.shape:
            shapes = [None if t is None else tuple(t.shape) for t in (ours, theirs)]
            raise UserError(f"{path}: {name}: this model wants shape {shapes[0]}, the file has {shapes[1]}")
    model.load_state_dict(weights)


def restore(folder: ModelFolder, update: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Put checkpoint ``update`` back; raises UserError naming the file that cannot be used."""
    path, weights, trainer = folder.checkpoint(update), folder.weights(update), folder.trainer(update)
    load_into(model, weights)
    if not trainer.exists():
        raise UserError(f"{path}: has weights but no {trainer.name}: an average, say, which cannot be trained on")
    try:
        with zipfile.ZipFile(trainer) as packed:
            if damaged := packed.testzip():  # torch.load does not look at the check sums
                raise ValueError(f"{damaged} is damaged")
        saved: dict[str, Any] = torch.load(trainer, map_location="cpu", weights_only=True)
        crc = zlib.crc32(weights.read_bytes())
        if saved.get("crc32", crc) != crc:
            raise ValueError("the weights beside it are not those it was saved with")
        optimizer.load_state_dict(saved["optimizer"])
        for parameter, state in optimizer.state.items():
            for name, value in state.items():
                if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                    raise ValueError(f"{name} has shape {tuple(value.shape)} instead of {tuple(parameter.shape)}")
        progress = configs.build(Progress, saved["progress"], "progress")
        if progress.update != update:
            raise ValueError(f"it is of update {progress.update}")
        return progress
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{trainer}: cannot be used ({reason}); delete {path} to go on from another checkpoint"
        ) from None


def prune(folder: ModelFolder, keep: set[int]) -> None:
    """Delete every checkpoint whose update is not in ``keep``."""
    for update in set(folder.updates()) - keep:
        going = folder.checkpoint(update).with_name(f".step-{update}.tmp")  # at once, so that no half of it is found
        os.replace(folder.checkpoint(update), going)
        shutil.rmtree(going)


def log_metrics(folder: ModelFolder, record: Mapping[str, Any]) -> None:
    path = folder.metrics
    with report_write_errors(path):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        sync(path)  # before the checkpoint that counts on it


def rewind_metrics(folder: ModelFolder, update: int) -> None:
    """Forget what was logged after checkpoint ``update``: those updates are about to be made again."""
    lines = read_text(folder.metrics).splitlines(keepends=True)
    kept = []
    for line in lines:
        try:
            if json.loads(line)["update"] <= update:
                kept.append(line)
        except (ValueError, RecursionError, TypeError, KeyError):
            continue  # the half line of a killed process
    if len(kept) != len(lines):
        with atomic_write(folder.metrics) as file:
            file.writelines(kept)
