"""``inspect``: the parts and sizes of a model, the cost of training it, and its gradient flow."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nmtkit.config import load_yaml, merge, parse_settings
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.options import Option, by_keyword, option
from nmtkit.workflow.shared import CHECKPOINT, CONFIGURATION, DATA, DEVICE, Settings, nested_settings, presets

if TYPE_CHECKING:
    import torch

    from nmtkit.data.batches import Batch
    from nmtkit.evaluation.gradients import Layer
    from nmtkit.evaluation.saturation import Saturation
    from nmtkit.experiment.schema import Experiment
    from nmtkit.training.estimate import Estimate

PAIRS, LONGEST = 32, 50  # sentence pairs in the batch for gradients, and tokens of their longer sides
PROBE_WORDS = 64  # in each vocabulary of the model that is timed; the cost of full vocabularies is calculated


# fmt: off
@dataclass(frozen=True)
class InspectOptions:
    """The options of ``inspect``, in the order of its help."""

    model: Path | str = option("run", Option(
        "Preset or model folder to show.", metavar="MODEL", argument=True, complete=presets))
    _: KW_ONLY
    checkpoint: str | int | None = option(None, CHECKPOINT)
    settings: Settings = option((), CONFIGURATION)
    data: Path | str = option("data", DATA)
    device: str = option("auto", DEVICE)


@dataclass(frozen=True)
class FlowOptions(InspectOptions):
    """The options of ``gradient_flows``: those of ``inspect``, and changed configurations to compare."""

    _: KW_ONLY
    compare: Sequence[str] = option((), Option(
        "With --gradients, also show the model with this value of its configuration; may be repeated.",
        metavar="KEY=VALUE", before="data"))
# fmt: on


@dataclass(frozen=True)
class Inspection:
    """The result of ``inspect``."""

    experiment: "Experiment"
    words: tuple[int, int]  # sizes of the vocabularies of the model or data folder, or the paper's
    parameters: dict[str, int]  # of each part with these vocabularies, and the ``total``
    parameters_of_paper: dict[str, int]  # the same with the paper's vocabularies
    shapes: dict[str, list[int]]  # of every parameter, by name
    device: "torch.device"
    training: "Estimate"  # memory and speed on the device, in float32


class Flow(NamedTuple):
    """The gradient flow of a model."""

    layers: "list[Layer]"  # bottom first
    attention: "list[Saturation]"  # of each additive attention


def examine(options: InspectOptions) -> Inspection:
    """The parts and sizes of a model, and the cost of training it: ``nmtkit inspect``.

    Sizes are computed for the vocabularies of a model folder or, for a preset, of the folder ``data``, if any. Raises
    UserError for an unknown model, and for settings of a trained model.
    """
    from nmtkit.experiment.plan import parameters_by_part, vocabulary_sizes
    from nmtkit.training.estimate import estimate
    from nmtkit.translation.loading import choose_device

    planned, folder = _plan(options)
    device = choose_device(options.device)
    words = vocabulary_sizes(planned, Path(options.data) if folder is None else ModelFolder.at(folder).path)
    parameters = parameters_by_part(planned, *words)
    paper = parameters_by_part(planned, *planned.data.words)
    shapes = {name: list(parameter.shape) for name, parameter in planned.empty(*words).named_parameters()}
    small = planned.build(PROBE_WORDS, PROBE_WORDS)
    costs = estimate(small, planned.training, parameters["total"], words[1], device)
    return Inspection(planned, words, parameters, paper, shapes, device, costs)


def compare_flows(options: FlowOptions) -> dict[str, Flow]:
    """The norms of each layer's activations and gradients on one batch: ``nmtkit inspect --gradients``.

    Returns the flow of the model, with the weights of a model folder or the initial weights of a preset, and of the
    model with each change in ``compare``, such as "model.fast_forward=none". Raises UserError as ``inspect`` does.
    """
    import torch

    from nmtkit.evaluation.gradients import gradient_flow
    from nmtkit.evaluation.saturation import saturation
    from nmtkit.experiment.model import check_vocabularies, load_model
    from nmtkit.experiment.plan import vocabulary_sizes
    from nmtkit.training import optimizers
    from nmtkit.translation.loading import choose_device

    plans = {str(options.model): _plan(options), **{change: _plan(options, change) for change in options.compare}}
    data, device = Path(options.data), choose_device(options.device)
    batch = _batch(data).to(device)
    flows = {}
    for name, (planned, folder) in plans.items():
        if folder:
            model, _ = load_model(folder, device)
            check_vocabularies(ModelFolder.at(folder), data)
        else:  # the initial weights of a training run
            torch.manual_seed(planned.training.seed_of(planned.training.init_seed))
            model = planned.build(*vocabulary_sizes(planned, data))
            optimizers.initialise(model, planned.training.groups)
            model.to(device)
        flows[name] = Flow(gradient_flow(model, batch), saturation(model, batch))
    return flows


inspect = by_keyword(InspectOptions, examine, "inspect")
gradient_flows = by_keyword(FlowOptions, compare_flows, "gradient_flows")


def _plan(options: InspectOptions, *changes: str) -> "tuple[Experiment, Path | None]":
    """The experiment of a preset with the user's settings and these changes, or of a model folder, and that folder.

    Raises UserError for an ensemble, for a folder without a model, and for settings of a trained model.
    """
    from nmtkit.experiment.presets import load_preset
    from nmtkit.experiment.schema import build_experiment

    model = str(options.model)
    # A folder wins over a preset of its name.
    folder = ModelFolder.at(Path(model), options.checkpoint)
    trained = folder.config.exists()
    if trained and (options.settings or changes):
        raise UserError(f"{model}: is a trained model; `settings` and `compare` are for presets")
    # For the default, "no such preset" would be misleading.
    if not trained and model == "run":
        raise UserError("run: no model there yet; name a preset, for example: nmtkit inspect deep-att")
    if folder.path.is_dir():
        folder.check()
    values = load_yaml(folder.config) if trained else load_preset(model)
    values = merge(merge(values, nested_settings(options.settings)), parse_settings("compare", changes))
    return build_experiment(values, model), folder.named if trained else None


def _batch(data: Path) -> "Batch":
    """A batch of training pairs of similar length, the same in every call."""
    from nmtkit.data import batches
    from nmtkit.data.corpus import Corpus

    corpus = Corpus.open(data, "train")
    rows = batches.within(corpus, LONGEST)
    if not len(rows):
        raise UserError(f"{data}: no training pair has words on both sides and at most {LONGEST} of them")
    [first, *_] = batches.epoch_batches(corpus, rows, sentences=PAIRS, tokens=None, seed=0, epoch=0)
    return batches.collate(corpus, first)
