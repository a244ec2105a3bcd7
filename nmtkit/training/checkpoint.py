"""Checkpoints: weights as safetensors, the trainer's state as plain values and tensors.

A checkpoint is written to a temporary folder and renamed, so a killed process leaves no incomplete one.
"""

import dataclasses
import io
import logging
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from nmtkit import config as configs
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder, changed_file, crc32, write_checksums
from nmtkit.training.progress import Progress
from nmtkit.writing import report_write_errors, sync, write_file

log = logging.getLogger(__name__)


def save(folder: ModelFolder, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write a checkpoint. Raises UserError if it cannot be written; earlier checkpoints stay intact."""
    final = folder.checkpoint(progress.update)
    for old in final.parent.glob(".step-*.tmp"):  # of a killed process
        shutil.rmtree(old, ignore_errors=True)  # NFS keeps a file that is open; the next checkpoint tries again
    temporary = final.with_name(f".{final.name}.tmp")
    try:
        with report_write_errors(final):
            temporary.mkdir(parents=True)
            crc = save_weights(temporary / folder.weights(progress.update).name, model.state_dict())
            state = {"optimizer": optimizer.state_dict(), "progress": dataclasses.asdict(progress), "crc32": crc}
            _save_plain(temporary / folder.trainer(progress.update).name, state)
            os.replace(temporary, final)
            sync(final.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)  # to free space on a full disk
        raise


def save_validated(folder: ModelFolder, progress: Progress) -> None:
    """Add the progress after validation to the checkpoint saved before it."""
    _save_plain(folder.validated(progress.update), dataclasses.asdict(progress))


def _save_plain(path: Path, values: dict[str, Any]) -> None:
    """Write plain values and tensors of any shape."""
    content = io.BytesIO()  # first to memory, because torch reports a full disk as an internal error
    torch.save(values, content)
    write_file(path, content.getbuffer())


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> int:
    """Write tensors of any shape as safetensors, with a checksum file; returns the CRC-32 of the file."""
    content = safetensors.torch.save({name: tensor.detach().contiguous() for name, tensor in weights.items()})
    write_file(path, content)
    crc = zlib.crc32(content)
    write_checksums(path.parent, {path.name: crc})
    return crc


def load_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, of any shape, by name. Raises UserError if it is missing, damaged or of another kind."""
    try:
        if changed_file(path.parent) and path.exists():
            raise OSError("changed since it was written")
        return safetensors.torch.load_file(path)
    except (OSError, MemoryError, safetensors.SafetensorError) as error:
        remedy = f"copy it again, or delete {path.parent} to use another checkpoint"
        raise UserError(f"{path}: not a usable weights file ({error}); {remedy}") from None


def load_into(model: nn.Module, path: Path) -> None:
    """Load weights into ``model``.

    Raises UserError for the first tensor that is missing, unknown, of another shape, or of integers instead of floats.
    """
    weights, expected = load_weights(path), model.state_dict()
    for name in [*expected, *weights]:
        ours, theirs = expected.get(name), weights.get(name)
        if ours is None or theirs is None or ours.shape != theirs.shape:
            shapes = [None if t is None else tuple(t.shape) for t in (ours, theirs)]
            raise UserError(f"{path}: {name}: this model has shape {shapes[0]}, the file has {shapes[1]}")
        if ours.is_floating_point() != theirs.is_floating_point():
            raise UserError(f"{path}: {name}: its numbers are {theirs.dtype}, not {ours.dtype}")
    model.load_state_dict(weights)  # copied, so that the file is not kept open


def restore(folder: ModelFolder, update: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Restore model and optimizer from checkpoint ``update``; returns its progress, after its validation if it has one.

    Raises UserError with the unusable file, and what to delete to resume from another checkpoint.
    """
    weights, trainer, validated = folder.weights(update), folder.trainer(update), folder.validated(update)
    load_into(model, weights)
    if not trainer.exists():
        reason = f"has no {trainer.name}, like an averaged model"
        raise UserError(f"{trainer.parent}: {reason}, so training cannot resume from it")
    with _report_damage(trainer):
        saved = _load_plain(trainer)
        crc = crc32(weights)
        if saved.get("crc32", crc) != crc:  # for example, copied from another checkpoint
            raise ValueError("the weights beside it are not those that it was saved with")
        # States are matched to parameters by position, and the groups' order in the settings may have changed.
        order = [group.get("name") for group in saved["optimizer"]["param_groups"]]
        optimizer.param_groups.sort(key=lambda group: order.index(group.get("name")))
        # Learning rates and other hyperparameters come from the settings, which may change when a run is resumed.
        of_settings = optimizer.param_groups
        optimizer.load_state_dict(saved["optimizer"])  # makes new groups, with the same parameters
        for group, own in zip(optimizer.param_groups, of_settings, strict=True):
            group.update(own)
        for parameter, state in optimizer.state.items():
            for name, value in state.items():
                # Step counts are scalars; other state has the shape of its parameter.
                if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                    raise ValueError(f"{name} has shape {tuple(value.shape)} instead of {tuple(parameter.shape)}")
        progress = _progress(saved["progress"], update)
    if not validated.exists():
        return progress
    with _report_damage(validated):
        return _progress(_load_plain(validated), update)


def _load_plain(path: Path) -> dict[str, Any]:
    """The values in a file of ``_save_plain``. Raises an exception of any type if it is damaged."""
    with zipfile.ZipFile(path) as packed:
        if damaged := packed.testzip():  # torch.load does not verify checksums
            raise ValueError(f"{damaged} is damaged")
    values: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return values


def _progress(values: Any, update: int) -> Progress:
    """The progress from plain values. Raises ValueError if it is not that of ``update``."""
    progress = configs.build(Progress, values, "progress")
    if progress.update != update:
        raise ValueError(f"it belongs to update {progress.update}")
    return progress


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    """Turn any exception while reading a checkpoint file into a UserError that says what to delete."""
    try:
        yield
    except Exception as error:  # torch raises many types for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: cannot be used ({reason}); delete {path.parent} to use another checkpoint") from None


def prune(folder: ModelFolder, keep: set[int]) -> None:
    """Delete every checkpoint whose update is not in ``keep``."""
    for update in set(folder.updates()) - keep:
        # Renamed first, so that a half-deleted checkpoint is not used.
        going = folder.checkpoint(update).with_name(f".step-{update}.tmp")
        os.replace(folder.checkpoint(update), going)
        shutil.rmtree(going, ignore_errors=True)
