"""Checkpoint averaging: the mean of the weights, as a model folder like any other."""

import re
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from nmtkit.errors import UserError, counted
from nmtkit.folders import ModelFolder
from nmtkit.training import checkpoint
from nmtkit.writing import real_path


def average(
    folder: ModelFolder, output: ModelFolder, named: Sequence[Path], best: int | None = None, last: int | None = None
) -> list[Path]:
    """Write to ``output`` the mean of the ``named`` checkpoints of ``folder``, or of its ``best`` or ``last`` N.

    The default is all ranked checkpoints. Returns the checkpoint folders used. The average is written to a temporary
    folder and replaces an older model at ``output`` when complete. Raises UserError if checkpoints are missing or have
    different parameters, or if ``output`` is a run or has other files.
    """
    if bool(named) + (best is not None) + (last is not None) > 1:
        raise UserError("`checkpoints`, `best` and `last` cannot be combined; give one")
    folder.check()
    if real_path(output.path) == real_path(folder.path):
        raise UserError(f"{output}: the average would overwrite the run; give another `output` folder")
    output.check_replaceable()
    real = [real_path(path) for path in named]
    for path, place in zip(named, real, strict=True):
        if place.parent.parent != real_path(folder.path):
            raise UserError(f"{path}: not a checkpoint of {folder}; average checkpoints of one run, given as `model`")
        if real.count(place) > 1:
            raise UserError(f"{path}: is named twice; name each checkpoint once")
    chosen = list(named) or _kept(folder, best, last)
    # In float64, so that the mean of equal weights is exact; one checkpoint at a time, to save memory.
    total = {name: tensor.double() for name, tensor in _weights(chosen[0]).items()}
    for path in chosen[1:]:
        weights = _weights(path)
        # Checkpoints of one run agree, but the user may have copied one from another run.
        if {name: t.shape for name, t in weights.items()} != {name: t.shape for name, t in total.items()}:
            raise UserError(f"{path}: has different parameters from {chosen[0]}; average checkpoints of one run")
        for name, tensor in weights.items():
            total[name] += tensor
    # The average has the number of the first checkpoint, or 0 if that folder was renamed.
    number = chosen[0].name.removeprefix("step-")
    step = int(number) if re.fullmatch("[0-9]{1,18}", number) else 0
    mean = {name: (tensor / len(chosen)).float() for name, tensor in total.items()}
    with output.replaced() as new:
        folder.copy_settings(new)
        new.checkpoint(step).mkdir(parents=True)
        checkpoint.save_weights(new.weights(step), mean)
    return chosen


def _kept(folder: ModelFolder, best: int | None, last: int | None) -> list[Path]:
    """The ``best`` or ``last`` N checkpoint folders; all ranked ones without either."""
    updates = folder.updates()[::-1] if last is not None else folder.best_updates()
    if not updates and last is not None:
        raise UserError(f"{folder}: has no checkpoint yet; nmtkit train makes one")
    if not updates:
        raise UserError(f"{folder}: has no validated checkpoint; `last` averages the newest without validation")
    wanted = last or best or len(updates)
    if wanted > len(updates):
        keeps = "a run keeps training.keep_best and training.keep_last of them"
        had = counted(len(updates), "best checkpoint" if last is None else "checkpoint")
        raise UserError(f"{folder}: has {had}, not {wanted}; {keeps}")
    return [folder.checkpoint(update) for update in updates[:wanted]]


def _weights(path: Path) -> dict[str, Tensor]:
    return checkpoint.load_weights(path / ModelFolder(path).weights(0).name)
