"""How strongly each layer of a model moves and is moved: norms of activations and gradients on one batch.

The claim of Zhou et al. 2016 (section 3.1) and Wang et al. 2017 made visible: with a linear path through the layers,
the gradient that reaches the bottom of a stack is not much smaller than that at its top.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nmtkit.data.batches import Batch
from nmtkit.models.base import Seq2Seq
from nmtkit.ops.cross_entropy import linear_cross_entropy
from nmtkit.symbols import PAD


class Layer(NamedTuple):
    """Norms over the whole batch. None for a layer that is run step by step, whose output nobody sees as a whole."""

    name: str
    activation: float | None  # of the layer's output h
    gradient: float | None  # of the loss by h
    weights: float  # of the loss by the layer's parameters

    @property
    def stack(self) -> str:
        """The list of layers that it is part of."""
        return self.name.rpartition(".")[0]


class Ratio(NamedTuple):
    """What of the gradient at the top of a stack arrives at its bottom."""

    stack: str
    layers: int
    gradient: float


def gradient_flow(model: Seq2Seq, batch: Batch) -> list[Layer]:
    """Every layer's norms for the mean cross-entropy of the batch's words, without dropout; bottom layers first."""
    model.eval()
    model.zero_grad(set_to_none=True)
    outputs: dict[str, Tensor] = {}
    found = {name: module for name, module in model.named_modules() if _in_list(model, name)}
    hooks = [module.register_forward_hook(_keep(outputs, name)) for name, module in found.items()]
    try:
        hidden = model(batch.src, batch.mask, batch.tgt).flatten(0, 1)
    finally:
        for hook in hooks:
            hook.remove()
    real = (batch.tgt != PAD).flatten().nonzero().squeeze(1)
    loss, _ = linear_cross_entropy(hidden[real], model.output.weight, model.output.bias, batch.tgt.flatten()[real])
    for kept in outputs.values():
        kept.retain_grad()
    (loss / len(real)).backward()
    names = [name for name in found if _is_layer(name, found, outputs)]
    layers = []
    for name in names:
        output = outputs.get(name)
        gradients = [p.grad for p in found[name].parameters() if p.grad is not None]
        layers.append(
            Layer(
                name,
                None if output is None else float(output.detach().norm()),
                None if output is None or output.grad is None else float(output.grad.norm()),
                float(torch.nn.utils.get_total_norm(gradients)) if gradients else 0.0,
            )
        )
    return layers


def ratios(layers: Sequence[Layer]) -> list[Ratio]:
    """Bottom to top, of every stack in which the gradients of several layers are known."""
    found = []
    for stack in dict.fromkeys(layer.stack for layer in layers):
        gradients = [layer.gradient for layer in layers if layer.stack == stack and layer.gradient is not None]
        if len(gradients) > 1 and gradients[-1] > 0:
            found.append(Ratio(stack, len(gradients), gradients[0] / gradients[-1]))
    return found


def _in_list(model: nn.Module, name: str) -> bool:
    """Whether a module is one of a list of alike ones, normalisations excepted: what papers call a layer."""
    parent, _, last = name.rpartition(".")
    return last.isdigit() and isinstance(model.get_submodule(parent), nn.ModuleList) and not parent.endswith("norms")


def _is_layer(name: str, found: dict[str, Any], outputs: dict[str, Tensor]) -> bool:
    """Of lists within lists, the innermost that are run as a whole, or the innermost where none is."""
    inside = [other for other in found if other.startswith(f"{name}.")]
    around = [other for other in found if name.startswith(f"{other}.")]
    if name in outputs:
        return not any(other in outputs for other in inside)
    return not inside and not any(_is_layer(other, found, outputs) for other in around)


def _keep(outputs: dict[str, Tensor], name: str) -> Any:
    def hook(module: nn.Module, arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        if isinstance(first, Tensor) and first.requires_grad:
            outputs[name] = first

    return hook
