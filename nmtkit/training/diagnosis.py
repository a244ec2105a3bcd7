"""Exploding gradients, and the origin of NaN and infinity."""

import logging
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.training.gradient import accumulate, micro_batches
from nmtkit.training.graphs import Graphs
from nmtkit.training.loss import Gradient
from nmtkit.training.run import Run

log = logging.getLogger(__name__)


def check_gradient(run: Run, rows: np.ndarray, gradient: Gradient) -> None:
    """Warn of an exploding gradient; raise UserError with the origin if loss or gradient is not finite.

    rows (P,): the pairs of the batch.
    """
    progress, norm = run.progress, gradient.norm
    place = f"update {progress.update} (epoch {progress.epoch + 1}, batch {progress.batch})"
    shown = ", ".join(run.corpus.lines(int(row)) for row in rows[:4])
    lines = f"corpus lines {shown} of {len(rows)} in the batch"
    if not math.isfinite(norm) or not math.isfinite(gradient.loss):
        run.seed_dropout()  # repeats the update with the same dropout
        again = run
        if run.graphs is not None:  # which do not call modules
            run.graphs.clear()
            again = replace(run, graphs=Graphs(most=0))
        origin = first_offender(run.model, lambda: accumulate(again, rows, micro_batches(again, rows)))
        found = f"loss {gradient.loss:g}, gradient norm {norm:g}, first in {origin}"
        raise UserError(f"{place}: {found}; {lines}; {remedy(run.folder)}")
    if progress.window.exploded(norm):
        log.warning("%s: gradient norm %.3g, mean so far %.3g; %s", place, norm, progress.window.mean_norm, lines)


def remedy(folder: ModelFolder) -> str:
    """What to do about a run that has diverged, for a message."""
    text = "start again in another folder with a lower learning rate or training.clip_norm"
    if len(saved := folder.updates()) > 1:
        text += f", or delete {folder.checkpoint(saved[-1])} and continue from step-{saved[-2]}"
    return text


def first_offender(model: nn.Module, run: Callable[[], object]) -> str:
    """A description of the first place with a NaN or an infinity.

    Checks the model's weights, then the outputs of its modules during ``run``, then its gradients after ``run``.
    """
    # Weights first, because they affect all outputs.
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"the weights {name}"
    offenders: list[str] = []

    def check(name: str, module: nn.Module, given: Any, output: Any) -> None:
        if not offenders and not _finite(output):
            offenders.append(name)

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(check, name)))
        run()
    if offenders:
        return f"the output of {offenders[0] or 'the decoder'}"  # the whole model has no name
    # Backwards from the loss, so the first bad gradient is closest to the origin.
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not _finite(parameter.grad):
            return f"the gradient of {name}"
    return "the loss"


def _finite(tree: Any) -> bool:
    """True if all numbers in a tree of tensors are finite."""
    if isinstance(tree, Tensor):
        return bool(tree.isfinite().all())
    return all(map(_finite, tree)) if isinstance(tree, tuple) else True
