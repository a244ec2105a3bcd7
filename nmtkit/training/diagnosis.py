"""Where a loss that is no number comes from."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn


def first_offender(model: nn.Module, run: Callable[[], object]) -> str:
    """The first place with a NaN or an infinity: among the model's weights, in what its modules give while ``run``
    runs it, or among the gradients that ``run`` leaves; these from the loss backwards."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"the weights {name}"
    found: list[str] = []

    def look(name: str, module: nn.Module, given: Any, output: Any) -> None:
        if not found and not _finite(output):
            found.append(name)

    hooks = [module.register_forward_hook(partial(look, name)) for name, module in model.named_modules()]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    if found:
        return f"the output of {found[0] or 'the decoder'}"
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not _finite(parameter.grad):
            return f"the gradient of {name}"
    return "the loss"


def _finite(tree: Any) -> bool:
    if isinstance(tree, Tensor):
        return bool(tree.isfinite().all())
    return all(map(_finite, tree)) if isinstance(tree, tuple) else True
