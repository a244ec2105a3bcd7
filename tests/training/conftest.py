"""A data folder and an experiment small enough to be trained in a second."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.config import merge
from nmtkit.data.corpus import Corpus
from nmtkit.data.encoding import encode
from nmtkit.experiment.presets import load_preset
from nmtkit.experiment.run import run_experiment
from nmtkit.experiment.schema import Experiment, build_experiment
from nmtkit.folders import ModelFolder
from nmtkit.models.base import Seq2Seq
from nmtkit.text.prep import prepare
from nmtkit.text.raw import Files
from nmtkit.text.settings import Prep, Side
from nmtkit.training import checkpoint
from nmtkit.training.progress import Progress
from nmtkit.training.run import Run
from nmtkit.training.validation import Validation

CPU = torch.device("cpu")
PRECISION = os.environ.get("PRECISION", "auto")

WORDS = "ba be bi bo bu da de di do du".split()


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("small"))


def make_data(folder: Path, dev: tuple[list[str], list[str]] | None = None) -> Path:
    """Sixty pairs for training and ten for validation, or ``dev``; a translation is its source reversed."""
    choose = random.Random(1)
    raw = {}
    for split, size in (("train", 60), ("dev", 10), ("test", 5)):
        sources = [choose.choices(WORDS, k=choose.randint(1, 6)) for _ in range(size)]
        raw[split] = Files(folder / f"{split}.xx", folder / f"{split}.yy")
        raw[split].src.write_text("".join(" ".join(words) + "\n" for words in sources))
        raw[split].tgt.write_text("".join(" ".join(reversed(words)) + "\n" for words in sources))
    for path, lines in zip(raw["dev"], dev or (), strict=False):
        path.write_text("".join(f"{line}\n" for line in lines))
    side = {"normalize": False, "tokenizer": "none", "segmentation": "words"}
    prepare(raw, folder / "data", Prep(Side("xx", **side), Side("yy", **side)), workers=1)  # type: ignore[arg-type]
    encode(folder / "data", None, None, 1, False, workers=1)
    return folder / "data"


SMALL = {
    "model": {"embedding": 6, "width": 5, "attention": 4, "encoder_layers": 2, "decoder_layers": 2},
    "training": {"optimizer": {"lr": 0.01, "decay": 0.0}, "batch_sentences": 8, "max_epochs": None, "max_updates": 12},
    "search": {"max_len_a": 1.0, "max_len_b": 3},
}


def small_run(planned: Experiment, corpus: Corpus, folder: Path = Path("nowhere"), model: Seq2Seq | None = None) -> Run:
    """A run before its first update, with plain gradient descent at a learning rate of 1; nothing is written yet."""
    model = model or planned.build(14, 14)
    optimizer = torch.optim.SGD([{"params": list(model.parameters()), "lr": 1.0, "base_lr": 1.0}])
    return Run(model, optimizer, planned.training, corpus, ModelFolder(folder), Progress(), torch.float32)


def small_experiment(**training: Any) -> Experiment:
    """deep-att at toy size; dropout stays on. Precision: as ``PRECISION`` says (make test does), else auto."""
    values = merge(merge(load_preset("deep-att"), SMALL), {"training": {"precision": PRECISION}})
    return build_experiment(merge(values, {"training": training}), "small")


def trained(folder: Path, data: Path, **training: object) -> Progress:
    """The progress of a small run in ``folder``, new or resumed."""
    return run_experiment(small_experiment(**training), data, folder, CPU)


def metrics(folder: Path) -> list[dict[str, float]]:
    """The history of a run without times."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timing = ("seconds", "tokens_per_second")
    return [{key: value for key, value in record.items() if key not in timing} for record in records]


def everything(folder: Path, update: int) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint: weights and the optimizer's state."""
    path = ModelFolder(folder).checkpoint(update)
    saved = torch.load(path / "trainer.pt", weights_only=True)
    state = {
        f"{number}.{name}": torch.as_tensor(value)
        for number, entries in saved["optimizer"]["state"].items()
        for name, value in entries.items()
    }
    return state | checkpoint.load_weights(path / "model.safetensors")


def validations(measured: list[tuple[float, float]]) -> Callable[[], Validation]:
    """Validations with these pairs of cross-entropy and BLEU, in order."""
    coming = (Validation(cross_entropy, 0.5, bleu, 2 * bleu, 0.5) for cross_entropy, bleu in measured)
    return lambda: next(coming)
