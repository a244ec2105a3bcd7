"""Checkpoints: weights as safetensors, the trainer's state as text and plain tensors, folders renamed into place.

A process may be killed at any moment: what has the name of a checkpoint is whole, and nothing else counts.
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
from nmtkit.lines import atomic_write, report_write_errors, sync
from nmtkit.training.progress import Progress

log = logging.getLogger(__name__)


def save(folder: ModelFolder, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write a checkpoint under a temporary name and rename it when it is whole.

    Raises UserError when it cannot be written; earlier checkpoints stay intact.
    """
    final = folder.checkpoint(progress.update)
    for left in final.parent.glob(".step-*.tmp"):  # left by a killed process
        shutil.rmtree(left)
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
    """Write the progress after a validation to the checkpoint that was saved before it."""
    _save_plain(folder.validated(progress.update), dataclasses.asdict(progress))


def _save_plain(path: Path, values: dict[str, Any]) -> None:
    """Write plain values and tensors of any shape."""
    content = io.BytesIO()  # in memory first, because torch reports a full disk as an internal error
    torch.save(values, content)
    with atomic_write(path, "wb") as file:
        file.write(content.getbuffer())


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> int:
    """Write tensors of any shape as safetensors, with a checksum file; returns the CRC-32 of the file."""
    content = safetensors.torch.save({name: tensor.detach().contiguous() for name, tensor in weights.items()})
    with atomic_write(path, "wb") as file:
        file.write(content)
    crc = zlib.crc32(content)
    write_checksums(path.parent, {path.name: crc})
    return crc


def load_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, of any shape, by name. Raises UserError for a missing, damaged or other file."""
    try:
        if changed_file(path.parent) and path.exists():
            raise OSError("changed since it was written")
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"{path}: not a usable weights file ({error}); copy it again from where it came, "
            f"or delete {path.parent} to use another checkpoint"
        ) from None


def load_into(model: nn.Module, path: Path) -> None:
    """Put weights into ``model``; a UserError names the first one that is missing, unknown or of another shape."""
    weights, expected = load_weights(path), model.state_dict()
    for name in [*expected, *weights]:
        ours, theirs = expected.get(name), weights.get(name)
        if ours is None or theirs is None or ours.shape != theirs.shape:
            shapes = [None if t is None else tuple(t.shape) for t in (ours, theirs)]
            raise UserError(f"{path}: {name}: this model wants shape {shapes[0]}, the file has {shapes[1]}")
    model.load_state_dict(weights)  # copied, so that the file is not kept open


def restore(folder: ModelFolder, update: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Restore model and optimiser from checkpoint ``update``, and return its progress.

    That is the progress after the validation, if there was one, or else the one before it.

    Raises UserError naming the unusable file, and what to delete to resume from another checkpoint.
    """
    weights, trainer, validated = folder.weights(update), folder.trainer(update), folder.validated(update)
    load_into(model, weights)
    if not trainer.exists():
        raise UserError(
            f"{trainer.parent}: has weights but no {trainer.name}: an average, say, which cannot be trained on"
        )
    with _report_damage(trainer):
        saved = _load_plain(trainer)
        crc = crc32(weights)
        if saved.get("crc32", crc) != crc:  # of another update, say, put there by hand
            raise ValueError("the weights beside it are not those it was saved with")
        # States are matched to parameters by position, and the groups' order in the settings may have changed.
        order = [group.get("name") for group in saved["optimizer"]["param_groups"]]
        optimizer.param_groups.sort(key=lambda group: order.index(group.get("name")))
        # Learning rates and the like come from the settings, which may change when a run is resumed.
        settings = [
            {name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups
        ]
        optimizer.load_state_dict(saved["optimizer"])
        for group, own in zip(optimizer.param_groups, settings, strict=True):
            group.update(own)
        for parameter, state in optimizer.state.items():
            for name, value in state.items():
                # Step counts are scalars; all other optimiser state has the shape of its parameter.
                if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                    raise ValueError(f"{name} has shape {tuple(value.shape)} instead of {tuple(parameter.shape)}")
        progress = _progress(saved["progress"], update)
    if not validated.exists():
        return progress
    with _report_damage(validated):
        return _progress(_load_plain(validated), update)


def _load_plain(path: Path) -> dict[str, Any]:
    """The content written by ``_save_plain``; raises any kind of exception if it is damaged."""
    with zipfile.ZipFile(path) as packed:
        if damaged := packed.testzip():  # torch.load does not verify checksums
            raise ValueError(f"{damaged} is damaged")
    values: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return values


def _progress(values: Any, update: int) -> Progress:
    """The progress of plain values; raises ValueError for that of another update than ``update``."""
    progress = configs.build(Progress, values, "progress")
    if progress.update != update:
        raise ValueError(f"it is of update {progress.update}")
    return progress


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    """Turn any exception caused by a checkpoint file into a UserError that says what to delete."""
    try:
        yield
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{path}: cannot be used ({reason}); delete {path.parent} to go on from another checkpoint"
        ) from None


def prune(folder: ModelFolder, keep: set[int]) -> None:
    """Delete every checkpoint whose update is not in ``keep``."""
    for update in set(folder.updates()) - keep:
        # Renamed first, so that no partial checkpoint is found.
        going = folder.checkpoint(update).with_name(f".step-{update}.tmp")
        os.replace(folder.checkpoint(update), going)
        shutil.rmtree(going)
