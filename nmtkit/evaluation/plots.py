"""Drawings by matplotlib, which is an extra: pip install 'nmtkit[plot]'."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.evaluation.gradients import Layer, ratios
from nmtkit.lines import atomic_write

ROW = 2.3  # inches that the panels of a stack are high


def plot_flows(flows: Mapping[str, Sequence[Layer]], path: Path) -> None:
    """Norms of activations and gradients by layer, bottom first: a row of panels for each stack, a line for each model.

    Raises UserError where no stack of any model has two layers whose outputs are known, without matplotlib, and for a
    kind of file that it does not write.
    """
    stacks = list(dict.fromkeys(ratio.stack for layers in flows.values() for ratio in ratios(layers)))
    if not stacks:
        raise UserError(f"{path}: nothing to draw: no two layers of {', '.join(flows)} stand on one another")
    figure = _figure(path, ROW * len(stacks) + 1)
    panels = figure.subplots(len(stacks), 2, squeeze=False)
    for (left, right), stack in zip(panels, stacks, strict=True):
        for number, (name, layers) in enumerate(flows.items()):
            # A gradient of 0 has no place on a logarithmic axis.
            shown = [layer for layer in layers if layer.stack == stack and layer.gradient]
            places = [int(layer.name.rpartition(".")[2]) + 1 for layer in shown]
            line = {"color": f"C{number}", "marker": "o", "markersize": 3}
            left.plot(places, [layer.activation for layer in shown], **line, label=name)
            right.plot(places, [layer.gradient for layer in shown], **line)
        # Logarithmic, because gradients that vanish fall by a factor from layer to layer.
        for axes, kind in ((left, "output, |h|"), (right, "gradient, |dL/dh|")):
            axes.set(title=f"{stack}: {kind}", yscale="log")
            axes.title.set_fontsize("small")
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(alpha=0.3)
    figure.supxlabel("layer, from the bottom", fontsize="small")
    figure.supylabel("norm over the batch", fontsize="small")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize="small")
    _save(figure, path)


def _figure(path: Path, height: float) -> Any:
    """An empty figure, ``height`` inches high."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError(f"{path}: drawing needs matplotlib; install it with: pip install 'nmtkit[plot]'") from None
    return Figure(figsize=(9, height), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    """Write the figure. Raises UserError where it cannot be written, or not as a file of that kind."""
    try:
        with atomic_write(path, "wb") as file:
            figure.savefig(file, dpi=150, format=path.suffix.removeprefix(".") or None)
    except ValueError as error:  # matplotlib names the formats it knows
        raise UserError(f"{path}: {error}") from None
