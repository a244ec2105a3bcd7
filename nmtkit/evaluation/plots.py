"""Drawings by matplotlib, which is an extra: pip install 'nmtkit[plot]'."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.evaluation.gradients import Layer
from nmtkit.lines import report_write_errors

LINES = ("-", "--", ":", "-.")  # of the stacks; colours are of the models


def plot_flows(flows: Mapping[str, Sequence[Layer]], path: Path) -> None:
    """Norms of activations and of gradients, layer by layer from the bottom, a line for each stack of each model."""
    figure = _figure(path)
    left, right = figure.subplots(1, 2)
    for number, (name, layers) in enumerate(flows.items()):
        for style, stack in enumerate(dict.fromkeys(layer.stack for layer in layers)):
            shown = [layer for layer in layers if layer.stack == stack and layer.gradient]
            if shown:
                places = [int(layer.name.rpartition(".")[2]) + 1 for layer in shown]
                line = {"color": f"C{number}", "linestyle": LINES[style % len(LINES)], "marker": "o", "markersize": 3}
                left.plot(places, [layer.activation for layer in shown], **line)
                right.plot(places, [layer.gradient for layer in shown], **line, label=f"{name}: {stack}")
    for axes, title in ((left, "output, |h|"), (right, "gradient, |dL/dh|")):
        axes.set(title=title, xlabel="layer, from the bottom", ylabel="norm over the batch", yscale="log")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    _save(figure, path)


def _figure(path: Path) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError(f"{path}: drawing needs matplotlib; install it with: pip install 'nmtkit[plot]'") from None
    return Figure(figsize=(10, 5.5), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    try:
        with report_write_errors(path):
            figure.savefig(path, dpi=150)
    except ValueError as error:  # matplotlib names the formats it knows
        raise UserError(f"{path}: {error}") from None
