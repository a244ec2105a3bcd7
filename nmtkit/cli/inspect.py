"""``nmtkit inspect``: a model's parts and sizes, what it will cost, and how gradients flow through it."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmtkit.cli.options import AsJson, Checkpoint, DataFolder, Device, Settings
from nmtkit.cli.tables import print_table
from nmtkit.config import load_yaml, merge, parse_settings
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.lines import atomic_write
from nmtkit.workflow.shared import presets

if TYPE_CHECKING:
    import torch

    from nmtkit.data.batches import Batch
    from nmtkit.evaluation.gradients import Layer
    from nmtkit.evaluation.saturation import Saturation
    from nmtkit.experiment.schema import Experiment
    from nmtkit.models.base import Seq2Seq
    from nmtkit.training.estimate import Estimate

PAIRS, LONGEST = 32, 50  # sentence pairs, and tokens of their longer side, in the batch of --gradients
# Words of each vocabulary of the model that is timed: time and memory of the real ones are added by calculation.
PROBE_WORDS = 64


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", autocompletion=presets,
        help="Preset or model folder to show.")] = "run",
    checkpoint: Checkpoint = None,
    settings: Settings = None,
    shapes: Annotated[bool, typer.Option("--shapes", help="Also list every parameter with its shape.")] = False,
    gradients: Annotated[bool, typer.Option("--gradients",
        help="Show the norms of activations and gradients on a batch of the data folder instead.")] = False,
    compare: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE",
        help="With --gradients, also show the model with this value of its configuration; may be repeated.")] = None,
    plot: Annotated[Path | None, typer.Option(
        help="With --gradients, also draw them on this page of HTML (.html).")] = None,
    data: DataFolder = Path("data"),
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show the parts of a model, its parameters beside the paper's, and the memory and speed to expect of training.

    Sizes are computed for the vocabularies of the data folder, if it has any. --gradients takes a preset with the
    initial weights of a training run, and a model folder with those of a checkpoint. The gradients are those of the
    mean cross-entropy of some training pairs, without dropout; the norms are over the whole batch. Attention that
    begins with most of its tanh units near -1 or 1 hardly learns: --gradients shows their share, too.

      nmtkit inspect deep-att
      nmtkit inspect run --shapes
      nmtkit inspect deep-att --gradients --compare model.fast_forward=none --plot flow.html
      nmtkit inspect deep-gru-ff --gradients --compare model.connections=none
    """
    if not gradients and (compare or plot):
        raise UserError("--compare and --plot go with --gradients")
    if plot and plot.suffix != ".html":
        raise UserError(f"--plot {plot}: draws a page of HTML; choose a name that ends in .html")
    # A folder wins over a preset of its name.
    folder = ModelFolder.at(Path(model), checkpoint)
    trained = folder.config.exists()
    # Its weights fit its own configuration only.
    if trained and (settings or compare):
        raise UserError(f"{model}: a trained model stays as it is; --set and --compare are for presets")

    from nmtkit.translation.loading import choose_device

    chosen = choose_device(device)
    if not gradients:
        planned = _plan(model, folder, settings or [])
        if as_json:
            print(json.dumps(_json(planned, data, shapes, chosen), indent=2, ensure_ascii=False))
            return
        _print_parts(planned, data, shapes)
        _print_estimate(planned, data, chosen)
        return
    from nmtkit.evaluation.gradients import flow_page, gradient_flow
    from nmtkit.evaluation.saturation import saturation

    # One batch for all models, so that they can be compared.
    batch = _batch(data).to(chosen)
    flows, saturations = {}, {}
    # The model itself comes first, as what the others are compared with.
    for change in ("", *(compare or [])):
        planned = _plan(model, folder, [*(settings or []), *([change] if change else [])])
        built = _build(planned, data, chosen, folder.named if trained else None)
        flows[change or model] = gradient_flow(built, batch)
        saturations[change or model] = saturation(built, batch)
    if as_json:
        shown = {
            name: {
                "layers": [layer._asdict() for layer in layers],
                "attention": [attention._asdict() for attention in saturations[name]],
            }
            for name, layers in flows.items()
        }
        print(json.dumps(shown, indent=2))
    else:
        _print_flows(flows, saturations)
    if plot:
        drawn = flow_page(flows)
        with atomic_write(plot) as file:
            file.write(drawn)


def _plan(model: str, folder: ModelFolder, settings: list[str]) -> "Experiment":
    """The experiment of a preset with these settings, or of a model folder, where ``model`` names one.

    Raises UserError for an ensemble and any other folder that is none.
    """
    from nmtkit.experiment.presets import load_preset
    from nmtkit.experiment.schema import build_experiment

    # The default names no preset; in a new folder "no such preset" would be a riddle.
    if not folder.config.exists() and model == "run":
        raise UserError("run: no model there yet; name a preset, for example: nmtkit inspect deep-att")
    if folder.path.is_dir():
        folder.check()
    values = load_yaml(folder.config) if folder.config.exists() else load_preset(model)
    return build_experiment(merge(values, parse_settings(settings)), model)


def _print_parts(planned: "Experiment", data: Path, shapes: bool) -> None:
    """Print the parameters of each part, with our vocabularies and with the paper's, and with ``shapes`` each one."""
    from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes

    # A count of parameters means nothing without the vocabularies; both are shown.
    words, paper_words = vocabulary_sizes(planned, data), planned.data.words
    ours, paper = parameters_by_part(planned, *words), parameters_by_part(planned, *paper_words)
    stated = planned.paper.parameters
    rows = [[part, f"{ours[part] / 1e6:.3f}", f"{paper[part] / 1e6:.3f}", ""] for part in ours]
    # Papers print a total only, so that the last row alone has one beside it.
    rows[-1][-1] = "-" if stated is None else f"{stated:g}"
    columns = [f"{src:,} and {tgt:,} words" for src, tgt in (words, paper_words)]
    print_table(f"{planned.paper.title}: millions of parameters", ["part", *columns, "the paper says"], rows)
    if shapes:
        sizes = [[name, " x ".join(map(str, s)), f"{math.prod(s):,}"] for name, s in _shapes(planned, words).items()]
        print()
        print_table("every parameter", ["parameter", "shape", "numbers"], sizes)


def _shapes(planned: "Experiment", words: tuple[int, int]) -> dict[str, list[int]]:
    """The shape of every parameter of the model with so many source and target words, by its name."""
    import torch

    # On the meta device tensors have a shape and no memory: nothing is initialised, however large the model.
    with torch.device("meta"):
        return {name: list(parameter.shape) for name, parameter in planned.build(*words).named_parameters()}


def _costs(planned: "Experiment", data: Path, device: "torch.device") -> "Estimate":
    """The memory and the speed to expect of training, from one update of a model with few words."""
    from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes
    from nmtkit.training.estimate import estimate

    words = vocabulary_sizes(planned, data)
    parameters = parameters_by_part(planned, *words)["total"]
    # The full vocabularies would take much memory and say little: their part is added by calculation.
    small = planned.build(PROBE_WORDS, PROBE_WORDS)
    return estimate(small, planned.training, parameters, words[1], device)


def _json(planned: "Experiment", data: Path, shapes: bool, device: "torch.device") -> dict[str, Any]:
    """The parts and the costs of a model as plain values for scripts; memory is in bytes."""
    from nmtkit.experiment.size import parameters_by_part, vocabulary_sizes

    words = vocabulary_sizes(planned, data)
    return {
        "paper": planned.paper.title,
        "words": dict(zip(("src", "tgt"), words, strict=True)),
        "parameters": parameters_by_part(planned, *words),
        "parameters_with_words_of_paper": parameters_by_part(planned, *planned.data.words),
        "millions_in_paper": planned.paper.parameters,
        "shapes": _shapes(planned, words) if shapes else {},
        "training": {"device": str(device), **_costs(planned, data, device)._asdict()},
    }


def _print_estimate(planned: "Experiment", data: Path, device: "torch.device") -> None:
    """Print the memory and the speed to expect of training."""
    from nmtkit.training.estimate import LENGTH, SENTENCES

    costs = _costs(planned, data, device)
    total = costs.weights + costs.optimizer + costs.activations
    rows = [
        ["weights", f"{costs.weights / 2**30:.2f} GiB"],
        ["gradients and optimiser", f"{costs.optimizer / 2**30:.2f} GiB"],
        [f"a pass of {planned.training.pass_tokens:,} words", f"{costs.activations / 2**30:.2f} GiB"],
        ["together", f"{total / 2**30:.2f} GiB"],
        [f"on {device}, {SENTENCES} sentences of {LENGTH} words", f"{costs.words_per_second:,.0f} target words/s"],
    ]
    print()
    print_table("training in float32, estimated from one small update", ["what", "estimate"], rows)


def _batch(data: Path) -> "Batch":
    """A batch of training pairs of similar length, the same one in every call."""
    from nmtkit.data import batches
    from nmtkit.data.corpus import Corpus

    corpus = Corpus.open(data, "train")
    # Pairs that training could use: words on both sides, and not too many for one batch.
    rows = batches.within(corpus, LONGEST)
    if not len(rows):
        raise UserError(f"{data}: no training pair has words on both sides and at most {LONGEST} of them")
    # With a fixed seed, so that two calls show the same batch.
    [first, *_] = batches.epoch_batches(corpus, rows, sentences=PAIRS, tokens=None, seed=0, epoch=0)
    return batches.collate(corpus, first)


def _build(planned: "Experiment", data: Path, device: "torch.device", folder: Path | None) -> "Seq2Seq":
    """The model with the weights in ``folder``, or with initial ones if that is None."""
    import torch

    from nmtkit.experiment.model import load_model
    from nmtkit.experiment.size import vocabulary_sizes
    from nmtkit.training import optimizers

    if folder:
        return load_model(folder, device)[0]
    # As training begins: the values that a run with this seed starts from.
    torch.manual_seed(planned.training.seed)
    model = planned.build(*vocabulary_sizes(planned, data))
    optimizers.initialise(model, planned.training.groups)
    return model.to(device)


def _print_flows(flows: "dict[str, list[Layer]]", saturations: "dict[str, list[Saturation]]") -> None:
    """Print the norms of every model's layers and the state of its attention, then the gradient below each stack."""
    from nmtkit.evaluation.gradients import ratios

    for name, layers in flows.items():
        rows = [[layer.label, *(_norm(value) for value in layer[1:])] for layer in layers]
        print_table(name, ["layer", "|h|", "|dL/dh|", "|dL/dW|"], rows)
        print()
    # A model without additive attention has no line here.
    attentions = [
        [name, found.name, _norm(found.keys), f"{100 * found.share:.1f} %"]
        for name, saturation in saturations.items()
        for found in saturation
    ]
    if attentions:
        print_table("additive attention: standard deviation of its keys, units whose tanh is above 0.99 in magnitude",
                    ["model", "attention", "keys", "saturated"], attentions)  # fmt: skip
        print()
    # A model of single layers has no stacks, and then there is no table.
    cells = [[name, r.stack, str(r.layers), _norm(r.gradient)] for name, f in flows.items() for r in ratios(f)]
    if cells:
        print_table("gradient at the bottom of a stack, divided by that at its top",
                    ["model", "stack", "layers", "ratio"], cells)  # fmt: skip


def _norm(value: float | None) -> str:
    """A norm as text; a dash for a layer that is run step by step, whose output nobody sees as a whole."""
    return "-" if value is None else f"{value:.3g}"
