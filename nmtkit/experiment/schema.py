"""The schema of an experiment: paper, architecture, model, data, training and search."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from nmtkit import config as configs
from nmtkit.errors import UserError
from nmtkit.folders import ModelFolder
from nmtkit.machine.memory import is_full
from nmtkit.models.base import Seq2Seq
from nmtkit.search.settings import Search
from nmtkit.training.settings import Training


@dataclass(frozen=True)
class Paper:
    """The paper of a system and its reported figures, null where it reports none."""

    title: str
    section: str  # tables and sections that define the system
    task: str  # language pair, training data, test set, kind of BLEU
    score: float | None = None  # published BLEU of this single model
    parameters: float | None = None  # millions, as printed


@dataclass(frozen=True)
class Data:
    """The data of the paper. A run uses the vocabulary sizes of its data folder."""

    segmentation: str
    src_vocab: int  # the four symbols included
    tgt_vocab: int

    def __post_init__(self) -> None:
        configs.require_counts(5, self, "src_vocab", "tgt_vocab")

    @property
    def words(self) -> tuple[int, int]:
        """The sizes of the source and target vocabularies."""
        return self.src_vocab, self.tgt_vocab


@dataclass(frozen=True)
class Experiment:
    """All settings of a run except its data: the schema of presets and of config.yaml.

    ``model`` is the Config of ``models/<architecture>.py``.
    """

    paper: Paper
    architecture: str
    model: Any
    data: Data
    training: Training
    search: Search

    def build(self, src_words: int, tgt_words: int) -> Seq2Seq:
        """The model with its random initial weights. Raises UserError if it is too large for the memory."""
        try:
            model: Seq2Seq = _architecture(self.architecture).build(self.model, src_words, tgt_words)
        except (RuntimeError, MemoryError) as error:
            if not is_full(error):
                raise
            raise UserError(f"model: too large for this machine; use smaller sizes ({str(error)[:200]})") from None
        return model

    def empty(self, src_words: int, tgt_words: int, device: str = "meta") -> Seq2Seq:
        """The model with uninitialised weights; on the meta device, shapes without memory."""
        with torch.device(device), _Unfilled():
            return self.build(src_words, tgt_words)


class _Unfilled(TorchFunctionMode):
    """A mode that skips random initialisation and leaves tensors uninitialised.

    Full-size BiDeep is built in 1.2 s instead of 24 s on one thread. On the meta device, initialisation would import
    PyTorch's compiler, which takes one to two seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of ``func``, or its argument if ``func`` is an initialiser."""
        kwargs = kwargs or {}
        # Functions of torch.nn.init and tensor methods; one that is missing here only takes time.
        if func.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):
            return args[0] if args else kwargs["tensor"]
        if func is torch.linalg.qr:
            return args[0], args[0]
        return func(*args, **kwargs)


def build_experiment(values: Mapping[str, Any], where: str) -> Experiment:
    """An experiment from plain values. Raises UserError, beginning with ``where``, if they do not fit the schema."""
    if "base" in values:
        raise UserError(
            f"{where}: base: not a key of a configuration; name the preset as `model`, and keep in the file only the "
            "values that differ from it"
        )
    architecture = values.get("architecture")
    if architecture is None:
        raise UserError(f"{where}: architecture: missing; name a preset as `model`, or copy it from one")
    return configs.build(Experiment, values, where, {"model": _architecture(architecture).Config})


def load_experiment(folder: ModelFolder) -> Experiment:
    """The experiment of a model folder. Raises UserError if its configuration is invalid."""
    return build_experiment(configs.load_yaml(folder.config), str(folder.config))


def differences(old: Experiment, new: Experiment) -> list[tuple[str, str, str]]:
    """The dotted key, the old and the new value of everything that differs."""
    before, after = (configs.flatten(configs.to_dict(experiment)) for experiment in (old, new))
    keys = (key for key in {**before, **after} if before.get(key) != after.get(key))
    return [(key, str(before.get(key)), str(after.get(key))) for key in keys]


def _architecture(name: Any) -> Any:
    """The module models/<name>.py. Raises UserError if there is none."""
    folder = Path(__file__).parents[1] / "models"
    known = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "base"))
    if name not in known:
        raise UserError(f"architecture: {name!r} is not one of {', '.join(known)}")
    return importlib.import_module(f"nmtkit.models.{name}")
