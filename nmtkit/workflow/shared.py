"""Options and helpers that several commands share.

If the default of an option depends on something else, that of its field is None and its help states the default, after
two spaces, as typer writes defaults.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from nmtkit.config import nested, parse_settings
from nmtkit.errors import UserError, refuse_string
from nmtkit.folders import ModelFolder
from nmtkit.options import Option

S = TypeVar("S", bound=Path | str)
T = TypeVar("T")

ENSEMBLES = "Ensembles"  # group of the help

CHECKPOINT = Option(
    "Checkpoint of the model folder: best, last, or the number of an update. The folder of a "
    "checkpoint, such as run/checkpoints/step-876, can also be given as the model.  [default: best]"
)
COMBINE = Option(
    "How to combine the models of an ensemble: by the mean of their probabilities (prob) or of their "
    "log-probabilities (logprob, not renormalised).  [default: prob]"
)
CONFIGURATION = Option("Set one value of the configuration; may be repeated.", names="--set", metavar="KEY=VALUE")
DATA = Option("Data folder made by nmtkit prep.", names="--data -d")
DEVICE = Option("Device to run on: cpu, cuda, cuda:1, ..., or auto for a GPU if there is one.")
JOBS = Option("Number of processes.  [default: one per core]", names="--jobs -j", at_least=1)
MAX_LENGTH = Option("Compute the cross-entropy only over pairs with at most this many tokens on each side.", at_least=1)
MODEL = Option("Model folder.", names="--model -m")
MODELS = Option("Model folder; give the option several times for an ensemble.  [default: run]", names="--model -m")
OUTPUT = Option("Model folder to write.", names="--output -o")
PAIRED = Option(
    "Significance test against the first system: paired bootstrap (bs), with a two-sided p about twice "
    "sacreBLEU's, or approximate randomisation (ar)."
)
Precision = Literal["auto", "float32", "bfloat16", "int8"]  # as in ops/precision.py, which imports torch
PRECISION = Option(
    "Number format of matrix products in search; auto chooses bfloat16 if it is faster on this device, else "
    "float32; int8 is for CPUs."
)
RAW = Option(
    "Folder with {train,dev,test}.LANGUAGE, {train,dev,test}.SRC-TGT.tsv (or .csv) or {train,dev,test}.tmx (or "
    ".jsonl), also .gz and .zst, or with a folder train/ (dev/, test/) of several texts: NAME.LANGUAGE, "
    "NAME.SRC-TGT.tsv, NAME.tmx, NAME.jsonl."
)
SOURCE_LANGUAGE = Option("Source language: en, de, ...  [default: from the file names]", names="--src-lang -s")
SUBSET_METRIC = Option("Metric for subsets of the test set: any column of the first table that nmtkit score prints.")
TARGET_LANGUAGE = Option("Target language: en, de, ...  [default: from the file names]", names="--tgt-lang -t")
TYPES = Option("Use only contrastive pairs with an error of this type; may be repeated.", names="--type")
WEIGHTS = Option("Weights of the models of an ensemble, one number for each, such as 2,1,1.  [default: equal weights]")


Settings = Mapping[str, Any] | Sequence[str]  # {"training.optimizer.lr": 5e-4}, or ["training.optimizer.lr=5e-4"]


def nested_settings(settings: Settings) -> dict[str, Any]:
    """Settings with dotted keys as nested values. Raises UserError for text that is not KEY=VALUE."""
    refuse_string("settings", settings)
    return nested(settings.items()) if isinstance(settings, Mapping) else parse_settings("settings", settings)


def numbers(name: str, given: str | Sequence[float], what: str) -> tuple[float, ...]:
    """Numbers from a sequence, which must not be empty, or from comma-separated text.

    Raises UserError that the argument ``name`` must be ``what``.
    """
    try:
        found = tuple(map(float, given.split(",") if isinstance(given, str) else given))
    except (ValueError, TypeError):  # a single number is not a sequence
        found = ()
    if not found:
        raise UserError(f"`{name}` {given}: expected {what}")
    return found


def weights_of(given: str | Sequence[float] | None) -> tuple[float, ...] | None:
    """The weights of the models of an ensemble. Raises UserError for text that is not numbers."""
    return None if given is None else numbers("weights", given, "one number for each model, such as 2,1,1")


@contextmanager
def logged(logger: logging.Logger, level: int, handlers: Sequence[logging.Handler]) -> Iterator[None]:
    """Add handlers to a logger, whose level is ``level`` meanwhile; they are closed at the end."""
    before = logger.level
    logger.setLevel(level)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def several(given: S | Sequence[T]) -> Sequence[S | T]:
    """One path or text, or several, as a sequence."""
    return [given] if isinstance(given, Path | str) else given


def paths(given: Path | str | Sequence[Path | str]) -> list[Path]:
    """One or more paths as a list."""
    return list(map(Path, several(given)))


def model_paths(given: Path | str | Sequence[Path | str]) -> list[Path]:
    """One or more model folders as a list. Raises UserError if there is none: a pattern that no folder matches."""
    if not (folders := paths(given)):
        raise UserError("no model in the list; name at least one")
    return folders


def models_at(given: Path | str | Sequence[Path | str], checkpoint: str | int | None) -> list[Path]:
    """``model_paths`` with the checkpoint selected in each; see ``ModelFolder.at``."""
    return [ModelFolder.at(folder, checkpoint).named for folder in model_paths(given)]


def model_at(given: Path | str, checkpoint: str | int | None) -> Path:
    """The path of a model folder with the checkpoint selected. Raises UserError for a list of several folders."""
    chosen, *others = models_at(given, checkpoint)
    if others:
        raise UserError("`model`: one folder is expected, not several; to combine models, use nmtkit.ensemble")
    return chosen


def presets(incomplete: str) -> list[str]:
    """The names of presets and small versions that begin with this text, for completion in the shell."""
    from nmtkit.experiment.presets import SMALL, preset_names

    names = preset_names()
    return [name for name in (*names, *(name + SMALL for name in names)) if name.startswith(incomplete)]
