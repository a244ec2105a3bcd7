"""An experiment: an architecture, its sizes, how it is trained and how it searches. Presets are experiments."""

import difflib
import importlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from nmtkit import config as configs
from nmtkit.data.corpus import Corpus
from nmtkit.data.doctor import Finding
from nmtkit.data.text import TextPipeline, copy_prep
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError
from nmtkit.evaluation.bleu import detokenized_bleu
from nmtkit.lines import atomic_write, read_lines
from nmtkit.models.base import Seq2Seq, count_parameters
from nmtkit.search.batching import translate_ids
from nmtkit.search.beam import Search
from nmtkit.training import checkpoint, loop, optimizers, precision
from nmtkit.training.checkpoint import Progress
from nmtkit.training.loop import Training, Validation

log = logging.getLogger(__name__)

# What a run that goes on may change; everything else must be as it was.
CHANGEABLE = ("paper", "data", "search", "training.max_updates", "training.max_epochs", "training.patience",
              "training.valid_every", "training.keep_best", "training.keep_last", "training.pass_tokens",
              "training.precision")  # fmt: skip


@dataclass(frozen=True)
class Paper:
    """Where a system was published and what was reported of it (null: the paper does not say)."""

    title: str
    section: str  # tables and sections that define the system
    task: str  # language pair, training data, test set, kind of BLEU
    score: float | None = None  # published BLEU of this single model
    parameters: float | None = None  # millions, as printed


@dataclass(frozen=True)
class Data:
    """What the paper's data looked like; a run takes its sizes from its own data folder."""

    segmentation: str
    src_vocab: int  # rows of the table, the four symbols included
    tgt_vocab: int


@dataclass(frozen=True)
class Experiment:
    """``model`` is the Config of the architecture file ``models/<architecture>.py``."""

    paper: Paper
    architecture: str
    model: Any
    data: Data
    training: Training
    search: Search

    def build(self, src_words: int, tgt_words: int) -> Seq2Seq:
        """The model with PyTorch's random initial values; use the meta device to only count it."""
        model: Seq2Seq = _architecture(self.architecture).build(self.model, src_words, tgt_words)
        return model


def sizes(experiment: Experiment, data: Path) -> dict[str, int]:
    """Parameters by part and in all, with the vocabularies of the data folder if there are any, else the paper's."""
    words = [experiment.data.src_vocab, experiment.data.tgt_vocab]
    if (data / "vocab.src").exists():
        words = [len(Vocabulary.load(data / f"vocab.{side}")) for side in ("src", "tgt")]
    with torch.device("meta"):
        model = experiment.build(words[0], words[1])
    parts = {
        "source embedding": model.embedding["src"],
        "encoder": model.encoder,
        "decoder": model.decoder,
        "target embedding": model.embedding["tgt"],
        "output layer": model.output,
        "total": model,
    }
    return {name: count_parameters(part) for name, part in parts.items()}


def examine_memory(experiment: Experiment, data: Path, name: str) -> list[Finding]:
    """Whether weights, gradients and the optimiser's state fit into the memory that is free; nothing if they do.

    What a batch takes comes on top; training.pass_tokens bounds it.
    """
    config = experiment.training.optimizer
    moments = {"adam": 2, "adamw": 2, "adadelta": 2, "sgd": int(config.momentum > 0)}[config.name]
    needed = 4 * (2 + moments) * sizes(experiment, data)["total"]
    free = _free_memory()
    if needed < free:
        return []
    what = f"{name} needs {needed / 2**30:.1f} GiB before the first batch, and {free / 2**30:.1f} GiB are free here"
    return [Finding(data, what, fatal=True)]


def _free_memory() -> int:
    """Bytes: the GPU's if there is one, else the computer's."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def preset_names() -> list[str]:
    files = resources.files("nmtkit.presets").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_preset(name: str) -> dict[str, Any]:
    """The plain values of a preset. Raises UserError with the nearest names for one that does not exist."""
    names = preset_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3) or names
        raise UserError(f"--model {name}: no such preset; did you mean {', '.join(near)}? `nmtkit models` lists them")
    text = resources.files("nmtkit.presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    values: dict[str, Any] = configs.parse_yaml(text, f"{name}.yaml")
    return values


def build_experiment(values: Mapping[str, Any], where: str) -> Experiment:
    """An experiment from plain values, checked against every schema; ``where`` names them in errors."""
    architecture = values.get("architecture")
    if architecture is None:
        raise UserError(f"{where}: architecture: missing; give the name of a preset with --model")
    return configs.build(Experiment, values, where, {"model": _architecture(architecture).Config})


def load_model(folder: Path, device: torch.device) -> tuple[Seq2Seq, Experiment]:
    """The model in a model folder with its best weights, ready to search, and its experiment."""
    weights = checkpoint.best_weights(folder)
    experiment = build_experiment(configs.load_yaml(folder / "config.yaml"), str(folder / "config.yaml"))
    with torch.device("meta"):
        model = experiment.build(*(len(Vocabulary.load(folder / f"vocab.{side}")) for side in ("src", "tgt")))
    model.to_empty(device=device)
    checkpoint.load_into(model, weights)
    return model.eval(), experiment


def run(experiment: Experiment, data: Path, folder: Path, device: torch.device) -> Progress:
    """Train in ``folder`` on the data folder ``data``, from the start or from where an earlier run stopped."""
    config = experiment.training
    corpus, dev = Corpus.open(data, "train"), Corpus.open(data, "dev")
    vocabularies = {side: Vocabulary.load(data / f"vocab.{side}") for side in ("src", "tgt")}
    saved_steps = checkpoint.steps(folder)
    if saved_steps:
        check_unchanged(folder, experiment, data)
    prepare_folder(folder, experiment, data)

    torch.manual_seed(config.seed)
    model = experiment.build(len(vocabularies["src"]), len(vocabularies["tgt"]))
    optimizers.initialise(model, config.groups)
    model.to(device)
    optimizer = optimizers.build_optimizer(model, config.optimizer, config.groups)
    progress = Progress()
    if saved_steps:
        progress = checkpoint.restore(folder, saved_steps[-1], model, optimizer)
        checkpoint.write_best(folder, progress.best)
        progress.finished = loop.end(config, progress)
        log.info("going on from update %d in %s", progress.update, folder)
    checkpoint.rewind_metrics(folder, progress.update)
    wanted = config.precision
    if wanted == "auto" and progress.precision:  # chosen when the run began
        wanted = "bfloat16" if progress.precision == "bfloat16" else "float32"
    dtype = precision.resolve(wanted, device)
    progress.precision = str(dtype).removeprefix("torch.")
    log.info(
        "%s: %.1f M parameters; %s pairs; %s on %s, %d threads",
        experiment.architecture, count_parameters(model) / 1e6, f"{len(corpus):,}", progress.precision,
        device, torch.get_num_threads(),
    )  # fmt: skip
    pipeline = TextPipeline.load(data, "tgt")
    references = list(read_lines(data / "dev.raw.tgt"))

    def validate() -> Validation:
        cross_entropy, errors = loop.teacher_forced(model, dev, config.pass_tokens, device, dtype)
        found = translate_ids(model, [dev.src(i).tolist() for i in range(len(dev))], experiment.search, device=device)
        hyps = [pipeline.text(vocabularies["tgt"].tokens(best[0].ids)) for best in found]
        return Validation(cross_entropy, errors, detokenized_bleu(hyps, references))

    return loop.train(model, optimizer, config, corpus, folder, progress, validate, dtype)


def prepare_folder(folder: Path, experiment: Experiment, data: Path) -> None:
    """Make ``folder`` self-contained: the resolved configuration, vocabularies and everything prep decided."""
    folder.mkdir(parents=True, exist_ok=True)
    copy_prep(data, folder)
    for side in ("src", "tgt"):
        shutil.copyfile(data / f"vocab.{side}", folder / f"vocab.{side}")
    with atomic_write(folder / "data.json") as file:
        file.write(json.dumps(_texts(data / "ids.json")))
    checkpoint.write_config(folder, configs.to_dict(experiment))


def check_unchanged(folder: Path, experiment: Experiment, data: Path) -> None:
    """Raises UserError with old and new values when a run in ``folder`` cannot go on as ``experiment``."""
    checkpoint.check_format(folder)
    old, new = _flat(configs.load_yaml(folder / "config.yaml")), _flat(configs.to_dict(experiment))
    fixed = []
    for key in sorted({*old, *new}):
        if old.get(key) == new.get(key):
            continue
        change = f"{key} {old.get(key)} -> {new.get(key)}"
        if key.startswith(CHANGEABLE):
            log.info("changed since the last start: %s", change)
        else:
            fixed.append(change)
    if json.loads((folder / "data.json").read_text(encoding="utf-8")) != _texts(data / "ids.json"):
        fixed.append(f"{data}: another training or dev text than the run began with")
    for side in ("src", "tgt"):
        ours, theirs = Vocabulary.load(folder / f"vocab.{side}"), Vocabulary.load(data / f"vocab.{side}")
        if ours.words != theirs.words:
            fixed.append(f"vocab.{side}: {len(ours)} -> {len(theirs)} words, or other words")
    if fixed:
        raise UserError(
            f"{folder}: the run there was made with other settings: {'; '.join(fixed)}. "
            "Put them back, or train into another folder with -o"
        )


def _texts(ids: Path) -> dict[str, str]:
    """The hash of every text that a data folder's ids were made of, but for the test set's."""
    files = json.loads(ids.read_text(encoding="utf-8"))["files"]
    return {name: entry["text"] for name, entry in files.items() if not name.startswith("test")}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _architecture(name: Any) -> Any:
    """The module models/<name>.py."""
    here = Path(__file__).parent / "models"
    known = sorted(path.stem for path in here.glob("*.py") if path.stem not in ("__init__", "base"))
    if name not in known:
        raise UserError(f"architecture: {name!r} is not one of {', '.join(known)}")
    return importlib.import_module(f"nmtkit.models.{name}")
