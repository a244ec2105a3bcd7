"""Gradient flow: the norms of each layer's activations and gradients on one batch.

They test the claim of Zhou et al. 2016 (section 3.1) and Wang et al. 2017: with a linear path through the layers, the
gradient at the bottom of a stack is not much smaller than at its top.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nmtkit.data.batches import Batch
from nmtkit.errors import UserError
from nmtkit.evaluation.charts import Series, line_chart
from nmtkit.evaluation.page import page
from nmtkit.models.base import Seq2Seq, direction, is_stack
from nmtkit.ops.cross_entropy import linear_cross_entropy


class Layer(NamedTuple):
    """Norms of a layer over the whole batch; None for a layer that runs step by step, whose output is not collected."""

    name: str  # of the module, as in ``nmtkit inspect --shapes``
    activation: float | None  # of the output h
    gradient: float | None  # of dL/dh
    weights: float  # of the gradient of the layer's parameters

    @property
    def stack(self) -> str:
        """The stack of layers that this one belongs to, or an empty string."""
        parent, _, last = self.name.rpartition(".")
        return parent if last.isdigit() and is_stack(parent) else ""

    @property
    def label(self) -> str:
        """The name, with the direction of a bidirectional layer."""
        way = direction(self.name)
        return f"{self.name}, {way}" if way else self.name


class Ratio(NamedTuple):
    """The gradient norm at the bottom of a stack, divided by that at its top."""

    stack: str
    layers: int
    gradient: float


def gradient_flow(model: Seq2Seq, batch: Batch) -> list[Layer]:
    """The norms of every layer of encoder and decoder, bottom first, for the mean cross-entropy per word of the batch.

    Dropout is off. The gradients of the model are replaced.
    """
    model.eval()
    model.zero_grad(set_to_none=True)
    outputs: dict[str, Tensor] = {}
    parts = {**dict(_parts(model.encoder, "encoder")), **dict(_parts(model.decoder, "decoder"))}
    with ExitStack() as hooks:
        for name, module in parts.items():
            hooks.enter_context(module.register_forward_hook(partial(_keep, outputs, name)))
        hidden = model(batch.src, batch.mask, batch.tgt).flatten(0, 1)
    words = batch.tgt.flatten()[batch.words]
    loss, _ = linear_cross_entropy(hidden[batch.words], model.output.weight, model.output.bias, words)
    for kept in outputs.values():
        kept.retain_grad()  # by default, PyTorch keeps gradients of parameters only
    (loss / len(words)).backward()
    # A layer is the innermost module that ran on the whole sequence; if none did, the innermost module.
    inside = {name: [other for other in parts if other.startswith(f"{name}.")] for name in parts}
    whole = {name for name in outputs if outputs.keys().isdisjoint(inside[name])}
    covered = {other for name in whole for other in inside[name]}
    shown = whole | {name for name in parts if not inside[name] and name not in covered}
    return [_layer(name, module, outputs.get(name)) for name, module in model.named_modules() if name in shown]


def _layer(name: str, module: nn.Module, output: Tensor | None) -> Layer:
    """The norms of a module after ``backward``; output (...): its output, if it ran on the whole sequence."""
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    return Layer(
        name,
        None if output is None else float(output.detach().norm()),
        None if output is None or output.grad is None else float(output.grad.norm()),
        float(torch.nn.utils.get_total_norm(gradients)) if gradients else 0.0,
    )


def ratios(layers: Sequence[Layer]) -> list[Ratio]:
    """The gradient ratio of every stack in which the gradients of several layers are known."""
    kept = []
    for stack in dict.fromkeys(layer.stack for layer in layers if layer.stack):
        gradients = [layer.gradient for layer in layers if layer.stack == stack and layer.gradient is not None]
        if len(gradients) > 1 and gradients[-1] > 0:
            kept.append(Ratio(stack, len(gradients), gradients[0] / gradients[-1]))
    return kept


def flow_page(flows: Mapping[str, Sequence[Layer]]) -> str:
    """An HTML page with charts of activations and gradients by layer for each stack, with a line for each model.

    Raises UserError if no stack of any model has two layers whose gradients are known.
    """
    stacks = list(dict.fromkeys(ratio.stack for layers in flows.values() for ratio in ratios(layers)))
    if not stacks:
        raise UserError(f"nothing to draw: no stack of two or more layers in {', '.join(flows)}")
    charts = []
    for stack in stacks:
        of_stack = {name: [layer for layer in layers if layer.stack == stack] for name, layers in flows.items()}
        numbers = [str(1 + i) for i in range(max(map(len, of_stack.values())))]
        for title, field in (("output, |h|", "activation"), ("gradient, |dL/dh|", "gradient")):
            series = []
            for colour, (name, layers) in enumerate(of_stack.items()):
                norms = enumerate(getattr(layer, field) for layer in layers)
                # Logarithms, because vanishing gradients shrink exponentially with depth; log 0 is left out.
                series.append(Series(name, [(float(i), math.log10(norm)) for i, norm in norms if norm], colour))
            labels = "layer, from the bottom", "log10 of the norm over the batch"
            charts.append(line_chart(f"{stack}: {title}", *labels, series, x_names=numbers, from_zero=False))
    return page("Gradient flow", ", ".join(flows), [("Norms by layer", f'<div class="charts">{"".join(charts)}</div>')])


def _parts(module: nn.Module, name: str, in_layer: bool = False) -> Iterator[tuple[str, nn.Module]]:
    """The layers below a module, and the largest modules that neither are in a layer nor contain one.

    All have parameters. ``in_layer``: whether the module itself is a layer or in one.
    """
    is_list = _is_list(module, name)
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}"
        if not any(True for _ in child.parameters()):
            continue
        has_layers = any(_is_list(inner, inner_name) for inner_name, inner in child.named_modules(prefix=path))
        if is_list or not (in_layer or has_layers or isinstance(child, nn.ModuleList)):
            yield path, child
        if has_layers:
            yield from _parts(child, path, in_layer or is_list)


def _is_list(module: nn.Module, name: str) -> bool:
    """True if a module is a list of layers, not of their normalisations, which are recognised by name."""
    return isinstance(module, nn.ModuleList) and not name.endswith("norms")


def _keep(outputs: dict[str, Tensor], name: str, module: nn.Module, arguments: Any, output: Any) -> None:
    """A forward hook that adds the first output of a module to ``outputs``."""
    first = output[0] if isinstance(output, tuple) else output
    if isinstance(first, Tensor) and first.requires_grad:
        outputs[name] = first
