"""Training of an experiment in a model folder, from scratch or from the newest checkpoint."""

import hashlib
import json
import logging
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch

from nmtkit import config as configs
from nmtkit.data.corpus import Corpus, read_header
from nmtkit.data.vocab import Vocabulary
from nmtkit.errors import UserError, counted
from nmtkit.experiment.development import DevelopmentSet, validate
from nmtkit.experiment.schema import Experiment, differences, load_experiment
from nmtkit.experiment.warm_start import Origin, check_origin, take_weights
from nmtkit.folders import SIDES, ModelFolder, TextFiles, read_text
from nmtkit.kernels import door
from nmtkit.layers.embedding import SharedEmbedding
from nmtkit.machine.threads import choose_threads
from nmtkit.models.base import Seq2Seq, count_parameters, is_dropout
from nmtkit.ops.plain import PLAIN
from nmtkit.ops.precision import TrainingPrecision, dtype_of
from nmtkit.text.manifest import read_json, reference_files
from nmtkit.text.pipeline import copy_prep
from nmtkit.training import checkpoint, distributed, estimate, loop, metrics, optimizers
from nmtkit.training.graphs import graphs_for
from nmtkit.training.progress import Progress
from nmtkit.training.run import Run, sample_pairs
from nmtkit.training.settings import on_resume
from nmtkit.writing import copy_file, locked, make_folder, write_file

log = logging.getLogger(__name__)


def run_experiment(
    experiment: Experiment, data: Path, path: Path, device: torch.device, start: Path | None = None
) -> Progress:
    """Train on the data folder ``data`` in the model folder ``path``, from scratch or from its newest checkpoint.

    start: a model whose weights initialise a new run (warm_start.py).
    """
    folder, config = ModelFolder(path), experiment.training
    if folder.members.is_dir():
        raise UserError(f"{path}: is an ensemble; train into another folder")
    corpus, development = Corpus.open(data, "train"), DevelopmentSet.load(data)
    vocabularies = {side: Vocabulary.load(TextFiles(data).vocabulary(side)) for side in SIDES}
    torch.manual_seed(config.seed_of(config.init_seed))
    model = experiment.build(len(vocabularies["src"]), len(vocabularies["tgt"]))
    if isinstance(model.embedding["src"], SharedEmbedding) and vocabularies["src"].words != vocabularies["tgt"].words:
        raise UserError(
            f"{data}: the model shares one embedding between both sides, but the vocabularies differ; "
            "make a joint one with nmtkit vocab (`joint`), or set model.tied: target"
        )
    optimizers.initialise(model, config.groups)
    model.to(device)
    optimizer = optimizers.build_optimizer(model, config.optimizer, config.groups)

    # Training pairs to measure the token error rate on, as many as in the development set.
    seen = sample_pairs(corpus, config.max_length, len(development.pairs))
    # The first process holds the lock for all processes.
    with nullcontext() if distributed.rank() else locked(path, "training"):
        experiment = _with_budget_of_run(experiment, folder)
        progress = _resume(experiment, data, folder, model, optimizer, None if start is None else ModelFolder.of(start))
        dtype = _precision(config.precision, progress, device)
        progress.precision = str(dtype).removeprefix("torch.")
        # Several processes have already divided the cores (distributed.py).
        if device.type == "cpu" and distributed.size() == 1:
            threads = choose_threads(progress.threads)
            progress.threads = progress.threads or threads  # OMP_NUM_THREADS may be set for one start alone
        settings, pairs = experiment.training, counted(len(corpus), "pair")
        run = Run(model, optimizer, settings, corpus, folder, progress, dtype, graphs_for(device)).with_concatenations()
        machine = f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
        if added := len(run.corpus) - len(corpus):
            pairs += f" and {counted(added, 'concatenation')} of two, new ones in each epoch"
        log.info(
            "%s: %.1f M parameters; %s; %s on %s, %d x %d threads",
            experiment.architecture, count_parameters(model) / 1e6, pairs, progress.precision,
            machine, distributed.size(), torch.get_num_threads(),
        )  # fmt: skip
        log.info(door.report(PLAIN, device.type))
        log.info(development.describe_metrics())
        if run.settings.batch_tokens == "auto":
            run = replace(run, settings=replace(run.settings, batch_tokens=estimate.busy_budget(run)))
            log.info("training.batch_tokens: auto is %s here", f"{run.settings.batch_tokens:,}")
            if not distributed.rank():
                # Replaces ``auto`` in the configuration, so that a resumed run has the same batches.
                folder.write_config(configs.to_dict(replace(experiment, training=run.settings)))
                folder.seal()
        loop.train(run, partial(validate, run, development, seen, experiment.search))
    return progress


def _with_budget_of_run(experiment: Experiment, folder: ModelFolder) -> Experiment:
    """``experiment`` with the ``batch_tokens`` that ``auto`` resolved to when the run in ``folder`` began."""
    if experiment.training.batch_tokens != "auto" or not folder.updates():
        return experiment
    tokens = load_experiment(folder).training.batch_tokens or "auto"  # check_unchanged refuses a run by sentences
    return replace(experiment, training=replace(experiment.training, batch_tokens=tokens))


def _resume(
    experiment: Experiment,
    data: Path,
    folder: ModelFolder,
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    start: ModelFolder | None,
) -> Progress:
    """Prepare ``folder``, and restore its newest checkpoint, else the weights of ``start``."""
    first, saved_steps = distributed.rank() == 0, folder.updates()
    if first and saved_steps:
        if start is not None:
            check_origin(folder, start)
        check_unchanged(folder, experiment, data)
    if first and not saved_steps:
        if read_text(folder.ranking):
            raise UserError(f"{folder.checkpoints}: the checkpoints of {folder} are gone; restore them, or train into "
                            "another folder")  # fmt: skip
        origin = None if start is None else take_weights(model, experiment, data, ModelFolder.at(start.named))
        prepare_folder(folder, experiment, data, origin)
    distributed.copy_first(model)  # the others wait here for the first one
    progress = Progress()
    if saved_steps:
        progress = checkpoint.restore(folder, saved_steps[-1], model, optimizer)
        # A deleted checkpoint, for example a damaged one, must not take a place in the ranking.
        progress.best = [entry for entry in progress.best if int(entry[0]) in saved_steps]
        progress.finished = progress.end(experiment.training)
        if first:  # a folder that cannot be resumed is not changed
            prepare_folder(folder, experiment, data, None)
        log.info("resuming from update %d in %s", progress.update, folder)
    # A process with a different folder would silently start from a different state.
    if distributed.highest(progress.update) != progress.update:
        raise UserError(f"{folder}: differs between processes; it must be on a disk that all machines share")
    if first:
        folder.write_ranking(progress.best)
        # A killed run may have logged updates after its last checkpoint, which are now repeated.
        metrics.rewind_metrics(folder, progress)
    return progress


def _precision(wanted: TrainingPrecision, progress: Progress, device: torch.device) -> torch.dtype:
    """The number format of products; for ``auto``, that of the resumed run, else the choice of the first process."""
    if wanted == "auto" and progress.precision:
        wanted = "bfloat16" if progress.precision == "bfloat16" else "float32"
    low = distributed.rank() == 0 and dtype_of(wanted, device) == torch.bfloat16
    return torch.bfloat16 if distributed.highest(low) else torch.float32


def prepare_folder(folder: ModelFolder, experiment: Experiment, data: Path, origin: Origin | None) -> None:
    """Write everything except weights to ``folder``: configuration, vocabularies, and the models learned by prep.

    origin: the checkpoint that initialises a new run, if any.
    """
    make_folder(folder.path)
    folder.unseal()
    source, copy = TextFiles(data), folder.text
    copy_prep(data, folder.path)
    for side in SIDES:
        Vocabulary.load(source.vocabulary(side)).save(copy.vocabulary(side))
    if source.lexicon.is_file():
        copy_file(source.lexicon, copy.lexicon)
    elif not folder.updates():  # left by a run without a checkpoint
        copy.lexicon.unlink(missing_ok=True)
    write_file(folder.corpus, json.dumps(_texts(data)))
    if origin is not None:
        write_file(folder.origin, json.dumps(asdict(origin), indent=1) + "\n")
    elif not folder.updates():  # left by a run without a checkpoint
        folder.origin.unlink(missing_ok=True)
    folder.write_config(configs.to_dict(experiment))
    folder.seal()


def check_unchanged(folder: ModelFolder, experiment: Experiment, data: Path) -> None:
    """Raise UserError, and log old and new values, if the run in ``folder`` cannot be resumed as ``experiment``."""
    folder.check()
    began = load_experiment(folder)
    changed = differences(began, experiment)
    fixed = [row for row in changed if _on_resume(row[0]) == "fixed"]  # reported together, as a table
    remedy = "restore it from a backup, or train again"
    old_texts = {name: str(text) for name, text in read_json(folder.corpus, remedy).items()}
    new_texts = _texts(data)
    if "dev.raw.tgt" not in old_texts:  # a run of an older version
        new_texts = {name: text for name, text in new_texts.items() if not name.startswith("dev.raw.tgt")}
    fixed += [(f"text {name}", old_texts.get(name, "none")[:12], new_texts.get(name, "none")[:12])
              for name in {**old_texts, **new_texts} if old_texts.get(name) != new_texts.get(name)]  # fmt: skip
    for side in SIDES:
        path = folder.text.vocabulary(side)
        then, now = Vocabulary.load(path), Vocabulary.load(TextFiles(data).vocabulary(side))
        if then.words != now.words:
            before, after = (f"{len(each):,} words, {each.fingerprint[:12]}" for each in (then, now))
            fixed.append((path.name, before, after))
    if not fixed:
        for row in changed:
            log.info("changed since the last start: %s %s -> %s", *row)
        if any(_on_resume(key) == "hyperparameter" for key, _, _ in changed):
            log.info("the new settings apply after update %d; a run that had them from the start would differ",
                     folder.updates()[-1])  # fmt: skip
        return
    if began.architecture != experiment.architecture:  # the other settings differ anyway
        fixed = [row for row in fixed if row[0] == "architecture"]
    widths = [max(map(len, column)) for column in zip(*fixed, ("", "in the run", ""), strict=True)]
    for key, before, after in [("", "in the run", "now"), *fixed]:
        log.error("%s  %s  %s", key.ljust(widths[0]), before.ljust(widths[1]), after)
    raise UserError(
        f"{folder}: the run there differs, see above: {', '.join(row[0] for row in fixed)}; "
        "restore these, or train into another folder (`output`), from this model (`start`) or from scratch"
    )


def check_same_run(average: ModelFolder, run: ModelFolder) -> None:
    """Raise UserError if there is a model in the folder ``average`` that is not an average of this run."""
    average.check_replaceable()
    if not average.config.exists():
        return
    changed = differences(load_experiment(average), load_experiment(run))
    differing = [key for key, _, _ in changed if _on_resume(key) != "free"]
    remedy = "restore it from a backup"
    texts = [read_json(folder.corpus, remedy) if folder.corpus.exists() else {} for folder in (average, run)]
    if any(texts[0][name] != texts[1][name] for name in texts[0].keys() & texts[1].keys()):
        differing.append("text")
    if differing:
        named = ", ".join(differing[:3]) + (" and others" if len(differing) > 3 else "")
        raise UserError(
            f"{average}: has a model of another run, not {run}, with other values of {named}; remove it, or name "
            "another folder (`output`)"
        )


def _on_resume(key: str) -> configs.Resume:
    """Whether a resumed run may change this key of the configuration."""
    part, _, name = key.partition(".")
    if part == "training":
        return on_resume(name)
    if part == "model":
        return "hyperparameter" if is_dropout(name) else "fixed"
    return "free" if part in ("paper", "data", "search") else "fixed"


def _texts(data: Path) -> dict[str, str]:
    """Hashes of the tokenised texts and alignments of a data folder and of dev's references; none of the test set."""
    entries = {name: entry for name, entry in read_header(data).items() if not name.startswith("test")}
    texts = {name: entry.text for name, entry in entries.items()}
    texts |= {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in reference_files(data, "dev")}
    return texts | {f"{name}, annotated": entry.alignment for name, entry in entries.items() if entry.alignment}
