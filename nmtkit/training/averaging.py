"""The arithmetic mean of checkpoints, as a model folder like any other."""

import re
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.lines import real_path
from nmtkit.training import checkpoint


def average(
    folder: ModelFolder, output: ModelFolder, named: Sequence[Path], best: int | None = None, last: int | None = None
) -> list[Path]:
    """Write to ``output`` the mean of the ``named`` checkpoints of ``folder``, or of its ``best`` or ``last`` N.

    Without any of these it is the mean of all ranked checkpoints. Returns the checkpoint folders that were used. The
    average is written to a temporary folder and replaces an older one at ``output`` when complete. Raises UserError
    when checkpoints are missing or have different parameters, and when ``output`` holds anything else.
    """
    if bool(named) + (best is not None) + (last is not None) > 1:
        raise UserError("give `checkpoints`, `best` or `last`: one of the three")
    folder.check()
    if real_path(output.path) == real_path(folder.path):
        raise UserError(f"{output}: the average would overwrite the run it is made of; give another `output` folder")
    output.check_replaceable()
    for path in named:
        if real_path(path).parent.parent != real_path(folder.path):
            raise UserError(f"{path}: not a checkpoint of {folder}; name its run as `model`")
    chosen = list(named) or _kept(folder, best, last)
    # In float64, one checkpoint at a time: the mean of equal weights is these weights, whatever their number.
    total = {name: tensor.double() for name, tensor in _weights(chosen[0]).items()}
    for path in chosen[1:]:
        weights = _weights(path)
        # Checkpoints of one run cannot differ, but a folder may have been put together by hand.
        if {name: t.shape for name, t in weights.items()} != {name: t.shape for name, t in total.items()}:
            raise UserError(f"{path}: has other parameters than {chosen[0]}; average checkpoints of one run")
        for name, tensor in weights.items():
            total[name] += tensor
    # The average takes the number of the first checkpoint, or 0 if that folder was renamed.
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
    if not updates:
        raise UserError(f"{folder}: has no validated checkpoint yet; `last` takes the newest ones as they are")
    wanted = last or best or len(updates)
    if wanted > len(updates):
        raise UserError(
            f"{folder}: has {len(updates)} such checkpoints, {wanted} asked for; "
            "training.keep_best and training.keep_last say how many a run keeps"
        )
    return [folder.checkpoint(update) for update in updates[:wanted]]


def _weights(path: Path) -> dict[str, Tensor]:
    """The weights in the folder of a checkpoint."""
    return checkpoint.load_weights(path / ModelFolder(path).weights(0).name)
