"""The arithmetic mean of checkpoints, as a model folder like any other."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.lines import real_path
from nmtkit.training import checkpoint


def average(
    folder: Path, output: Path, named: Sequence[Path], best: int | None = None, last: int | None = None
) -> list[Path]:
    """Write to ``output`` the mean of the named checkpoints of ``folder``, or of its best or last so many.

    Gives the checkpoint folders that were used. Raises UserError when they are not there or do not fit together.
    """
    if bool(named) + (best is not None) + (last is not None) > 1:
        raise UserError("give checkpoints, --best or --last: one of the three")
    checkpoint.check_format(folder)
    if real_path(output) == real_path(folder):
        raise UserError(f"{output}: the average would overwrite the run it is made of; give another folder with -o")
    foreign = any(output.glob("*")) and not (output / "config.yaml").exists()
    if foreign or any(output.glob("checkpoints/*/trainer.pt")):
        raise UserError(f"{output}: holds a run or other files, which the average would replace; give another -o")
    for path in named:
        if real_path(path).parent.parent != real_path(folder):
            raise UserError(f"{path}: not a checkpoint of {folder}; name the run with -m")
    chosen = list(named) or _kept(folder, best, last)
    total = {name: tensor.double() for name, tensor in _weights(chosen[0]).items()}
    for path in chosen[1:]:
        weights = _weights(path)
        if {name: t.shape for name, t in weights.items()} != {name: t.shape for name, t in total.items()}:
            raise UserError(f"{path}: has other parameters than {chosen[0]}; average checkpoints of one run")
        for name, tensor in weights.items():
            total[name] += tensor
    step = int(chosen[0].name.removeprefix("step-")) if chosen[0].name.removeprefix("step-").isdigit() else 0
    checkpoint.copy_settings(folder, output)
    shutil.rmtree(output / "checkpoints", ignore_errors=True)
    weights_folder = checkpoint.step_folder(output, step)
    weights_folder.mkdir(parents=True)
    mean = {name: (tensor / len(chosen)).float() for name, tensor in total.items()}
    checkpoint.save_weights(weights_folder / "model.safetensors", mean)
    return chosen


def _kept(folder: Path, best: int | None, last: int | None) -> list[Path]:
    """Checkpoint folders by rank or by age; as many as asked for."""
    updates = checkpoint.steps(folder)[::-1] if last is not None else checkpoint.best_steps(folder)
    if not updates:
        raise UserError(f"{folder}: has no validated checkpoint yet; --last N takes the newest ones as they are")
    wanted = last or best or len(updates)
    if wanted > len(updates):
        raise UserError(
            f"{folder}: has {len(updates)} such checkpoints, {wanted} asked for; "
            "training.keep_best and training.keep_last say how many a run keeps"
        )
    return [checkpoint.step_folder(folder, update) for update in updates[:wanted]]


def _weights(path: Path) -> dict[str, Tensor]:
    return checkpoint.load_weights(path / "model.safetensors")
