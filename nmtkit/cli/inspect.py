"""``nmtkit inspect``: the parts and sizes of a model, the cost of training it, and its gradient flow."""

import math
from pathlib import Path
from typing import Annotated, Any

from nmtkit.cli.options import AsJson, print_json
from nmtkit.cli.tables import print_table
from nmtkit.errors import UserError
from nmtkit.folders import SIDES
from nmtkit.options import Option
from nmtkit.workflow.inspect import Flow, FlowOptions, Inspection, compare_flows, examine
from nmtkit.writing import write_file


def inspect(
    options: FlowOptions,
    shapes: Annotated[bool, Option("Also list every parameter with its shape.", before="compare")] = False,
    gradients: Annotated[bool, Option(
        "Show the norms of activations and gradients on a batch of the data folder instead of the parts.",
        before="compare")] = False,
    plot: Annotated[Path | None, Option(
        "With --gradients, also write a plot of the norms to this file (.html).", before="data")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show the parts of a model, its parameter counts next to the paper's, and the memory and speed of its training.

    Sizes are computed for the vocabularies of the data folder, if it has any. For a preset, --gradients uses the
    initial weights of a training run; for a model folder, those of a checkpoint. Gradients are those of the mean
    cross-entropy of some training pairs, without dropout; the norms are over the whole batch. Attention that starts
    with most of its tanh units near -1 or 1 hardly learns: --gradients also shows the share of such units.

      nmtkit inspect deep-att
      nmtkit inspect run --shapes
      nmtkit inspect deep-att --gradients --compare model.fast_forward=none --plot flow.html
      nmtkit inspect deep-gru-ff --gradients --compare model.connections=none
    """
    if not gradients and (options.compare or plot):
        raise UserError("--compare and --plot need --gradients")
    if gradients and shapes:
        raise UserError("--shapes and --gradients cannot be combined; leave one of them out")
    if plot and plot.suffix != ".html":
        raise UserError(f"--plot {plot}: is written as HTML; choose a name that ends in .html")
    if plot and not plot.parent.is_dir():
        raise UserError(f"--plot {plot}: cannot be written: there is no folder {plot.parent}")
    if not gradients:
        found = examine(options)
        if as_json:
            print_json(_json(found, shapes))
        else:
            _print_parts(found, shapes)
            _print_estimate(found)
        return
    flows = compare_flows(options)
    if as_json:
        print_json(flows)
    else:
        _print_flows(flows)
    if plot:
        from nmtkit.evaluation.gradients import flow_page

        write_file(plot, flow_page({name: flow.layers for name, flow in flows.items()}))


def _print_parts(found: Inspection, shapes: bool) -> None:
    """Print the number of parameters of each part, and with ``shapes`` the shape of every parameter."""
    paper, parts = found.experiment.paper, list(found.parameters)
    counts = {found.words: found.parameters, found.experiment.data.words: found.parameters_of_paper}
    rows = [[part, *(f"{count[part] / 1e6:.3f}" for count in counts.values()), ""] for part in parts]
    # Papers report the total only.
    rows[-1][-1] = "-" if paper.parameters is None else f"{paper.parameters:g}"
    columns = [f"{src:,} and {tgt:,} words" for src, tgt in counts]
    print_table(f"{paper.title}: millions of parameters", ["part", *columns, "the paper says"], rows)
    if shapes:
        sizes = [[name, " x ".join(map(str, s)), f"{math.prod(s):,}"] for name, s in found.shapes.items()]
        print()
        print_table("every parameter", ["parameter", "shape", "numbers"], sizes)


def _json(found: Inspection, shapes: bool) -> dict[str, Any]:
    """The inspection for ``print_json``; memory is in bytes."""
    return {
        "paper": found.experiment.paper.title,
        "words": dict(zip(SIDES, found.words, strict=True)),
        "parameters": found.parameters,
        "parameters_with_words_of_paper": found.parameters_of_paper,
        "millions_in_paper": found.experiment.paper.parameters,
        "shapes": found.shapes if shapes else {},
        "training": {"device": str(found.device), **found.training._asdict()},
    }


def _print_estimate(found: Inspection) -> None:
    """Print the estimated memory and speed of training."""
    from nmtkit.training.estimate import LENGTH, SENTENCES

    costs = found.training
    memory = {
        "weights": costs.weights,
        "gradients and optimizer": costs.optimizer,
        f"a pass of {found.experiment.training.pass_tokens:,} words": costs.activations,
        "total": costs.weights + costs.optimizer + costs.activations,
    }
    rows = [[what, f"{size / 2**30:.2f} GiB"] for what, size in memory.items()]
    timed = f"on {found.device}, {SENTENCES} sentences of {LENGTH} words"
    rows.append([timed, f"{costs.words_per_second:,.0f} target words/s"])
    print()
    print_table("training in float32, estimated from one small update", ["what", "estimate"], rows)


def _print_flows(flows: dict[str, Flow]) -> None:
    """Print the norms of every layer, the saturation of additive attention, and the gradient ratio of every stack."""
    from nmtkit.evaluation.gradients import ratios

    for name, flow in flows.items():
        rows = [[layer.label, *(_norm(value) for value in layer[1:])] for layer in flow.layers]
        title = f"{name}: norms (- for a layer that runs word by word, whose activations are not collected)"
        print_table(title, ["layer", "|h|", "|dL/dh|", "|dL/dW|"], rows)
        print()
    rows = [
        [name, found.name, _norm(found.keys), f"{100 * found.share:.1f} %"]
        for name, flow in flows.items()
        for found in flow.attention
    ]
    if rows:
        print_table("additive attention: standard deviation of its keys, units whose tanh is above 0.99 in magnitude",
                    ["model", "attention", "keys", "saturated"], rows)  # fmt: skip
        print()
    rows = [[name, r.stack, str(r.layers), _norm(r.gradient)] for name, f in flows.items() for r in ratios(f.layers)]
    if rows:
        print_table("gradient at the bottom of a stack, divided by that at its top",
                    ["model", "stack", "layers", "ratio"], rows)  # fmt: skip


def _norm(value: float | None) -> str:
    """A norm as text; a dash for one that was not collected."""
    return "-" if value is None else f"{value:.3g}"
